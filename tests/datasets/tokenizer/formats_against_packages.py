"""Compares our tokenizer with tiktoken and sentencepiece on their own files: ranks, tekken.json, SentencePiece models.

    scripts/oracle_python.sh tests/datasets/tokenizer/formats_against_packages.py ENCODE_TEXTS [--full] [NAME...]

The words are trained here, and the rest is that of published files. The default is a sample that takes seconds; --full
is every code point in three contexts and 10,000 random strings for each structure. Texts that nothing rewrites must also
come back from decode. NAMEs leave out the other structures. Exit 1 on the first difference, 6 when a package is not
there.
"""

import base64
import io
import json
import pathlib
import random
import re
import sys
import tempfile

from against_tokenizers import O200K, LLAMA3, TIKTOKEN_CL100K, code_point_texts, compare, random_texts, source_texts, splits
from tokenizers import Regex, Tokenizer, models, trainers

try:
    import sentencepiece
    import tiktoken
    from sentencepiece import sentencepiece_model_pb2
except ImportError:
    print("formats_against_packages: no package sentencepiece or tiktoken; run scripts/setup.sh --oracles", file=sys.stderr)
    sys.exit(6)

SPACE = "\u2581"
LETTERS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
KIMI = "|".join([
    r"[\p{Han}]+",
    rf"[^\r\n\p{{L}}\p{{N}}]?{LETTERS[0]}*{LETTERS[1]}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    rf"[^\r\n\p{{L}}\p{{N}}]?{LETTERS[0]}+{LETTERS[1]}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])
TEKKEN = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"\p{N}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])
ENDS = ["<|begin|>", "<|end|>", "<|end|>\n"]
# Kimi K2's tokenizer_config.json names these of the 256 ids after the ranks. tokenization_kimi.py names the others.
KIMI_RANKS = 163584
KIMI_NAMED = {
    0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 3: "<|im_user|>", 4: "<|im_assistant|>", 6: "<|start_header_id|>",
    7: "<|end_header_id|>", 9: "[EOT]", 10: "<|im_system|>", 11: "<|tool_calls_section_begin|>",
    12: "<|tool_calls_section_end|>", 13: "<|tool_call_begin|>", 14: "<|tool_call_argument_begin|>",
    15: "<|tool_call_end|>", 17: "<|im_middle|>", 254: "[UNK]", 255: "[PAD]",
}

# Of each: the pattern, and whether the ranks of tokens of several bytes are in a random order.
RANKS = {
    "llama3": (LLAMA3, False),
    "kimi_k2": (KIMI, False),
    "o200k": (O200K, False),
    "cl100k": (TIKTOKEN_CL100K, False),  # Rondo's table writes the same without $ and {1,3}+
    "random_ranks": (LLAMA3, True),
    "random_ranks_in_long_words": (r"[^\n]+|\n", True),
    "pattern_that_leaves_out": (r"\p{L}+|\p{N}", False),
}
TEKKENS = {"tekken": (TEKKEN, False), "tekken_with_random_ranks": (r"\S+|\s+", True)}

TAGS = ["<tag>", SPACE * 2, SPACE * 3, "\n\n", "\t\t", "qu", "\u00e9\u00e9", "th" + SPACE]
# Of each: options of the trainer, and the change of the model.
PIECES = {
    "llama2": ({"byte_fallback": True, "split_digits": True, "allow_whitespace_only_pieces": True}, None),
    "mistral_with_symbols": ({"byte_fallback": True, "user_defined_symbols": TAGS, "control_symbols": ["[INST]"]}, None),
    "gemma": ({"byte_fallback": True, "add_dummy_prefix": False, "split_digits": True, "user_defined_symbols": TAGS}, "tab_in_pieces"),
    "no_byte_fallback": ({}, None),
    "extra_spaces_removed": ({"byte_fallback": True, "remove_extra_whitespaces": True}, None),
    "extra_spaces_removed_without_prefix": ({"remove_extra_whitespaces": True, "add_dummy_prefix": False}, None),
    "spaces_not_escaped": ({"byte_fallback": True}, "spaces_not_escaped"),
    "words_of_several": ({"byte_fallback": True, "split_by_whitespace": False, "split_by_unicode_script": False, "split_by_number": False}, None),
    "equal_scores": ({"byte_fallback": True}, "equal_scores"),
    "random_scores": ({"byte_fallback": True}, "random_scores"),
}


def training_lines():
    lines = [line for text in source_texts()[:60] for line in text.split("\n")][:4000]
    return lines + [re.sub("[\ud800-\udfff]", "", text) for text in random_texts(1500, seed=1)]


LINES = training_lines()


def bytes_of(token):
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return bytes(ord(c) if ord(c) in printable else others[ord(c) - 0x100] for c in token)


def trained_ranks(shuffled, first=0):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = splits([Regex(LLAMA3)])
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=1200, show_progress=False, max_token_length=12))
    tokens = [bytes([b]) for b in range(256)]
    longer = [bytes_of(a + b) for a, b in json.loads(tokenizer.to_str())["model"]["merges"]]
    tokens += list(dict.fromkeys(longer))
    if shuffled:
        # Two ways to write a token compete. Without `first` single bytes have ranks among the others.
        tokens += [b"aba", b"ab", b"ba", b"  \n", b" \n", b"\n \n"]
        tokens = list(dict.fromkeys(tokens))
        rest = tokens[first:]
        random.Random(3).shuffle(rest)
        tokens[first:] = rest
    return {token: rank for rank, token in enumerate(tokens)}


def built_ranks(name, folder):
    pattern, shuffled = RANKS[name]
    ranks = trained_ranks(shuffled)
    special = {token: len(ranks) + i for i, token in enumerate(ENDS)}
    path = folder / "tiktoken.model"
    path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % r for t, r in ranks.items()))
    (folder / "pattern.txt").write_text(pattern.replace("$", r"(?![\s\S])").replace("3}+", "3}"), encoding="utf-8", newline="")
    decoder = {str(i): {"content": token, "special": True} for token, i in special.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>", "added_tokens_decoder": decoder}))
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)

    # tiktoken takes the first special token that its table names at a place, and Rondo the longest.
    def encode(text):
        pieces = text.split("<|end|>\n")
        ids = []
        for i, piece in enumerate(pieces):
            ids += [special["<|end|>\n"]] if i else []
            ids += encoding.encode(piece, allowed_special="all")
        return ids

    return path, encode, name != "pattern_that_leaves_out"


def built_kimi(name, folder):
    ranks = trained_ranks(False)
    tokens, rng = list(ranks), random.Random(5)
    while len(ranks) < KIMI_RANKS:
        token = rng.choice(tokens) + rng.choice(tokens)
        if len(token) <= 24 and token not in ranks:
            ranks[token] = len(ranks)
            tokens.append(token)
    special = {KIMI_NAMED.get(i, f"<|reserved_token_{KIMI_RANKS + i}|>"): KIMI_RANKS + i for i in range(256)}
    path = folder / "tiktoken.model"
    path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % r for t, r in ranks.items()))
    decoder = {str(KIMI_RANKS + i): {"content": token, "special": True} for i, token in KIMI_NAMED.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "bos_token": "[BOS]", "eos_token": "[EOS]", "added_tokens_decoder": decoder}))
    encoding = tiktoken.Encoding(name, pat_str=KIMI, mergeable_ranks=ranks, special_tokens=special)
    return path, lambda text: encoding.encode(text, allowed_special="all"), True


def built_tekken(name, folder):
    pattern, shuffled = TEKKENS[name]
    ranks = trained_ranks(shuffled, first=256)
    special, left_out = 20, 30
    vocab = [{"rank": r, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for t, r in ranks.items()]
    config = {"pattern": pattern, "num_vocab_tokens": len(ranks), "default_vocab_size": len(ranks) - left_out + special,
              "default_num_special_tokens": special, "version": "v3"}
    path = folder / "tekken.json"
    path.write_text(json.dumps({"config": config, "vocab": vocab, "type": "Tekken"}))
    kept = {token: rank for token, rank in ranks.items() if rank < len(ranks) - left_out}
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=kept, special_tokens={})
    return path, lambda text: [i + special for i in encoding.encode(text)], True


def changed(model, change):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    normal = [piece for piece in proto.pieces if piece.type == 1]
    rng = random.Random(4)
    if change == "tab_in_pieces":
        for i, text in enumerate(("\tb", "a\t", "b\ta", SPACE + "\t")):
            normal[10 + i].piece = text
    elif change == "spaces_not_escaped":
        proto.normalizer_spec.escape_whitespaces = False
        for piece in normal:
            if piece.piece != SPACE:
                piece.piece = piece.piece.replace(SPACE, " ")
        normal[-1].piece = " "
    elif change == "equal_scores":
        for piece in normal:
            piece.score = -float(rng.randrange(4))
    elif change == "random_scores":
        for piece in normal:
            piece.score = rng.uniform(-5, 5)
    texts = [piece.piece for piece in proto.pieces]
    for i, piece in enumerate(proto.pieces):
        if texts.index(piece.piece) != i:
            piece.piece = f"unreachable {i}"
    return proto.SerializeToString()


def built_pieces(name, folder):
    options, change = PIECES[name]
    defaults = {"model_type": "bpe", "vocab_size": 1400, "normalization_rule_name": "identity", "minloglevel": 2,
                "remove_extra_whitespaces": False, "max_sentence_length": 100_000, "hard_vocab_limit": False, "character_coverage": 0.99}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=model, **{**defaults, **options})
    path = folder / "tokenizer.model"
    path.write_bytes(changed(model.getvalue(), change))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return path, processor.encode, name == "llama2"


BUILDERS = {
    **dict.fromkeys(RANKS, built_ranks), "kimi_k2_folder": built_kimi,
    **dict.fromkeys(TEKKENS, built_tekken), **dict.fromkeys(PIECES, built_pieces),
}


def check(encode_texts, name, folder, full):
    folder.mkdir()
    build = BUILDERS[name]
    path, encode, round_trip = build(name, folder)
    lines = source_texts()[3].split("\n")[:400]
    texts = list(code_point_texts(1 if full else 509)) + random_texts(10_000 if full else 500, seed=2) + lines
    texts += ["\n".join(lines), " x", "", " ", "  \n ", "x ", "x\n  ", SPACE, SPACE + " ", "a" + SPACE * 3, "ababababa", "\ta\tb\ta ",
              "<|end|> <|end|>\n  <|begin|> \n <tag><tag>", "[BOS]<|im_user|>a<|im_middle|>b <|im_end|>[EOS]<|reserved_token_163600|>[PAD]", " \n \n \n  \n" * 5, "\u00e9" * 50 + "\u0301\u0323" * 50]
    compare(encode_texts, path, "ids", texts, [encode(text) for text in texts])
    if round_trip:
        texts = [text for text in texts if SPACE not in text] if name in PIECES else texts
        compare(encode_texts, path, "decoded", texts, [list(text.encode("utf-8")) for text in texts])
    print(f"{name}: {len(texts)} texts: no difference", flush=True)


def main():
    encode_texts, options = pathlib.Path(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        full = "--full" in options
        sample = [name for name in BUILDERS if full or name != "kimi_k2_folder"]  # which takes 8 s
        for name in [name for name in options if name in BUILDERS] or sample:
            check(encode_texts, name, pathlib.Path(folder) / name, full)


main()
