"""Compares the speed of tokenizers on one thread: Rondo, its reference engine, `tokenizers` and tiktoken.

    scripts/oracle_python.sh benchmarks/bench_tokenizer.py --texts DOCUMENTS.jsonl --vocabulary tokenizer.json
        [--before OLD_ENCODE_TEXTS] [--rounds 5] [--megabytes 200] [--slow-megabytes 10]

The vocabulary is a byte-level BPE, and each pattern is applied with its merges. The contestants run in turns. A time is
processor time (user), which another program on the machine lengthens less than it lengthens the time of a clock. Each
pass starts with empty caches. Slow contestants encode the first --slow-megabytes. Ids are compared before anything is
timed. tiktoken is left out where Python has no such package.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import struct
import subprocess
import sys
import tempfile

os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402

try:
    import tiktoken
except ImportError:
    tiktoken = None

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
ENDS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def llama(digits):
    return CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + ENDS


PATTERNS = {
    "GPT-2": (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", None),
    "Llama 3": (llama(r"\p{N}{1,3}"), None),
    "Qwen3": (llama(r"\p{N}"), {"type": "NFC"}),
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--texts", required=True, help="documents: JSON lines with the field text")
    p.add_argument("--vocabulary", required=True, help="a tokenizer.json with a byte-level BPE")
    p.add_argument("--encode-texts", default="build/cpu/tests/encode_texts")
    p.add_argument("--before", help="the encode_texts of an older commit, to compare with")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--megabytes", type=float, default=200)
    p.add_argument("--slow-megabytes", type=float, default=10)
    p.add_argument("--only", nargs="+", choices=PATTERNS, default=list(PATTERNS))
    return p.parse_args()


def read_documents(path, most_bytes):
    documents, size = [], 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            documents.append(json.loads(line)["text"])
            size += len(documents[-1].encode("utf-8"))
            if size >= most_bytes:
                break
    return documents


def write_texts(documents, path):
    """Returns the bytes of text."""
    size = 0
    with open(path, "wb") as file:
        for document in documents:
            data = document.encode("utf-8")
            file.write(struct.pack("<I", len(data)) + data)
            size += len(data)
    return size


def write_tokenizer(vocabulary, pattern, normalizer, folder):
    document = json.loads(pathlib.Path(vocabulary).read_text(encoding="utf-8"))
    document["normalizer"] = normalizer
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def user_seconds(work):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


def rondo(program, path, mode, texts):
    return float(subprocess.run([program, path, mode, texts], check=True, capture_output=True, text=True).stdout)


def make_tiktoken(path, pattern):
    """The same vocabulary: ids in the order of the merges."""
    document = json.loads(path.read_text(encoding="utf-8"))
    alphabet = [chr(c) for c in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))]
    byte_of = {c: ord(c) for c in alphabet}
    byte_of |= {chr(0x100 + i): b for i, b in enumerate(b for b in range(256) if chr(b) not in byte_of)}
    special = {t["content"] for t in document["added_tokens"]}
    ranks = {bytes(byte_of[c] for c in token): i for token, i in document["model"]["vocab"].items() if token not in special}
    return tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def contestants(a, name, folder, documents, slow_documents):
    pattern, normalizer = PATTERNS[name]
    path = write_tokenizer(a.vocabulary, pattern, normalizer, folder)
    size, slow_size = write_texts(documents, folder / "texts"), write_texts(slow_documents, folder / "slow")
    subprocess.run([a.encode_texts, path, "engines", folder / "slow"], check=True)
    theirs = Tokenizer.from_file(str(path))
    rows = {"Rondo": (size, lambda: rondo(a.encode_texts, path, "speed", folder / "texts"))}
    if a.before:
        rows["Rondo before"] = (size, lambda: rondo(a.before, path, "speed", folder / "texts"))
    rows["Rondo, reference engine"] = (slow_size, lambda: rondo(a.encode_texts, path, "reference_speed", folder / "slow"))
    rows["tokenizers"] = (slow_size, lambda: user_seconds(
        lambda: theirs.encode_batch_fast(slow_documents, add_special_tokens=False)))
    if tiktoken:
        encoding = make_tiktoken(path, pattern)
        sample = slow_documents[:200]
        if any(encoding.encode_ordinary(d) != theirs.encode(d, add_special_tokens=False).ids for d in sample):
            print(f"{name}: tiktoken has other ids", file=sys.stderr)
        rows["tiktoken"] = (slow_size, lambda: user_seconds(lambda: [encoding.encode_ordinary(d) for d in slow_documents]))
    return rows


def main():
    a = arguments()
    documents = read_documents(a.texts, a.megabytes * 1e6)
    slow_documents = read_documents(a.texts, a.slow_megabytes * 1e6)
    print("| pattern | tokenizer | MB | MB/s a core, median | least and most |\n|---|---|---|---|---|")
    for name in a.only:
        with tempfile.TemporaryDirectory() as folder:
            rows = contestants(a, name, pathlib.Path(folder), documents, slow_documents)
            speeds = {row: [] for row in rows}
            for _ in range(a.rounds):
                for row, (size, run) in rows.items():
                    speeds[row].append(size / 1e6 / run())
            for row, values in speeds.items():
                print(f"| {name} | {row} | {rows[row][0] / 1e6:.0f} | {statistics.median(values):.1f} "
                      f"| {min(values):.1f} to {max(values):.1f} |", flush=True)


if __name__ == "__main__":
    main()
