#include <algorithm>
#include <cmath>

#include "models/gpt_oss/gpt_oss.h"

namespace rondo {

const Fields& GptOssConfig::fields() {
  using C = GptOssConfig;
  static const Fields list =
      joined({routed_fields<C>(),
              yarn_fields<C>(),
              {field("sliding_window", &C::sliding_window,
                     "tokens that a query sees in every second layer, from the first on, itself among them",
                     {.minimum = 1, .maximum = kWidest, .unit = "tokens"})}});
  return list;
}

FieldValues GptOssConfig::plain() const {
  FieldValues values = to_values(*this);
  make_plain(values);
  make_plain_rotary(values);
  return values;
}

GptOssConfig GptOssConfig::small() const {
  GptOssConfig c = *this;
  c.make_small();
  c.sliding_window = std::min<std::int64_t>(sliding_window, 5);
  return c;
}

std::vector<SizeProblem> GptOssConfig::problems() const {
  std::vector<SizeProblem> found = routed_problems();
  check_rotary(found);
  return found;
}

Description GptOssConfig::description() const {
  Rotary rotary{rope_theta, head_width()};
  if (rope_scaling_factor != 1.0) {
    YarnScaling scaling = yarn();
    scaling.whole_pairs = false;
    scaling.scale_of_tables = 0.1 * std::log(rope_scaling_factor) + 1.0;
    rotary.scaling = scaling;
  }
  GroupedQueryAttention with_sinks = attention(QkNorm::none);
  with_sinks.biases = with_sinks.sinks = true;
  GroupedQueryAttention windowed = with_sinks;
  windowed.mask.left = sliding_window - 1;
  MixtureOfExperts clamped = experts({.top_k = top_k, .norm = true});
  clamped.kind = ExpertKind::clamped_swiglu;
  clamped.router_has_bias = true;
  std::vector<Block> blocks;
  for (std::int64_t layer = 0; layer < n_layers; ++layer)
    blocks.push_back({layer % 2 == 0 ? windowed : with_sinks, clamped});
  return {.ends = ends(),
          .norm_eps = norm_eps,
          .rotary = rotary,
          .initial_weights = equal_weights({Init::Kind::normal, 0.02, 0.0}),
          .blocks = std::move(blocks),
          .load_balance_coeff = load_balance_coeff,
          .sequence_balance_coeff = sequence_balance_coeff,
          .names = {.router = "router"}};
}

}  // namespace rondo
