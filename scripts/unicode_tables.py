"""Writes datasets/tokenizer/split/unicode_table.cpp: the sets of code points that a tokenizer.json refers to.

    scripts/oracle_python.sh scripts/unicode_tables.py > datasets/tokenizer/split/unicode_table.cpp
    scripts/oracle_python.sh scripts/unicode_tables.py --check    exit 1 when the file in the repository differs

The sets come from the package `tokenizers`, code point by code point. Its parts use different versions of Unicode:
regular expressions, Rust's standard library, and the crates for punctuation and for normalization.
"""

import os
import sys

try:
    import tokenizers
    from tokenizers import Regex, normalizers
    from tokenizers.pre_tokenizers import Digits, Punctuation, Split, Whitespace, WhitespaceSplit
except ImportError:
    print("unicode_tables: error: no package tokenizers; run scripts/setup.sh --oracles", file=sys.stderr)
    sys.exit(6)

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
SCRIPTS = (
    "Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul Hebrew "
    "Hiragana Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Sinhala Tamil Telugu Thai Tibetan"
).split()
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


def without(pre_tokenizer):
    """The code points that a pre-tokenizer removes."""
    kept = set()
    for _, (begin, end) in pre_tokenizer.pre_tokenize_str(TEXT):
        kept.update(CHARACTERS[begin:end])
    return set(CHARACTERS) - kept


def words():
    """The code points that go on with a word."""
    pieces = Whitespace().pre_tokenize_str("".join(f"a{c} " for c in TEXT))
    return {CHARACTERS[begin // 3] for _, (begin, end) in pieces if end - begin == 2 and begin % 3 == 0}


def numbers():
    pieces = Digits().pre_tokenize_str("".join(f"a{c}" for c in TEXT))
    return {CHARACTERS[begin // 2] for _, (begin, _) in pieces if begin % 2 == 1}


def mapped(normalizer, format="{}"):
    """What a normalizer makes of each code point. Lines keep them apart."""
    texts = normalizer.normalize_str("\n".join(format.format(c) for c in TEXT if c != "\n")).split("\n")
    texts.insert(CHARACTERS.index(10), format.format("\n"))
    assert len(texts) == len(CHARACTERS)
    return dict(zip(CHARACTERS, texts))


def normalization():
    """The code points that normalization knows, and those that may be the second of a pair that it composes."""
    nfd, nfc = normalizers.NFD(), normalizers.NFC()
    known, seconds = set(), set()
    for c, text in mapped(normalizers.NFKD()).items():
        if text != chr(c):
            known.add(c)
    for before, after in (("", "\u0334"), ("\u0345", "")):
        form = "a" + before + "{}" + after
        known.update(c for c, text in mapped(nfd, form).items() if text != nfd.normalize_str(form.format("\0")).replace("\0", nfd.normalize_str(chr(c))))
    for c, text in mapped(nfd).items():
        if len(text) > 1 and nfc.normalize_str(text) == chr(c):
            known.update(map(ord, text), map(ord, nfc.normalize_str(text[:-1])))
            seconds.add(ord(text[-1]))
    return known, seconds


def lowercase():
    """(first, last, step, difference) of the code points whose lowercase is one other code point."""
    runs = []
    for c, text in mapped(normalizers.Lowercase()).items():
        if text == chr(c):
            continue
        if len(text) > 1:
            assert (c, text) == (0x130, "i\u0307")
            continue
        difference, last = ord(text) - c, runs[-1] if runs else None
        if last and last[3] == difference and (c - last[1] == last[2] or last[0] == last[1] and c - last[1] <= 2):
            last[2], last[1] = c - last[1], c
        else:
            runs.append([c, c, 1, difference])
    return runs


def quoted_lines(words):
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 102:
            lines.append("")
        lines[-1] += word
    return "\n".join(f'    "{line}"' for line in lines)


def set_lines(code_points):
    """Pairs of lengths: code points outside of the set, and within."""
    words, end = [], 0
    for first, last in ranges(code_points):
        words.append(f"{first - end} {last - first + 1} ")
        end = last + 1
    return quoted_lines(words)


def table():
    runs, version = category_runs()
    spaces = matches(r"\s")
    assert spaces == without(WhitespaceSplit())
    known, seconds = normalization()
    sets = {
        "spaces": spaces,
        "words": words(),
        "numbers": numbers(),
        "punctuation": without(Punctuation("removed")),
        "marks": {c for c, text in mapped(normalizers.StripAccents()).items() if not text},
        "normalizable": known,
        "seconds": seconds,
        **{name: matches(rf"\p{{{name}}}") for name in SCRIPTS},
    }
    rows = "\n".join(f'    {{"{name}",\n{set_lines(points)}}},' for name, points in sets.items())
    lower = quoted_lines(" ".join(map(str, run)) + " " for run in lowercase())
    return f"""// Written by scripts/unicode_tables.py from tokenizers {tokenizers.__version__}, Unicode {version}. Do not edit.
#include "datasets/tokenizer/split/unicode.h"

namespace rondo {{

const std::string_view kUnicodeVersion = "{version}";

const std::vector<UnicodeSetRuns> kUnicodeSets = {{
{rows}
}};

const std::string_view kUnicodeLowercase =
{lower};

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
