#include "models/olmo2/olmo2.h"

namespace rondo {

const Fields& Olmo2Config::fields() {
  static const Fields list = dense_fields<Olmo2Config>();
  return list;
}

FieldValues Olmo2Config::plain() const {
  FieldValues values = to_values(*this);
  make_plain(values);
  return values;
}

Olmo2Config Olmo2Config::small() const {
  Olmo2Config c = *this;
  c.make_small();
  return c;
}

Description Olmo2Config::description() const {
  const Init cut_at_three_deviations{Init::Kind::truncated_normal, 0.02, 0.06};
  return {.ends = ends(),
          .norm_eps = norm_eps,
          .rotary = {rope_theta, head_width()},
          .initial_weights = equal_weights(cut_at_three_deviations),
          .blocks = blocks(QkNorm::whole, NormPlacement::after)};
}

}  // namespace rondo
