// A tiny DeepSeek-V3 for tests of whole runs, and the ladder with it.
#pragma once

#include <string>

#include "tests/run/ladder.h"

namespace rondo {

// A small model with every part. Biases change enough in a step to change the choice of experts.
inline const std::string kTinyDeepSeek = R"(
[model]
name = "deepseek_v3"
flavor = "debugmodel"
dim = 48
n_layers = 3
n_heads = 3
vocab_size = 259
ffn_hidden_dim = 96
q_lora_rank = 20
kv_lora_rank = 24
qk_nope_head_dim = 16
qk_rope_head_dim = 8
v_head_dim = 12
moe_hidden_dim = 32
n_experts = 8
n_shared_experts = 1
top_k = 3
score_func = "sigmoid"
n_expert_groups = 4
n_limited_groups = 2
route_norm = true
route_scale = 2.5
load_balance_coeff = 0.02
)";

inline void climb_deepseek(const Point& point, const Words& flags = {}) {
  climb(point, flags, Place(kTinyDeepSeek));
}

}  // namespace rondo
