// The fields of DeepSeek-V3's sizes, the rules between them, and its table of parameters.
#include <fmt/format.h>

#include <algorithm>

#include "models/deepseek_v3/deepseek_v3.h"

namespace rondo {
namespace {

using C = DeepSeekV3Config;
constexpr double kWidest = 1 << 24;

Fields attention_fields() {
  return {
      field("q_lora_rank", &C::q_lora_rank, "width of the queries' latent; 0 is none",
            {.minimum = 0, .maximum = kWidest}),
      field("kv_lora_rank", &C::kv_lora_rank, "width of the latent of keys and values",
            {.minimum = 1, .maximum = kWidest}),
      field("qk_nope_head_dim", &C::qk_nope_head_dim, "width of a query's or key's head without position",
            {.minimum = 1, .maximum = 1 << 16}),
      field("qk_rope_head_dim", &C::qk_rope_head_dim, "width of what is rotated beside it; even",
            {.minimum = 2, .maximum = 1 << 16}),
      field("v_head_dim", &C::v_head_dim, "width of a value's head", {.minimum = 1, .maximum = 1 << 16}),
      field("latent_norm_eps", &C::latent_norm_eps,
            "added to the mean square in the RMSNorm of the latents; transformers has 1e-6 there",
            {.above = 0, .below = 1}),
  };
}

Fields expert_fields() {
  return {
      field("moe_hidden_dim", &C::moe_hidden_dim, "width of an expert", {.minimum = 1, .maximum = kWidest}),
      field("n_experts", &C::n_experts, "routed experts of a layer", {.minimum = 1, .maximum = 1 << 16}),
      field("n_shared_experts", &C::n_shared_experts, "experts that every token takes",
            {.minimum = 0, .maximum = 1 << 10}),
      field("top_k", &C::top_k, "routed experts that a token takes", {.minimum = 1, .maximum = 1 << 16}),
      field("score_func", &C::score_func, "what makes scores of the router's logits",
            {.allowed = {"softmax", "sigmoid"}}),
      field("n_expert_groups", &C::n_expert_groups, "equal groups of neighbouring experts; divides n_experts",
            {.minimum = 1, .maximum = 1 << 16}),
      field("n_limited_groups", &C::n_limited_groups,
            "groups that a token may choose from: those with the best sum of two scores",
            {.minimum = 1, .maximum = 1 << 16}),
      field("route_norm", &C::route_norm, "divide the chosen scores of a token by their sum"),
      field("route_scale", &C::route_scale, "factor on the chosen scores", {.above = 0}),
      field("load_balance_coeff", &C::load_balance_coeff,
            "step by which an expert's bias moves against its load, once an optimizer step",
            {.minimum = 0, .below = 1}),
      field("sequence_balance_coeff", &C::sequence_balance_coeff,
            "factor on the auxiliary loss of each sequence's load, which is differentiated with the loss and "
            "not reported in it; 0 is none",
            {.minimum = 0}),
  };
}

Fields rope_fields() {
  return {
      field("rope_theta", &C::rope_theta, "base of the rotary frequencies", {.above = 1}),
      field("rope_scaling_factor", &C::rope_scaling_factor,
            "YaRN: low rotary frequencies are divided by this; 1 is no scaling", {.minimum = 1}),
      field("rope_beta_fast", &C::rope_beta_fast,
            "YaRN: what turns more often in rope_original_max_seq_len is not scaled", {.above = 0}),
      field("rope_beta_slow", &C::rope_beta_slow,
            "YaRN: what turns less often in rope_original_max_seq_len is scaled in full", {.above = 0}),
      field("rope_mscale", &C::rope_mscale,
            "YaRN: attention scores grow by (0.1 rope_mscale ln(rope_scaling_factor) + 1) squared",
            {.minimum = 0}),
      field("rope_original_max_seq_len", &C::rope_original_max_seq_len,
            "sequence length that the scaling starts from",
            {.minimum = 1, .maximum = kWidest, .unit = "tokens"}),
  };
}

void add_attention(ParameterTable& table, const C& c) {
  using enum ParallelStyle;
  const std::int64_t q_dim = c.n_heads * c.qk_head_dim();
  if (c.q_lora_rank == 0) {
    table.add("attention.wq", "self_attn.q_proj", {q_dim, c.dim}, colwise, kNormal);
  } else {
    table.add("attention.wq_a", "self_attn.q_a_proj", {c.q_lora_rank, c.dim}, replicated, kNormal);
    table.add("attention.q_norm", "self_attn.q_a_layernorm", {c.q_lora_rank}, replicated, kOnes);
    table.add("attention.wq_b", "self_attn.q_b_proj", {q_dim, c.q_lora_rank}, colwise, kNormal);
  }
  table.add("attention.wkv_a", "self_attn.kv_a_proj_with_mqa", {c.kv_lora_rank + c.qk_rope_head_dim, c.dim},
            replicated, kNormal);
  table.add("attention.kv_norm", "self_attn.kv_a_layernorm", {c.kv_lora_rank}, replicated, kOnes);
  table.add("attention.wkv_b", "self_attn.kv_b_proj",
            {c.n_heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank}, colwise, kNormal);
  table.add("attention.wo", "self_attn.o_proj", {c.dim, c.n_heads * c.v_head_dim}, rowwise,
            table.deep_normal());
}

void add_experts(ParameterTable& table, const C& c) {
  using enum ParallelStyle;
  const std::int64_t e = c.n_experts, hidden = c.moe_hidden_dim;
  const Init deep = table.deep_normal();
  table.add("moe.router.gate", "mlp.gate", {e, c.dim}, replicated, deep);
  table.add("moe.experts.w1", "mlp.experts.*.gate_proj", {e, hidden, c.dim}, experts, kNormal);
  table.add("moe.experts.w3", "mlp.experts.*.up_proj", {e, hidden, c.dim}, experts, deep);
  table.add("moe.experts.w2", "mlp.experts.*.down_proj", {e, c.dim, hidden}, experts, deep);
  if (c.n_shared_experts > 0)
    table.add_feed_forward("moe.shared_experts", "mlp.shared_experts", c.dim, hidden * c.n_shared_experts);
}

}  // namespace

const Fields& DeepSeekV3Config::fields() {
  static const Fields list = [] {
    Fields all = {
        field("dim", &C::dim, "width of the residual stream", {.minimum = 1, .maximum = 1 << 20}),
        field("n_layers", &C::n_layers, "transformer blocks", {.minimum = 1, .maximum = 10000}),
        field("n_dense_layers", &C::n_dense_layers,
              "first blocks, which have one feed-forward and no experts", {.minimum = 0, .maximum = 10000}),
        field("n_heads", &C::n_heads, "attention heads", {.minimum = 1, .maximum = 1 << 16}),
        field("vocab_size", &C::vocab_size, "rows of the token embedding",
              {.minimum = 1, .maximum = kWidest}),
        field("ffn_hidden_dim", &C::ffn_hidden_dim, "width of the dense layers' feed-forward",
              {.minimum = 1, .maximum = kWidest}),
        field("norm_eps", &C::norm_eps, "added to the mean square in RMSNorm", {.above = 0, .below = 1}),
        field("max_seq_len", &C::max_seq_len, "longest sequence that the model takes",
              {.minimum = 1, .maximum = kWidest, .unit = "tokens"}),
    };
    for (Fields part : {attention_fields(), expert_fields(), rope_fields()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return list;
}

FieldValues DeepSeekV3Config::plain() const {
  FieldValues values = to_values(*this);
  values.erase("load_balance_coeff");
  values.erase("sequence_balance_coeff");
  if (rope_scaling_factor == 1.0)
    for (const char* unused :
         {"rope_beta_fast", "rope_beta_slow", "rope_mscale", "rope_original_max_seq_len"})
      values.erase(unused);
  return values;
}

DeepSeekV3Config DeepSeekV3Config::small() const {
  DeepSeekV3Config c = *this;
  const bool has_experts = n_dense_layers<n_layers, has_groups = n_expert_groups> 1;
  c.n_dense_layers = std::min<std::int64_t>(n_dense_layers, 1);
  c.n_layers = c.n_dense_layers + std::min<std::int64_t>(n_layers - c.n_dense_layers, has_experts ? 2 : 1);
  if (!has_experts) c.n_dense_layers = c.n_layers;
  c.dim = 41, c.n_heads = 24, c.vocab_size = 259, c.ffn_hidden_dim = 48;
  c.q_lora_rank = q_lora_rank > 0 ? 19 : 0, c.kv_lora_rank = 13;
  c.qk_nope_head_dim = 4, c.qk_rope_head_dim = 4, c.v_head_dim = 6;
  c.moe_hidden_dim = 24, c.n_experts = 24, c.n_shared_experts = std::min<std::int64_t>(n_shared_experts, 2);
  c.top_k = std::min<std::int64_t>(top_k, 3);
  c.n_expert_groups = has_groups ? 8 : 1, c.n_limited_groups = has_groups ? 2 : 1;
  return c;
}

SharedSizes DeepSeekV3Config::shared() const {
  return {{{"n_heads", n_heads},
           {"ffn_hidden_dim", ffn_hidden_dim},
           {"moe_hidden_dim", moe_hidden_dim * n_shared_experts}},
          {{"n_experts", n_experts}}};
}

std::vector<SizeProblem> DeepSeekV3Config::problems() const {
  std::vector<SizeProblem> found;
  const auto add = [&](std::vector<std::string> keys, std::string rule) {
    found.push_back({std::move(keys), std::move(rule)});
  };
  if (qk_rope_head_dim % 2 != 0)
    add({"qk_rope_head_dim"}, "model.qk_rope_head_dim must be even: rotary embedding turns pairs");
  if (n_dense_layers > n_layers)
    add({"n_dense_layers", "n_layers"},
        fmt::format("model.n_dense_layers must be at most model.n_layers = {}", n_layers));
  if (n_experts % n_expert_groups != 0) {
    add({"n_expert_groups", "n_experts"},
        "model.n_expert_groups must divide model.n_experts, and " + division(n_experts, n_expert_groups));
    return found;
  }
  if (n_limited_groups > n_expert_groups)
    add({"n_limited_groups", "n_expert_groups"},
        fmt::format("model.n_limited_groups must be at most model.n_expert_groups = {}", n_expert_groups));
  const std::int64_t group = n_experts / n_expert_groups;
  if (n_expert_groups > 1 && group < 2)
    add({"n_expert_groups", "n_experts"},
        fmt::format("a group must have 2 experts or more, since its two best scores count, and {} / {} = {}",
                    n_experts, n_expert_groups, group));
  if (top_k > n_limited_groups * group)
    add({"top_k", "n_limited_groups", "n_experts"},
        fmt::format("model.top_k must be at most the {} experts that a token may choose from: "
                    "n_limited_groups * n_experts / n_expert_groups = {} * {}",
                    n_limited_groups * group, n_limited_groups, group));
  if (rope_scaling_factor > 1 && rope_beta_slow >= rope_beta_fast)
    add({"rope_beta_slow", "rope_beta_fast"},
        fmt::format("model.rope_beta_slow = {} must be less than model.rope_beta_fast = {}", rope_beta_slow,
                    rope_beta_fast));
  return found;
}

ParameterTable DeepSeekV3Config::parameters() const {
  using enum ParallelStyle;
  const auto add_block = [this](ParameterTable& table, std::int64_t layer) {
    table.add("attention_norm", "input_layernorm", {dim}, replicated, kOnes);
    add_attention(table, *this);
    table.add("ffn_norm", "post_attention_layernorm", {dim}, replicated, kOnes);
    if (layer < n_dense_layers)
      table.add_feed_forward("feed_forward", "mlp", dim, ffn_hidden_dim);
    else
      add_experts(table, *this);
  };
  return {{dim, n_layers, vocab_size, /*tie_embeddings=*/false}, add_block};
}

}  // namespace rondo
