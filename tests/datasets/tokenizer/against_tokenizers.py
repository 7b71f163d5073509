"""Compares our tokenizer with the package `tokenizers`: the words that text is split into, and ids.

    scripts/oracle_python.sh tests/datasets/tokenizer/against_tokenizers.py ENCODE_TEXTS [--full | --speed] [NAME...]

The patterns are those of the published tokenizer.json files of GPT-2, Llama 3 and DeepSeek-V3, and o200k; the merges are
trained here, on the sources of this project. The default is a sample that takes seconds; --full is every code point in
three contexts, 60,000 random strings and 4 MB of the corpus for each pattern. With --full our two engines are compared,
too, on the whole corpus. --speed compares nothing: it prints MB/s of both, over the processor time of one thread. NAMEs
leave out the other patterns. Exit 1 on the first difference, 6 when the package is not there.
"""

import functools
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
try:
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors, trainers
except ImportError:
    print("against_tokenizers: no package tokenizers; run scripts/setup.sh --oracles", file=sys.stderr)
    sys.exit(6)

ROOT = pathlib.Path(__file__).resolve().parents[3]

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TIKTOKEN_CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    # As published: CR and LF are the characters themselves.
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
CLASSES = r"[^\d\p{Lt}-]+\p{^Lu}?|\D\S{2,}\P{M}|[\S-]\u0041*+|\."  # ours: every escape that is understood


def splits(patterns, behavior="isolated", invert=False, **byte_level):
    steps = [pre_tokenizers.Split(p, behavior, invert) for p in patterns]
    options = {"add_prefix_space": False, "use_regex": False, **byte_level}
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(**options)])


def regexes(*patterns):
    return [Regex(p) for p in patterns]


PRE_TOKENIZERS = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    "llama3": splits(regexes(LLAMA3)),
    "deepseek_v3_numbers": splits(regexes(DEEPSEEK_V3[0])),
    "deepseek_v3_cjk": splits(regexes(DEEPSEEK_V3[1])),
    "deepseek_v3_words": splits(regexes(DEEPSEEK_V3[2])),
    "deepseek_v3": splits(regexes(*DEEPSEEK_V3)),
    "o200k": splits(regexes(O200K)),
    "prefix_space": splits(["qu"], add_prefix_space=True, use_regex=True),
    "removed": splits(regexes(LLAMA3), "removed", invert=True),
    "removed_matches": splits(["th"], "removed"),
    "classes": splits(regexes(CLASSES)),
    "codes": splits(regexes(r"\x41[\x{e9}\u00c9\x7f-\x{a0}]?|[\x{1F600}-\x{1f64f}\P{^Lu}]|\P{^L}\x0a")),
}
ADDED = [
    AddedToken("<|begin|>", normalized=False, special=True),
    AddedToken("<|end|>", normalized=False, special=True),
    AddedToken("<\uff5cpad\u2581\uff5c>", normalized=False, special=True),
    AddedToken("<|end|>\n", normalized=False),
    AddedToken("<|", normalized=True),
    AddedToken("\u00e9\u00e9", normalized=True),
]


# --- texts

CLUSTERS = (
    "a b c z A Z ' 's 'T 'LL 're 'Ve 'm 'D \u017f '\u017f 0 1 23 4567 \u0663 \u2155 \u216b . , ; ! ? <| <|begin|> <|end|> | > _ - + = "
    "$ \u20ac / // \\ [ ] { } ~ @ # \u4e2d\u6587 \u9fa6 \u3042 \u30ab \u30ff \uac00 \u0430\u0431 \u05d0 \u0627 \u0915\u093f "
    "\u0e01 \u0301 \u20dd \u200d \ufe0f \U0001f600 \U0001f468\u200d\U0001f469 \U00020000 \U000e0041 \u01c5 \u02b0 \u00aa "
    "\u00df \u00e9\u00e9 e\u0301 \ufb06 \u212a \u0130 \ufffd \x00 \x7f \x85 \u180e \u200b \u2028 \ufeff qu th the"
).split(" ") + [" ", " ", "  ", "   ", "\n", "\r\n", "\r", "\n\n", "\t", "\x0b", "\x0c", "\u00a0", "\u3000", "\u1680", "\u2003"]


def random_character(rng):
    limit = rng.choice([0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000])
    while True:
        c = rng.randrange(limit)
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


def random_texts(count, seed):
    rng = random.Random(seed)
    texts = []
    for _ in range(count):
        pieces = [rng.choice(CLUSTERS) if rng.random() < 0.8 else random_character(rng) for _ in range(rng.randrange(1, 24))]
        texts.append("".join(pieces))
    return texts


def code_point_texts(step):
    """Each code point after itself, between letters, and between a space and a digit; 64 of them in a text."""
    points = [chr(c) for c in range(0, 0x110000, step) if not 0xD800 <= c <= 0xDFFF]
    for context in ("{0}{0} ", "a{0}b", " {0}1{0}'s\n"):
        for i in range(0, len(points), 64):
            yield "".join(context.format(c) for c in points[i : i + 64])


def source_texts():
    files = sorted(p for kind in ("*.md", "*.h", "*.cpp", "*.sh") for folder in ("docs", "compiler", "parallel", "trainer")
                   for p in (ROOT / folder).rglob(kind))
    return [p.read_text(encoding="utf-8") for p in files]


def corpus_texts(most_bytes):
    """Documents of the default corpus (scripts/make_corpus.sh), or of the project's sources where there is none."""
    corpus = ROOT / "data/corpus/headers.packed"
    if not corpus.exists():
        return source_texts()
    with open(corpus, "rb") as file:
        data = file.read(most_bytes)
    size = 1 << 16
    return [data[i : i + size].decode("utf-8", errors="ignore") for i in range(0, len(data), size)]


# --- tokenizers

def train(name, vocab_size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[name]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|begin|>"]
    )
    tokenizer.train_from_iterator(source_texts() + random_texts(4000, seed=1), trainer)
    tokenizer.add_tokens(ADDED)
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)])
    tokenizer.decoder = None
    return tokenizer


@functools.cache
def one_model():
    return train("llama3", 1500)


def quickly_trained(name):
    tokenizer = one_model()
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[name]
    return tokenizer


def saved(tokenizer, name, folder):
    """The tokenizer in a file, and read again, so that both read the same bytes."""
    document = json.loads(tokenizer.to_str())
    document["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    document["model"]["ignore_merges"] = name in ("llama3", "o200k")
    if name == "gpt2":  # the older way to write merges
        document["model"]["merges"] = [" ".join(m) if isinstance(m, list) else m for m in document["model"]["merges"]]
    if name == "llama3":  # words that merges do not reach
        for token in ("Ġtokenizer", "ĠcompilerĠ", "zzzz"):
            document["model"]["vocab"].setdefault(token, len(document["model"]["vocab"]))
        before = tokenizer.get_vocab_size(with_added_tokens=False)
        for token in document["added_tokens"]:
            token["id"] += len(document["model"]["vocab"]) - before if token["id"] >= before else 0
    path = folder / name / "tokenizer.json"
    path.parent.mkdir()
    path.write_text(json.dumps(document), encoding="utf-8")
    return path, Tokenizer.from_file(str(path))


# --- comparison

def write_texts(texts, path):
    with open(path, "wb") as file:
        for text in texts:
            data = text.encode("utf-8")
            file.write(struct.pack("<I", len(data)) + data)


def read_numbers(path):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        yield struct.unpack_from(f"<{count}i", data, at + 4)
        at += 4 + 4 * count


def compare(encode_texts, path, mode, texts, expected):
    source, result = path.with_suffix(".texts"), path.with_suffix(".out")
    write_texts(texts, source)
    subprocess.run([encode_texts, path, mode, source, result], check=True)
    ours = list(read_numbers(result))
    if len(ours) != len(texts):
        sys.exit(f"{path.parent.name}: {len(ours)} answers for {len(texts)} texts")
    for text, got, want in zip(texts, ours, expected):
        if list(got) != list(want):
            at = next((i for i, (g, w) in enumerate(zip(got, want)) if g != w), min(len(got), len(want)))
            sys.exit(f"{path.parent.name}: {mode} differ from number {at} on, for {text[:300]!r}\n"
                     f"  ours    {list(got[at:at + 12])}\n  package {list(want[at:at + 12])}")


def compare_engines(encode_texts, path, texts):
    source = path.with_suffix(".texts")
    write_texts(texts, source)
    if subprocess.run([encode_texts, path, "engines", source]).returncode != 0:
        sys.exit(f"{path.parent.name}: our two engines differ")


def word_lengths(pre_tokenizer, texts):
    return [[len(word) for word, _ in pre_tokenizer.pre_tokenize_str(text)] for text in texts]


def ids(tokenizer, texts):
    return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]


def check(encode_texts, name, folder, full):
    trained = train(name, 3000) if full else quickly_trained(name)
    path, tokenizer = saved(trained, name, folder)
    has_words = name != "prefix_space"  # its words are no part of the text
    kinds = {
        "code points": list(code_point_texts(1 if full else 251)),
        "random strings": random_texts(60_000 if full else 1_000, seed=2),
        "corpus": corpus_texts(4 << 20 if full else 1 << 17),
    }
    if full:
        compare_engines(encode_texts, path, kinds["code points"] + kinds["random strings"] + corpus_texts(200 << 20))
    for kind, texts in kinds.items():
        begin = time.monotonic()
        if kind != "corpus" and has_words:
            compare(encode_texts, path, "words", texts, word_lengths(PRE_TOKENIZERS[name], texts))
        if kind != "code points" or not has_words:
            for mode in ("ids", "plain_ids"):
                tokenizer.encode_special_tokens = mode == "plain_ids"
                compare(encode_texts, path, mode, texts, ids(tokenizer, texts))
        megabytes = sum(len(t.encode("utf-8")) for t in texts) / 1e6
        seconds = time.monotonic() - begin
        print(f"{name}: {kind}: {len(texts)} texts, {megabytes:.2f} MB, {seconds:.0f} s: no difference", flush=True)


# --- speed

def speed(encode_texts, names, folder):
    texts = corpus_texts(2 << 20)
    megabytes = sum(len(t.encode("utf-8")) for t in texts) / 1e6
    for name in names:
        path, tokenizer = saved(train(name, 8_000), name, folder)
        write_texts(texts, path.with_suffix(".texts"))
        begin = time.process_time()
        tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        theirs = time.process_time() - begin
        done = subprocess.run([encode_texts, path, "speed", path.with_suffix(".texts")], check=True, capture_output=True, text=True)
        ours = float(done.stdout)
        print(f"{name}: {megabytes:.1f} MB: ours {megabytes / ours:.1f} MB/s, tokenizers {megabytes / theirs:.1f} MB/s", flush=True)


def main():
    encode_texts, options = pathlib.Path(sys.argv[1]), sys.argv[2:]
    names = [name for name in options if name in PRE_TOKENIZERS]
    with tempfile.TemporaryDirectory() as folder:
        if "--speed" in options:
            return speed(encode_texts, names or ["gpt2", "llama3", "deepseek_v3", "o200k"], pathlib.Path(folder))
        for name in names or PRE_TOKENIZERS:
            check(encode_texts, name, pathlib.Path(folder), "--full" in options)


if __name__ == "__main__":
    main()
