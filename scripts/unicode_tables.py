"""Writes datasets/tokenizer/split/unicode_table.cpp: what \\p{..} and \\s mean in the regular expressions of a tokenizer.json.

    scripts/oracle_python.sh scripts/unicode_tables.py > datasets/tokenizer/split/unicode_table.cpp
    scripts/oracle_python.sh scripts/unicode_tables.py --check    exit 1 when the file in the repository differs

The package `tokenizers` is asked, code point by code point, because its Unicode version is what decides how text is
split; the system's is another one.
"""

import os
import sys

try:
    import tokenizers
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split
except ImportError:
    print("unicode_tables: error: no package tokenizers; run scripts/setup.sh --oracles", file=sys.stderr)
    sys.exit(6)

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
LAST = 0x10FFFF
CHARACTERS = [c for c in range(LAST + 1) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(map(chr, CHARACTERS))

# A code point that a version of Unicode was the first to assign.
NEW_IN = {"14.0": 0x1E290, "15.0": 0x1E4D0, "15.1": 0x2EBF0, "16.0": 0x10D40, "17.0": 0x16EA0}


def matches(pattern):
    """The code points that a pattern for one character matches."""
    found = set(CHARACTERS)
    for _, (begin, end) in Split(Regex(f"(?:{pattern})+"), "removed").pre_tokenize_str(TEXT):
        found.difference_update(CHARACTERS[begin:end])
    return found


def category_runs():
    category = ["Cn"] * (LAST + 1)
    category[0xD800:0xE000] = ["Cs"] * 0x800  # no text has them
    for name in CATEGORIES:
        for c in matches(rf"\p{{{name}}}"):
            assert category[c] == "Cn", f"U+{c:04X} is in two categories"
            category[c] = name
    for letter in "LMNPSZ":
        assert matches(rf"\p{{{letter}}}") == {c for c in CHARACTERS if category[c][0] == letter}, letter
    assert matches(r"\d") == {c for c in CHARACTERS if category[c] == "Nd"}
    runs = []
    for c in range(LAST + 1):
        if runs and runs[-1][0] == category[c]:
            runs[-1][1] += 1
        else:
            runs.append([category[c], 1])
    version = max((v for v, c in NEW_IN.items() if category[c] != "Cn"), key=lambda v: float(v), default="before 14.0")
    return runs, version


def ranges(code_points):
    found = []
    for c in sorted(code_points):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def quoted_lines(words):
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 102:
            lines.append("")
        lines[-1] += word
    return "\n".join(f'    "{line}"' for line in lines)


def rows(cells):
    """Five in a line, as clang-format sets them."""
    width = max(map(len, cells)) + 1
    lines = ("".join(cell.ljust(width) for cell in cells[i : i + 5]) for i in range(0, len(cells), 5))
    return "\n".join("    " + line.rstrip() for line in lines)


def table():
    runs, version = category_runs()
    spaces = ranges(matches(r"\s"))
    return f"""// Written by scripts/unicode_tables.py from tokenizers {tokenizers.__version__}, Unicode {version}. Do not edit.
#include "datasets/tokenizer/split/unicode.h"

namespace rondo {{

const std::string_view kUnicodeVersion = "{version}";

const std::vector<CodePointRange> kUnicodeSpaces = {{
{rows([f"{{{first:#x}, {last:#x}}}," for first, last in spaces])}
}};

const std::string_view kUnicodeCategoryRuns =
{quoted_lines(f"{name}{length}" for name, length in runs)};

}}  // namespace rondo
"""


text = table()
if sys.argv[1:] == ["--check"]:
    path = os.path.join(os.path.dirname(__file__), "../datasets/tokenizer/split/unicode_table.cpp")
    if open(path, encoding="utf-8").read() != text:
        sys.exit("unicode_tables: datasets/tokenizer/split/unicode_table.cpp is not what the package tokenizers says; write it anew")
else:
    sys.stdout.write(text)
