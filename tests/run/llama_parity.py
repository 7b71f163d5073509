"""Llama against transformers, on CPU and in fp32: logits and the gradients of all parameters.

python3 llama_parity.py RONDO FOLDER: transformers makes models of many shapes with random weights and saves them into
FOLDER as it saves any model; `rondo logits` reads them. A difference is the largest absolute difference of a tensor's
elements, divided by the tensor's largest absolute element. Prints the differences, and exits 1 where one is above the
tolerance.
"""
import json
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

# fp32 keeps 6e-8. Sums in other orders make 2e-6 of that; with long positions 5e-6, since transformers turns rotary
# embeddings by angles rounded to fp32, and Rondo by angles in fp64 (measured on x86-64).
TOLERANCE = 2e-5

SMALL = dict(vocab_size=128, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=4, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 16}

# name: (fields that differ from SMALL, tokens in a sequence, how it is saved)
SHAPES = {
    "one key head for each query head": ({}, 33, {}),
    "grouped queries": (dict(num_attention_heads=8, num_key_value_heads=2), 33, {}),
    "one key head in all": (dict(num_key_value_heads=1), 40, {}),
    "odd head counts": (dict(hidden_size=40, num_attention_heads=5, num_key_value_heads=5), 17, {}),
    "odd groups, odd vocabulary": (dict(hidden_size=72, num_attention_heads=9, num_key_value_heads=3, vocab_size=131),
                                   21, {}),
    "tied embeddings": (dict(tie_word_embeddings=True, vocab_size=257), 33, {}),
    "heads wider than dim / n_heads": (dict(hidden_size=48, head_dim=32, num_key_value_heads=2), 25, {}),
    "heads narrower than dim / n_heads": (dict(hidden_size=48, head_dim=6, num_attention_heads=3,
                                               num_key_value_heads=1), 25, {}),
    "another theta": (dict(rope_parameters={"rope_type": "default", "rope_theta": 1e6}), 96, {}),
    "llama3 scaling beyond the original length": (dict(rope_parameters=LLAMA3_ROPE), 96, {}),
    "llama3 scaling as transformers 4 wrote it": (dict(rope_parameters=LLAMA3_ROPE), 96, dict(version_4=True)),
    "six layers in many files": (dict(num_hidden_layers=6, intermediate_size=345, rms_norm_eps=1e-6), 33,
                                 dict(max_shard_size="60KB")),
    "saved in bfloat16": (dict(num_key_value_heads=2), 33, dict(dtype=torch.bfloat16)),
    "saved in float16, tied, in many files": (dict(tie_word_embeddings=True), 33,
                                              dict(dtype=torch.float16, max_shard_size="60KB")),
}


def make_model(fields):
    """Random weights of a size at which every part of the model matters to the logits."""
    model = LlamaForCausalLM._from_config(LlamaConfig(**{**SMALL, **fields}), attn_implementation="eager").float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.normal_(1.0, 0.2)
            elif "embed" in name and not model.config.tie_word_embeddings:
                parameter.normal_(0.0, 1.0)
            else:
                parameter.normal_(0.0, 1.5 / parameter.shape[-1] ** 0.5)
    return model


def as_version_4(config_file):
    """The same configuration with the keys that transformers 4 wrote."""
    config = json.loads(config_file.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    config_file.write_text(json.dumps(config))


def save(model, folder, dtype=torch.float32, version_4=False, **how):
    """Saves it in `dtype`, and returns what transformers makes of the files in fp32."""
    model.to(dtype).save_pretrained(folder, **how)
    if version_4:
        as_version_4(folder / "config.json")
    if "max_shard_size" in how:
        assert (folder / "model.safetensors.index.json").exists(), "the model was to be saved in many files"
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def difference(ours, theirs):
    assert ours.shape == theirs.shape and ours.dtype == torch.float32, (ours.shape, theirs.shape, ours.dtype)
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def compare(rondo, folder, fields, length, how):
    """(difference of the logits, largest difference of a gradient and its name)"""
    model = save(make_model(fields), folder, **how)
    tokens = torch.randint(model.config.vocab_size, (3, length))
    (folder / "tokens.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in tokens.tolist()))
    command = [rondo, "logits", folder, "--tokens", folder / "tokens.txt", "--out", folder / "logits.safetensors",
               "--gradients", folder / "gradients.safetensors"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    result = model(tokens, labels=tokens)
    result.loss.backward()
    output, _ = process.communicate()
    assert process.returncode == 0, output
    ours = load_file(folder / "logits.safetensors")
    assert list(ours) == ["logits"], list(ours)
    gradients = load_file(folder / "gradients.safetensors")
    wanted = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert set(gradients) == set(wanted), set(gradients) ^ set(wanted)
    worst = max((difference(gradients[name], wanted[name]), name) for name in wanted)
    return difference(ours["logits"], result.logits.detach()), *worst


def main(rondo, folder):
    logging.disable_progress_bar()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    failures = 0
    for number, (name, (fields, length, how)) in enumerate(SHAPES.items()):
        logits, gradient, parameter = compare(rondo, pathlib.Path(folder) / str(number), fields, length, how)
        good = max(logits, gradient) <= TOLERANCE
        failures += not good
        print(f"{'ok  ' if good else 'FAIL'} {name:45} logits {logits:.1e}  gradients {gradient:.1e} ({parameter})")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
