"""Folders in the structure of the hub's, through a whole run: python3 hub_folders.py RONDO [PACKAGES...].

Each listed model with random weights in a folder as it is published: config.json as transformers 4 writes it, the
weights in their published format, tokenizer.json. Rondo takes model, tokenizer and weights from the folder, trains two
steps and exports. transformers must read the export without additions, and compute the logits and ids that Rondo does.
So must the transformers of each folder in PACKAGES, which another version fills:

    pip install --target /tmp/transformers_4 --no-deps transformers==4.57.3 tokenizers==0.22.1 huggingface_hub==0.36.0 \\
        requests urllib3 certifi charset-normalizer
"""
import json
import os
import pathlib
import subprocess
import sys

import deepseek_parity
import gpt_oss_parity
import llama4_parity
import llama_parity
import olmo2_parity
import parity
import qwen3_moe_parity
import qwen3_parity
import torch
from safetensors.torch import load_file, save_file
from read_export import ids_of, logits_of
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

sys.path.append(str(pathlib.Path(__file__).parents[1] / "datasets" / "tokenizer"))
from against_tokenizers import DEEPSEEK_V3, LLAMA3, O200K, regexes, splits  # noqa: E402

TEXT = "The quick brown fox, 1234 x 12 = 14808; l\u00e0-bas \u4e2d\u6587 don't\n\n  def f(x):\n    return x\n"
VOCABULARY = 320  # of the models; the tokenizers have at most as many ids
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

# The family, fields that differ from its small model, how its weights are stored, the split of its tokenizer, and its
# normalizer.
MODELS = {
    "Llama 3.1": (llama_parity.FAMILY, dict(num_key_value_heads=2, rope_parameters=llama_parity.LLAMA3_ROPE),
                  dict(max_shard_size="60KB"), [LLAMA3], None),
    "Llama 3.2, tied": (llama_parity.FAMILY, dict(tie_word_embeddings=True, rope_parameters=llama_parity.LLAMA3_ROPE),
                        {}, [LLAMA3], None),
    "Qwen3 0.6B, tied, with a head": (qwen3_parity.FAMILY, dict(tie_word_embeddings=True), {}, [QWEN],
                                      normalizers.NFC()),
    "Qwen3 30B-A3B": (qwen3_moe_parity.FAMILY, {}, dict(max_shard_size="60KB"), [QWEN], normalizers.NFC()),
    "OLMo 2": (olmo2_parity.FAMILY, {}, {}, [QWEN], None),
    "DeepSeek-V3, in 8 bits": (deepseek_parity.FAMILY, dict(rope_parameters=deepseek_parity.YARN),
                               dict(quantized=True), DEEPSEEK_V3, None),
    "Kimi K2, in 8 bits": (deepseek_parity.FAMILY, dict(n_group=1, topk_group=1, rope_parameters=deepseek_parity.YARN),
                           dict(quantized=True), [O200K], None),
    "gpt-oss, in 4 bits": (gpt_oss_parity.FAMILY, dict(intermediate_size=64), dict(quantized=True), [O200K], None),
    "Llama 4, with images": (llama4_parity.FAMILY, {}, dict(whole=True), [O200K], None),
}


def in_version_4(config):
    """Rewrites fields as transformers 4 named them, in a text model inside of another, too."""
    if "text_config" in config:
        in_version_4(config["text_config"])
    if "rope_parameters" in config:
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")


def write_tokenizer(folder, patterns, normalizer):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = splits(regexes(*patterns)), decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=VOCABULARY - 2, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens(["<|begin|>", "<|end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|begin|>", "eos_token": "<|end|>"}))


def publish(name, folder):
    """Writes the folder of a model as it is on the hub."""
    family, fields, how, patterns, normalizer = MODELS[name]
    parity.save(family, parity.make_model(family, {**fields, "vocab_size": VOCABULARY}), folder, **how)
    config = json.loads((folder / "config.json").read_text())
    in_version_4(config)
    weights = folder / "model.safetensors"
    if "with a head" in name:
        tensors = load_file(weights)
        save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, weights, {"format": "pt"})
    if "Kimi" in name:
        config["model_type"] = "kimi_k2"
    if "DeepSeek" in name:  # a layer that predicts the token after the next
        layers = config["num_hidden_layers"]
        config["num_nextn_predict_layers"] = 1
        save_file({**load_file(weights), f"model.layers.{layers}.enorm.weight": torch.ones(config["hidden_size"])},
                  weights, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder, patterns, normalizer)
    return how.get("quantized", False)


def run(*command, **variables):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **variables})
    assert done.returncode == 0, done.stdout
    return done.stdout


def read_with(packages, folder):
    """Returns the ids and logits of another version of transformers."""
    (folder / "read.txt").write_text(TEXT, encoding="utf-8")
    run(sys.executable, pathlib.Path(__file__).with_name("read_export.py"), folder / "run" / "checkpoint" / "step-2-hf",
        folder / "export", folder / "read.txt", folder / "theirs.safetensors",
        PYTHONPATH=os.pathsep.join([packages, os.environ["PYTHONPATH"]]))
    theirs = load_file(folder / "theirs.safetensors")
    return theirs["ids"].tolist(), theirs["logits"]


def check(rondo, name, folder):
    quantized = publish(name, folder)
    (folder / "text.txt").write_text(TEXT * 200)
    (folder / "run.toml").write_text(f"""
[model]
hf_config = "{folder}"
hf_assets_path = "{folder}"
[checkpoint]
enable = true
initial_load_in_hf = true
initial_load_in_hf_quantized = {str(quantized).lower()}
last_save_in_hf = true
[training]
dataset_path = "{folder}/text.txt"
steps = 2
seq_len = 32
local_batch_size = 2
mixed_precision_param = "float32"
[validation]
enable = false
""")
    run(rondo, "train", folder / "run.toml", "--job.device=cpu", f"--job.dump_folder={folder / 'run'}")
    export = folder / "run" / "checkpoint" / "step-2-hf"
    run(rondo, "convert", folder / "run", folder / "export", f"--tokenizer={folder}")
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT, add_special_tokens=False).ids
    (folder / "ids.txt").write_text(" ".join(map(str, ids)) + "\n")
    run(rondo, "logits", export, "--tokens", folder / "ids.txt", "--out", folder / "logits.safetensors")
    ours = load_file(folder / "logits.safetensors")["logits"]
    readers = [(ids_of(folder / "export", TEXT), logits_of(export, ids, **MODELS[name][0].options))]
    readers += [read_with(packages, folder) for packages in sys.argv[2:]]
    assert all(their_ids == ids for their_ids, _ in readers), (ids, [their_ids for their_ids, _ in readers])
    return max(parity.difference(ours, theirs, theirs.abs().max()) for _, theirs in readers)


def check_all(rondo, scratch):
    failures = 0
    for number, name in enumerate(MODELS):
        try:
            difference = check(rondo, name, scratch / str(number))
            good = difference <= parity.TOLERANCE
            print(f"{'ok  ' if good else 'FAIL'} {name:35} logits of the export {difference:.1e}", flush=True)
        except AssertionError as error:
            good = False
            print(f"FAIL {name}: {error}", flush=True)
        failures += not good
    return failures


if __name__ == "__main__":
    parity.in_scratch(check_all)
