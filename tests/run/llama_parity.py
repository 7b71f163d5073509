"""Llama against transformers: python3 llama_parity.py RONDO. See parity.py.

With long positions the differences are 5e-6: transformers turns rotary embeddings by angles rounded to fp32, and Rondo
by angles in fp64.
"""
import json

import torch
from parity import Family, compare_all
from transformers import LlamaConfig, LlamaForCausalLM

SMALL = dict(vocab_size=128, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=4, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 16}

# Family.shapes of this family.
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


def rewrite(folder, version_4=False):
    """The same configuration with the keys that transformers 4 wrote."""
    if not version_4:
        return folder
    config_file = folder / "config.json"
    config = json.loads(config_file.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    config_file.write_text(json.dumps(config))
    return folder


FAMILY = Family(LlamaConfig, LlamaForCausalLM, SMALL, SHAPES, rewrite, ("version_4",))

if __name__ == "__main__":
    compare_all(FAMILY)
