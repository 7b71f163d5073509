"""Compares our tokenizer with the package `tokenizers` on the structures of published tokenizer.json files.

    scripts/oracle_python.sh tests/datasets/tokenizer/structures_against_tokenizers.py ENCODE_TEXTS [--full] [NAME...]

A structure is all of a file but its words: normalizer, pre_tokenizer, options of the model, bytes that its vocabulary
lacks, added tokens and their rules. The words are trained here. The default is a sample that takes seconds; --full is
every code point in three contexts and 10,000 random strings for each structure. Texts that nothing rewrites must also
come back from decode. NAMEs leave out the other structures. Exit 1 on the first difference, 6 when the package is not
there.
"""

import json
import pathlib
import re
import sys
import tempfile

from against_tokenizers import (LLAMA3, O200K, TIKTOKEN_CL100K, code_point_texts, compare, ids, random_texts, source_texts, splits)
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as n, pre_tokenizers as p, processors, trainers

SPACE = "\u2581"
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
NOT_UTF8 = [0xC0, 0xC1, *range(0xF5, 0x100)]
RARE = [*NOT_UTF8, *range(1, 9), 0x7F, *range(0xD8, 0xE0), 0xF1, 0xF2, 0xF3]

SPECIAL = [AddedToken("<|begin|>", special=True), AddedToken("<|end|>", special=True)]
MASK = [AddedToken("<mask>", lstrip=True, normalized=False, special=True), AddedToken("  ", normalized=True), *SPECIAL]
STRIPPED = [
    AddedToken("<|end|>", rstrip=True, special=True), AddedToken("<|begin|>", lstrip=True, rstrip=True, special=True),
    AddedToken("qu", single_word=True, normalized=False), AddedToken("th", single_word=True, lstrip=True),
    AddedToken("\n", normalized=True), AddedToken("\u00e9\u00e9", rstrip=True), AddedToken("T", normalized=True),
]


def byte_level(add_prefix_space=False, use_regex=True):
    return p.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)


def sequence(*steps):
    return p.Sequence(list(steps))


# Of each: normalizer, pre_tokenizer, and what differs from a plain byte-level BPE.
STRUCTURES = {
    "gpt2_without_type": (None, byte_level(), {"untyped": True, "round_trip": True}),
    "whisper": (None, byte_level(), {"empty_token": True}),
    "roberta": (None, byte_level(True), {"untyped": True, "added": MASK, "roberta": True}),
    "gpt_neox": (n.NFC(), byte_level(), {"lacks": NOT_UTF8, "added": [AddedToken("  "), AddedToken("    ")]}),
    "modernbert": (n.NFC(), byte_level(), {"lacks": NOT_UTF8, "added": MASK}),
    "qwen": (n.NFC(), splits([Regex(QWEN)]), {"added": SPECIAL}),
    "claude2": (n.NFKC(), byte_level(), {}),
    "torchtitan": (None, splits([Regex(LLAMA3)]), {"lacks": [*range(0, 10), *range(14, 32), *range(0x7F, 0x100)]}),
    "falcon": (None, sequence(p.Punctuation("contiguous"), byte_level(), p.Digits(), p.Split(Regex("[0-9][0-9][0-9]"), "isolated")), {"lacks": RARE}),
    "clip": (
        n.Sequence([n.NFC(), n.Replace(Regex(r"\s+"), " "), n.Lowercase()]),
        sequence(p.Split(Regex(CLIP), "removed", invert=True), byte_level()),
        {"suffix": "</w>", "unknown": "<|end|>", "added": SPECIAL, "roberta": True},
    ),
    "llama2": (n.Sequence([n.Prepend(SPACE), n.Replace(" ", SPACE)]), None, {"fallback": True, "round_trip": True}),
    "phi3": (n.Sequence([n.Prepend(SPACE), n.Replace(" ", SPACE)]), None, {"fallback": True, "added": STRIPPED}),
    "mistral": (None, p.Metaspace(SPACE, "first", False), {"fallback": True, "added": SPECIAL, "round_trip": True}),
    "metaspace_always": (None, p.Metaspace(SPACE, "always", True), {"fallback": True, "added": SPECIAL}),
    "metaspace_never": (None, p.Metaspace(SPACE, "never", True), {"fallback": True, "round_trip": True}),
    "gemma": (n.Replace(" ", SPACE), p.Split(" ", "merged_with_previous"), {"fallback": True, "lacks": [0x09, 0xE1, 0xF0], "ignore_merges": True}),
    "chatglm": (n.Replace(" ", SPACE), p.Split(SPACE, "merged_with_next"), {"unknown": "<unk>", "fuse": True}),
    "smollm": (None, sequence(p.Digits(True), byte_level()), {"round_trip": True}),
    "char_delimiter": (None, sequence(p.CharDelimiterSplit("e"), byte_level()), {}),
    "command_r": (n.NFC(), sequence(p.Digits(True), byte_level()), {"added": STRIPPED}),
    "bloom": (None, sequence(p.Split(Regex(BLOOM), "isolated"), byte_level(use_regex=False)), {"round_trip": True}),
    "kimi_k2": (None, splits([Regex(KIMI)]), {"round_trip": True, "ignore_merges": True}),
    "cl100k": (None, splits([Regex(CL100K)]), {"round_trip": True}),
    "cl100k_as_tiktoken": (None, splits([Regex(TIKTOKEN_CL100K)]), {"round_trip": True}),
    "tiny_aya": (None, splits([Regex(r"\d{1,3}(?=(?:\d{3})*\b)"), Regex(O200K)]), {"round_trip": True}),
    "bert": (n.Sequence([n.NFD(), n.Lowercase(), n.StripAccents()]), p.BertPreTokenizer(), {"prefix": "##", "unknown": "<unk>"}),
    "nfkd": (n.NFKD(), p.Whitespace(), {"unknown": "<unk>", "fuse": True, "added": STRIPPED}),
    "first_after_strip": (n.Strip(True, False), p.Metaspace(SPACE, "first", True), {"fallback": True}),
    "bytes_of_normalizer": (n.ByteLevel(), None, {"lacks": RARE, "unknown": "<unk>"}),
    "dropped_characters": (None, sequence(p.WhitespaceSplit(), p.Punctuation("merged_with_next")), {"suffix": "</w>"}),
    "bytes_with_unknown": (None, byte_level(), {"lacks": RARE, "unknown": "<unk>"}),
    "bytes_with_all_bytes_and_unknown": (None, byte_level(), {"unknown": "<unk>", "fuse": True, "round_trip": True}),
    **{
        f"{behavior}{'_inverted' * invert}": (n.Lowercase(), splits([Regex(r"\p{L}+\s|\d")], behavior, invert), {"added": STRIPPED})
        for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous") for invert in (False, True)
    },
    **{
        f"punctuation_{behavior}": (n.NFD(), sequence(p.Punctuation(behavior), byte_level()), {})
        for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")
    },
}


def training_lines():
    lines = [line for text in source_texts()[:60] for line in text.split("\n")][:4000]
    return lines + [re.sub("[\ud800-\udfff]", "", text) for text in random_texts(1500, seed=1)]


LINES = training_lines()


def trained(normalizer, pre_tokenizer, options):
    tokenizer = Tokenizer(models.BPE(unk_token=options.get("unknown"), byte_fallback=bool(options.get("fallback")),
                                     fuse_unk=bool(options.get("fuse", options.get("fallback")))))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    marks = {"continuing_subword_prefix": options.get("prefix"), "end_of_word_suffix": options.get("suffix")}
    alphabet = {"initial_alphabet": p.ByteLevel.alphabet()} if "ByteLevel" in tokenizer.to_str() else {"limit_alphabet": 120}
    trainer = trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=["<unk>"], max_token_length=12, **alphabet,
                                  **{key: mark for key, mark in marks.items() if mark})
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def with_options(document, options):
    """The file as published: bytes that are not in the vocabulary, byte tokens, an empty token, no type."""
    model = document["model"]
    words = list(model["vocab"])
    missing = set(map(alphabet_character, options.get("lacks", [])))
    if options.get("fallback"):
        words = words[:1] + [f"<0x{b:02X}>" for b in range(256) if b not in options.get("lacks", [])] + words[1:]
        model["unk_token"] = "<unk>"
    else:
        words = [w for w in words if not missing & set(w)]
    if options.get("empty_token"):
        words.append("")
    model["vocab"] = {word: i for i, word in enumerate(words)}
    prefix = len(options.get("prefix", ""))
    pairs = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
    pairs = [m for m in pairs if all(w in model["vocab"] for w in (*m, m[0] + m[1][prefix:]))]
    model["merges"] = [" ".join(m) for m in pairs] if options.get("untyped") else pairs
    model["ignore_merges"] = bool(options.get("ignore_merges"))
    if options.get("untyped"):
        del model["type"]
        model["merges"].insert(0, "#version: 0.2")
    if options.get("roberta"):
        document["post_processor"] = {"type": "RobertaProcessing", "sep": ["<|end|>", 1], "cls": ["<|begin|>", 0],
                                      "trim_offsets": True, "add_prefix_space": False}
    return document


def alphabet_character(byte):
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return chr(byte) if byte in printable else chr(0x100 + [b for b in range(256) if b not in printable].index(byte))


def built(name, folder):
    normalizer, pre_tokenizer, options = STRUCTURES[name]
    tokenizer = trained(normalizer, pre_tokenizer, options)
    unknown = options.get("unknown")
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = []
    if unknown and unknown != "<unk>":
        document["model"]["vocab"][unknown] = len(document["model"]["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(with_options(document, {**options, "untyped": False, "roberta": False})))
    tokenizer.add_tokens(options.get("added", []))
    document = with_options(json.loads(tokenizer.to_str()), options) if options.get("untyped") or options.get("roberta") else json.loads(tokenizer.to_str())
    path = folder / name / "tokenizer.json"
    path.parent.mkdir()
    path.write_text(json.dumps(document), encoding="utf-8")
    return path, Tokenizer.from_file(str(path)), options


def check(encode_texts, name, folder, full):
    path, tokenizer, options = built(name, folder)
    lines = source_texts()[3].split("\n")[:400]
    texts = list(code_point_texts(1 if full else 509)) + random_texts(10_000 if full else 500, seed=2) + lines
    texts += ["\n".join(lines), " x", "", " ", "  \n ", "x ", "<|end|> <|end|>  <|begin|> \n <mask>", "\u00e9" * 50 + "\u0301\u0323" * 50]
    for mode in ("ids", "plain_ids"):
        tokenizer.encode_special_tokens = mode == "plain_ids"
        compare(encode_texts, path, mode, texts, ids(tokenizer, texts))
    if options.get("round_trip"):
        # SentencePiece's mark for a space is decoded as one. "first" adds nothing before a space, and no decoder can tell.
        texts = [text for text in texts if not (options.get("fallback") and SPACE in text) and not (name == "mistral" and text.startswith(" "))]
        compare(encode_texts, path, "decoded", texts, [list(text.encode("utf-8")) for text in texts])
    print(f"{name}: {len(texts)} texts: no difference", flush=True)


def main():
    encode_texts, options = pathlib.Path(sys.argv[1]), sys.argv[2:]
    names = [name for name in options if name in STRUCTURES]
    with tempfile.TemporaryDirectory() as folder:
        for name in names or STRUCTURES:
            check(encode_texts, name, pathlib.Path(folder), "--full" in options)


main()
