#include <fmt/format.h>

#include <algorithm>

#include "models/qwen3_moe/qwen3_moe.h"

namespace rondo {

const Fields& Qwen3MoeConfig::fields() {
  using C = Qwen3MoeConfig;
  static const Fields list =
      joined({stream_fields<C>(), grouped_query_fields<C>(), expert_fields<C>(), {route_norm_field<C>()}});
  return list;
}

FieldValues Qwen3MoeConfig::plain() const {
  FieldValues values = to_values(*this);
  spell_out(values);
  values.erase("sequence_balance_coeff");
  if (load_balance_coeff == 0) values.erase("load_balance_coeff");
  return values;
}

Qwen3MoeConfig Qwen3MoeConfig::small() const {
  Qwen3MoeConfig c = *this;
  c.make_small();
  c.moe_hidden_dim = 24, c.n_experts = 24, c.top_k = std::min<std::int64_t>(top_k, 3);
  return c;
}

std::vector<SizeProblem> Qwen3MoeConfig::problems() const {
  std::vector<SizeProblem> found = head_problems();
  if (top_k > n_experts)
    found.push_back(
        {{"top_k", "n_experts"}, fmt::format("model.top_k must be at most model.n_experts = {}", n_experts)});
  return found;
}

Description Qwen3MoeConfig::description() const {
  const RouterOptions router{.top_k = top_k, .sigmoid = false, .norm = route_norm};
  const MixtureOfExperts experts{router, n_experts, moe_hidden_dim, /*shared_width=*/0,
                                 /*has_bias=*/load_balance_coeff > 0};
  const Block block{attention(QkNorm::per_head), experts};
  return {ends(),
          norm_eps,
          {rope_theta, head_width()},
          equal_weights({Init::Kind::normal, 0.02, 0.0}),
          std::vector<Block>(static_cast<std::size_t>(n_layers), block),
          load_balance_coeff,
          sequence_balance_coeff};
}

}  // namespace rondo
