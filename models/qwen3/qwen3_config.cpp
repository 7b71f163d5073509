#include "models/qwen3/qwen3.h"

namespace rondo {

const Fields& Qwen3Config::fields() {
  static const Fields list = dense_fields<Qwen3Config>();
  return list;
}

FieldValues Qwen3Config::plain() const {
  FieldValues values = to_values(*this);
  make_plain(values);
  return values;
}

Qwen3Config Qwen3Config::small() const {
  Qwen3Config c = *this;
  c.make_small();
  return c;
}

Description Qwen3Config::description() const {
  return {.ends = ends(),
          .norm_eps = norm_eps,
          .rotary = {rope_theta, head_width()},
          .initial_weights = equal_weights({Init::Kind::normal, 0.02, 0.0}),
          .blocks = blocks(QkNorm::per_head, NormPlacement::before)};
}

}  // namespace rondo
