// Adds the parameters of each part, in the order in which its forward reads them
// (models/attention/, layers.cpp, moe.cpp).
#include "models/parts/description.h"

namespace rondo {
namespace {

using enum ParallelStyle;

void add(ParameterTable& table, const GroupedQueryAttention& a) {
  const std::int64_t q_dim = a.heads * a.head_dim, kv_dim = a.kv_heads * a.head_dim;
  const auto bias = [&](const char* name, const char* theirs, std::int64_t size, ParallelStyle style) {
    if (!a.biases) return;
    const std::string ours = std::string("attention.") + name + ".bias";
    table.add_named(ours, std::string("self_attn.") + theirs + ".bias", {size}, style, kZeros);
  };
  table.add_linear("attention.wq", "self_attn.q_proj", q_dim, table.dim(), colwise, table.plain());
  bias("wq", "q_proj", q_dim, colwise);
  table.add_linear("attention.wk", "self_attn.k_proj", kv_dim, table.dim(), colwise, table.plain());
  bias("wk", "k_proj", kv_dim, colwise);
  table.add_linear("attention.wv", "self_attn.v_proj", kv_dim, table.dim(), colwise, table.plain());
  bias("wv", "v_proj", kv_dim, colwise);
  if (a.qk_norm == QkNorm::per_head) {
    table.add("attention.q_norm", "self_attn.q_norm", {a.head_dim}, replicated, kOnes);
    table.add("attention.k_norm", "self_attn.k_norm", {a.head_dim}, replicated, kOnes);
  } else if (a.qk_norm == QkNorm::whole) {
    table.add("attention.q_norm", "self_attn.q_norm", {q_dim}, colwise, kOnes);
    table.add("attention.k_norm", "self_attn.k_norm", {kv_dim}, colwise, kOnes);
  }
  if (a.sinks) table.add_named("attention.sinks", "self_attn.sinks", {a.heads}, colwise, table.plain());
  table.add_linear("attention.wo", "self_attn.o_proj", table.dim(), q_dim, rowwise, table.deep());
  bias("wo", "o_proj", table.dim(), replicated);
}

void add(ParameterTable& table, const LatentAttention& a) {
  const std::int64_t q_dim = a.heads * (a.plain_width + a.rotated_width);
  if (a.q_rank == 0) {
    table.add_linear("attention.wq", "self_attn.q_proj", q_dim, table.dim(), colwise, table.plain());
  } else {
    table.add_linear("attention.wq_a", "self_attn.q_a_proj", a.q_rank, table.dim(), replicated,
                     table.plain());
    table.add("attention.q_norm", "self_attn.q_a_layernorm", {a.q_rank}, replicated, kOnes);
    table.add_linear("attention.wq_b", "self_attn.q_b_proj", q_dim, a.q_rank, colwise, table.plain());
  }
  table.add_linear("attention.wkv_a", "self_attn.kv_a_proj_with_mqa", a.kv_rank + a.rotated_width,
                   table.dim(), replicated, table.plain());
  table.add("attention.kv_norm", "self_attn.kv_a_layernorm", {a.kv_rank}, replicated, kOnes);
  table.add_linear("attention.wkv_b", "self_attn.kv_b_proj", a.heads * (a.plain_width + a.value_width),
                   a.kv_rank, colwise, table.plain());
  table.add_linear("attention.wo", "self_attn.o_proj", table.dim(), a.heads * a.value_width, rowwise,
                   table.deep());
}

void add_swiglu(ParameterTable& table, const std::string& name, const std::string& theirs,
                std::int64_t width) {
  table.add_linear(name + ".w1", theirs + ".gate_proj", width, table.dim(), colwise, table.plain());
  table.add_linear(name + ".w3", theirs + ".up_proj", width, table.dim(), colwise, table.deep());
  table.add_linear(name + ".w2", theirs + ".down_proj", table.dim(), width, rowwise, table.deep());
}

void add(ParameterTable& table, const FeedForward& f, const LayerNames& names) {
  add_swiglu(table, "feed_forward", names.feed_forward, f.width);
}

void add_experts(ParameterTable& table, const MixtureOfExperts& m, const std::string& theirs) {
  const std::int64_t e = m.experts, dim = table.dim();
  table.add("moe.experts.w1", theirs + "*.gate_proj", {e, m.width, dim}, experts, table.plain(), {1});
  table.add("moe.experts.w3", theirs + "*.up_proj", {e, m.width, dim}, experts, table.deep(), {1});
  table.add("moe.experts.w2", theirs + "*.down_proj", {e, dim, m.width}, experts, table.deep(), {2});
}

// Hugging Face's layout: inputs before outputs.
void add_fused_experts(ParameterTable& table, const MixtureOfExperts& m, const std::string& theirs) {
  const std::int64_t e = m.experts, dim = table.dim(), both = 2 * m.width;
  const bool biases = m.kind == ExpertKind::clamped_swiglu, in_turn = biases;
  const std::string ours = "moe.experts.";
  table.add_named(ours + "gate_up.weight", theirs + "gate_up_proj", {e, dim, both}, experts, table.plain(),
                  {2, in_turn ? 1 : 2}, /*inputs_first=*/true);
  if (biases)
    table.add_named(ours + "gate_up.bias", theirs + "gate_up_proj_bias", {e, both}, experts, kZeros, {1});
  table.add_named(ours + "down.weight", theirs + "down_proj", {e, m.width, dim}, experts, table.deep(), {1},
                  /*inputs_first=*/true);
  if (biases) table.add_named(ours + "down.bias", theirs + "down_proj_bias", {e, dim}, experts, kZeros);
}

void add(ParameterTable& table, const MixtureOfExperts& m, const LayerNames& names) {
  const std::string theirs = names.feed_forward + ".", router = theirs + names.router;
  table.add("moe.router.gate", router, {m.experts, table.dim()}, replicated, table.deep());
  if (m.router_has_bias)
    table.add_named("moe.router.gate.bias", router + ".bias", {m.experts}, replicated, table.deep());
  const auto add_routed = m.kind == ExpertKind::swiglu ? add_experts : add_fused_experts;
  add_routed(table, m, theirs + "experts.");
  if (m.shared_width > 0)
    add_swiglu(table, "moe.shared_experts", theirs + names.shared_experts, m.shared_width);
}

void add(ParameterTable& table, const Block& block, const LayerNames& names) {
  const auto norm = [&](const char* name, const char* theirs) {
    table.add(name, theirs, {table.dim()}, replicated, kOnes);
  };
  const auto attention = [&] { std::visit([&](const auto& kind) { add(table, kind); }, block.attention); };
  const auto feed = [&] {
    std::visit([&](const auto& kind) { add(table, kind, names); }, block.feed_forward);
  };
  if (block.norms == NormPlacement::before) {
    norm("attention_norm", "input_layernorm");
    attention();
    norm("ffn_norm", "post_attention_layernorm");
    feed();
  } else {
    attention();
    norm("attention_norm", "post_attention_layernorm");
    feed();
    norm("ffn_norm", "post_feedforward_layernorm");
  }
}

}  // namespace

StagePart whole_of(const Description& d) { return {0, std::ssize(d.blocks)}; }

ParameterTable described_parameters(const Description& d, const StagePart& part) {
  const auto add_block = [&](ParameterTable& table, std::size_t layer) {
    add(table, d.blocks[layer], d.names);
  };
  return {d.ends, part, d.initial_weights, add_block};
}

std::vector<AttentionMask> attention_masks(const Description& d) {
  std::vector<AttentionMask> masks;
  for (const Block& block : d.blocks)
    masks.push_back(std::visit([](const auto& kind) { return kind.mask; }, block.attention));
  return masks;
}

}  // namespace rondo
