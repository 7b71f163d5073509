"""DeepSeek-V3 against transformers: python3 deepseek_parity.py RONDO. See parity.py.

Experts are compared as they are saved (expert_gradients.py).
"""
import json

import torch
from expert_gradients import gradients_as_saved, measured_with
from parity import Family, compare_all
from safetensors.torch import load_file, save_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

SMALL = dict(vocab_size=128, hidden_size=64, intermediate_size=160, moe_intermediate_size=48, num_hidden_layers=3,
             num_attention_heads=4, num_key_value_heads=4, n_shared_experts=1, n_routed_experts=8,
             num_experts_per_tok=3, n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=True,
             kv_lora_rank=24, q_lora_rank=20, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16,
             first_k_dense_replace=1, max_position_embeddings=2560, rms_norm_eps=1e-6, num_nextn_predict_layers=0,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "beta_fast": 32, "beta_slow": 1,
        "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 64}

# Family.shapes of this family.
SHAPES = {
    "queries through a latent": ({}, 33, {}),
    "queries from one matrix": (dict(q_lora_rank=None), 33, {}),
    "YaRN beyond the original length": (dict(rope_parameters=YARN), 96, {}),
    "YaRN with another mscale, factor and betas": (
        dict(rope_parameters={**YARN, "mscale": 0.7, "mscale_all_dim": 0.7, "factor": 4.0, "beta_fast": 16,
                              "beta_slow": 2}, q_lora_rank=None, max_position_embeddings=256), 80, {}),
    "three dense layers of five": (dict(first_k_dense_replace=3, num_hidden_layers=5), 33, {}),
    "no dense layer": (dict(first_k_dense_replace=0, num_hidden_layers=2), 33, {}),
    "dense layers alone": (dict(first_k_dense_replace=2, num_hidden_layers=2), 33, {}),
    "two shared experts": (dict(n_shared_experts=2), 33, {}),
    "one group": (dict(n_group=1, topk_group=1, n_routed_experts=6, num_experts_per_tok=4), 33, {}),
    "scores that do not add up to one": (dict(norm_topk_prob=False, routed_scaling_factor=1.0), 33, {}),
    "one expert a token": (dict(num_experts_per_tok=1, topk_group=1, norm_topk_prob=False), 33, {}),
    "experts that get no token": (dict(n_routed_experts=64, n_group=8, topk_group=1, num_experts_per_tok=2), 5, {}),
    "odd sizes": (dict(hidden_size=45, intermediate_size=77, moe_intermediate_size=13, num_attention_heads=3,
                       num_key_value_heads=3, n_routed_experts=9, n_group=3, topk_group=2, kv_lora_rank=11,
                       q_lora_rank=7, qk_nope_head_dim=5, qk_rope_head_dim=6, v_head_dim=9, vocab_size=131), 21, {}),
    "Kimi K2's shape, rotary included": (
        dict(n_group=1, topk_group=1, n_routed_experts=12, num_experts_per_tok=4, routed_scaling_factor=2.827,
             rope_parameters={**YARN, "rope_theta": 50000.0, "factor": 32.0, "beta_fast": 1.0, "beta_slow": 1.0}), 96,
        {}),
    "values wider than keys": (dict(v_head_dim=40), 33, {}),
    "saved in bfloat16, in many files": ({}, 33, dict(dtype=torch.bfloat16, max_shard_size="100KB")),
    "saved in 8 bits, in blocks": (dict(hidden_size=200, intermediate_size=150, moe_intermediate_size=140,
                                        kv_lora_rank=130), 33, dict(quantized=True)),
}


def in_blocks(weight):
    """Returns (8 bits of each element, a scale of each block of 128 x 128, the dequantized matrix)."""
    rows, columns = weight.shape
    blocks = torch.nn.functional.pad(weight, (0, -columns % 128, 0, -rows % 128))
    blocks = blocks.unflatten(1, (-1, 128)).unflatten(0, (-1, 128))
    scales = blocks.abs().amax((1, 3)) / torch.finfo(torch.float8_e4m3fn).max
    bits = (blocks / scales[:, None, :, None]).to(torch.float8_e4m3fn)
    whole = [part.flatten(2, 3).flatten(0, 1)[:rows, :columns].contiguous()
             for part in (bits, bits.float() * scales[:, None, :, None])]
    return whole[0], scales, whole[1]


def rewrite(folder, quantized=False):
    """Quantizes the projections of a saved model to 8 bits, and saves the dequantized model in folder/plain."""
    if not quantized:
        return folder
    (folder / "plain").mkdir()
    stored = load_file(folder / "model.safetensors")
    plain = dict(stored)
    for name in [name for name in stored if "_proj" in name]:
        stored[name], stored[name + "_scale_inv"], plain[name] = in_blocks(plain[name])
    config = json.loads((folder / "config.json").read_text())
    (folder / "plain" / "config.json").write_text(json.dumps(config))
    config["quantization_config"] = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                     "weight_block_size": [128, 128]}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    save_file(plain, folder / "plain" / "model.safetensors", {"format": "pt"})
    return folder / "plain"


FAMILY = Family(DeepseekV3Config, DeepseekV3ForCausalLM, SMALL, SHAPES, rewrite, ("quantized",), gradients_as_saved,
                measured_with, dict(experts_implementation="eager"))

if __name__ == "__main__":
    compare_all(FAMILY)
