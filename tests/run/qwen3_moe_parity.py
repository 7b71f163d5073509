"""Qwen3's mixtures of experts against transformers: python3 qwen3_moe_parity.py RONDO. See parity.py.

Experts are compared as they are saved (expert_gradients.py).
"""
import torch
from expert_gradients import gradients_as_saved, measured_with
from parity import Family, compare_all
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

SMALL = dict(vocab_size=128, hidden_size=64, moe_intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=24, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True,
             max_position_embeddings=128, rms_norm_eps=1e-6, tie_word_embeddings=False,
             rope_parameters={"rope_type": "default", "rope_theta": 1e6})

# Family.shapes of this family.
SHAPES = {
    "three of eight experts": ({}, 33, {}),
    "scores that do not add up to one": (dict(norm_topk_prob=False), 33, {}),
    "one expert a token": (dict(num_experts_per_tok=1, norm_topk_prob=False), 33, {}),
    "experts that get no token": (dict(num_experts=64, num_experts_per_tok=2), 5, {}),
    "all experts": (dict(num_experts=4, num_experts_per_tok=4, num_key_value_heads=1), 20, {}),
    "odd sizes": (dict(hidden_size=45, moe_intermediate_size=13, num_attention_heads=9, num_key_value_heads=3,
                       head_dim=10, num_experts=9, vocab_size=131), 21, {}),
    "tied embeddings": (dict(tie_word_embeddings=True), 33, {}),
    "saved in bfloat16, in many files": ({}, 33, dict(dtype=torch.bfloat16, max_shard_size="60KB")),
}

FAMILY = Family(Qwen3MoeConfig, Qwen3MoeForCausalLM, SMALL, SHAPES, gradients=gradients_as_saved,
                measured_with=measured_with, options=dict(experts_implementation="eager"))

if __name__ == "__main__":
    compare_all(FAMILY)
