"""The training step of configs/deepseek_v3_debug.toml with transformers' model: what scripts/bench_cpu.sh compares it with.

Same sizes and arithmetic, but transformers has no softmax scores: Rondo runs beside it with model.score_func = "sigmoid".
Attention is PyTorch's scaled_dot_product_attention. The rest is torch_step.py's.
"""
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch_step import parser, run_steps

os.environ.setdefault("HF_HUB_OFFLINE", "1")
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM
from transformers.utils import logging

SIZES = dict(vocab_size=2048, hidden_size=256, intermediate_size=1024, moe_intermediate_size=256, num_hidden_layers=6,
             first_k_dense_replace=1, num_attention_heads=16, num_key_value_heads=16, q_lora_rank=None, kv_lora_rank=512,
             qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=8, n_shared_experts=2,
             num_experts_per_tok=3, n_group=1, topk_group=1, norm_topk_prob=False, routed_scaling_factor=1.0,
             rms_norm_eps=1e-5, max_position_embeddings=16384, num_nextn_predict_layers=0,
             rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "beta_fast": 32, "beta_slow": 1,
                              "mscale": 0.7, "mscale_all_dim": 0.7, "original_max_position_embeddings": 4096})


class Step(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.model = DeepseekV3ForCausalLM._from_config(DeepseekV3Config(**SIZES), attn_implementation="sdpa",
                                                        experts_implementation=experts).float()
        self.model.train()

    def forward(self, tokens, labels):
        logits = self.model(tokens, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / labels.numel()


def main():
    p = parser(__doc__, batch=2, length=128)
    p.add_argument("--experts", default="eager", help="transformers' implementation of the experts")
    a = p.parse_args()
    logging.set_verbosity_error()
    torch.manual_seed(0)
    run_steps(a, Step(a.experts))


if __name__ == "__main__":
    main()
