#include "models/qwen3_moe/qwen3_moe.h"

namespace rondo {

const Fields& Qwen3MoeConfig::fields() {
  using C = Qwen3MoeConfig;
  static const Fields list = joined({routed_fields<C>(), {route_norm_field<C>()}});
  return list;
}

FieldValues Qwen3MoeConfig::plain() const {
  FieldValues values = to_values(*this);
  make_plain(values);
  return values;
}

Qwen3MoeConfig Qwen3MoeConfig::small() const {
  Qwen3MoeConfig c = *this;
  c.make_small();
  return c;
}

Description Qwen3MoeConfig::description() const {
  const Block block{attention(QkNorm::per_head), experts({.top_k = top_k, .norm = route_norm})};
  return {.ends = ends(),
          .norm_eps = norm_eps,
          .rotary = {rope_theta, head_width()},
          .initial_weights = equal_weights({Init::Kind::normal, 0.02, 0.0}),
          .blocks = std::vector<Block>(static_cast<std::size_t>(n_layers), block),
          .load_balance_coeff = load_balance_coeff,
          .sequence_balance_coeff = sequence_balance_coeff};
}

}  // namespace rondo
