"""OLMo 2 against transformers: python3 olmo2_parity.py RONDO. See parity.py."""
import torch
from parity import Family, compare_all
from transformers import Olmo2Config, Olmo2ForCausalLM

SMALL = dict(vocab_size=128, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=4, max_position_embeddings=128, rms_norm_eps=1e-6, tie_word_embeddings=False,
             pad_token_id=None, eos_token_id=1, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})

# Family.shapes of this family.
SHAPES = {
    "one key head for each query head": ({}, 33, {}),
    "grouped queries": (dict(num_attention_heads=8, num_key_value_heads=2), 33, {}),
    "one key head in all": (dict(num_key_value_heads=1), 40, {}),
    "odd head counts, odd vocabulary": (dict(hidden_size=54, num_attention_heads=9, num_key_value_heads=3,
                                             vocab_size=131), 21, {}),
    "tied embeddings": (dict(tie_word_embeddings=True, vocab_size=257), 33, {}),
    "another theta and epsilon": (dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
                                       rms_norm_eps=1e-5), 96, {}),
    "six layers in many files": (dict(num_hidden_layers=6, intermediate_size=345), 33, dict(max_shard_size="60KB")),
    "saved in bfloat16": (dict(num_key_value_heads=2), 33, dict(dtype=torch.bfloat16)),
}

FAMILY = Family(Olmo2Config, Olmo2ForCausalLM, SMALL, SHAPES)

if __name__ == "__main__":
    compare_all(FAMILY)
