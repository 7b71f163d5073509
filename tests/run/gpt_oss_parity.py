"""gpt-oss against transformers: python3 gpt_oss_parity.py RONDO. See parity.py."""
import json

import torch
from parity import Family, compare_all
from safetensors.torch import load_file, save_file
from transformers import GptOssConfig, GptOssForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

YARN = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "truncate": False, "original_max_position_embeddings": 64}
SMALL = dict(vocab_size=128, hidden_size=64, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=24, num_local_experts=8, num_experts_per_tok=3, sliding_window=7,
             max_position_embeddings=2048, rms_norm_eps=1e-5, tie_word_embeddings=False, pad_token_id=None,
             rope_parameters=YARN)

# Family.shapes of this family.
SHAPES = {
    "a window shorter than the sequence": ({}, 33, {}),
    "a window of one token": (dict(sliding_window=1), 21, {}),
    "a window longer than the sequence": (dict(sliding_window=128), 33, {}),
    "one key head for each query head": (dict(num_key_value_heads=4), 33, {}),
    "beyond the original length": ({}, 72, {}),
    "another YaRN": (dict(rope_parameters={**YARN, "factor": 4.0, "beta_fast": 16.0, "beta_slow": 2.0,
                                           "rope_theta": 10000.0}), 80, {}),
    "rotation without scaling": (dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0}), 33, {}),
    "experts that get no token": (dict(num_local_experts=64, num_experts_per_tok=2), 5, {}),
    "odd sizes": (dict(hidden_size=45, intermediate_size=13, num_attention_heads=9, num_key_value_heads=3, head_dim=10,
                       num_local_experts=9, vocab_size=131), 21, {}),
    "tied embeddings": (dict(tie_word_embeddings=True), 33, {}),
    "saved in bfloat16, in many files": ({}, 33, dict(dtype=torch.bfloat16, max_shard_size="60KB")),
    "experts in MXFP4": (dict(intermediate_size=96), 33, dict(quantized=True)),
}


def rewrite(folder, quantized=False):
    """Replaces the experts of a saved model by experts in MXFP4, and saves in folder/plain what transformers reads."""
    if not quantized:
        return folder
    (folder / "plain").mkdir()
    plain = load_file(folder / "model.safetensors")
    stored = dict(plain)
    for name in [name for name in stored if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, inputs, outputs = stored.pop(name).shape
        blocks = torch.randint(256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
        scales = torch.randint(120, 123, (experts, outputs, inputs // 32), dtype=torch.uint8)
        stored[name + "_blocks"], stored[name + "_scales"] = blocks, scales
        plain[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    config = json.loads((folder / "config.json").read_text())
    (folder / "plain" / "config.json").write_text(json.dumps(config))
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    save_file(plain, folder / "plain" / "model.safetensors", {"format": "pt"})
    return folder / "plain"


FAMILY = Family(GptOssConfig, GptOssForCausalLM, SMALL, SHAPES, rewrite, ("quantized",), options=dict(experts_implementation="eager"))

if __name__ == "__main__":
    compare_all(FAMILY)
