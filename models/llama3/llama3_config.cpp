// The fields of Llama 3's sizes, derived sizes, the rules between fields, and the description.
#include <fmt/format.h>

#include <algorithm>

#include "models/llama3/llama3.h"

namespace rondo {

std::int64_t Llama3Config::ffn_width() const {
  if (ffn_hidden_dim > 0) return ffn_hidden_dim;
  const std::int64_t two_thirds = 8 * dim / 3;  // of 4 dim, rounded down as in Meta's code
  const auto wide = static_cast<std::int64_t>(ffn_dim_multiplier * static_cast<double>(two_thirds));
  return (wide + multiple_of - 1) / multiple_of * multiple_of;
}

const Fields& Llama3Config::fields() {
  using C = Llama3Config;
  static const Fields list = joined(
      {stream_fields<C>(),
       grouped_query_fields<C>(),
       {
           field("ffn_dim_multiplier", &C::ffn_dim_multiplier,
                 "factor on the feed-forward's width of 8 dim / 3", {.above = 0, .maximum = 64}),
           field("multiple_of", &C::multiple_of,
                 "the feed-forward's width is rounded up to a multiple of this",
                 {.minimum = 1, .maximum = 1 << 20}),
           field("ffn_hidden_dim", &C::ffn_hidden_dim,
                 "width of the feed-forward; 0 is from dim, ffn_dim_multiplier and multiple_of",
                 {.minimum = 0, .maximum = kWidest}),
       },
       wavelength_fields<C>(),
       {
           field("sliding_window", &C::sliding_window,
                 "tokens that a token sees at most, itself among them; 0: all before it",
                 {.minimum = 0, .maximum = kWidest, .unit = "tokens"}),
           field("attention_chunk", &C::attention_chunk,
                 "a document is cut into pieces of so many tokens that do not see each other; 0: it is not",
                 {.minimum = 0, .maximum = kWidest, .unit = "tokens"}),
       }});
  return list;
}

FieldValues Llama3Config::plain() const {
  FieldValues values = to_values(*this);
  make_plain(values);
  values["ffn_hidden_dim"] = ffn_width();
  for (const char* derives : {"ffn_dim_multiplier", "multiple_of"}) values.erase(derives);
  make_plain_rotary(values);
  for (const char* mask : {"sliding_window", "attention_chunk"})
    if (values.at(mask) == FieldValue(std::int64_t{0})) values.erase(mask);
  return values;
}

Llama3Config Llama3Config::small() const {
  Llama3Config c = *this;
  c.make_small();
  c.ffn_hidden_dim = 48;
  c.sliding_window = std::min<std::int64_t>(sliding_window, 5);
  c.attention_chunk = std::min<std::int64_t>(attention_chunk, 7);
  return c;
}

SharedSizes Llama3Config::shared() const {
  return {{{"n_heads", n_heads}, {"n_kv_heads", n_kv_heads}, {"ffn_hidden_dim", ffn_width()}}, {}};
}

std::vector<SizeProblem> Llama3Config::problems() const {
  std::vector<SizeProblem> found = head_problems();
  check_rotary(found);
  return found;
}

Description Llama3Config::description() const {
  Block block{attention(QkNorm::none), FeedForward{ffn_width()}};
  auto& mask = std::get<GroupedQueryAttention>(block.attention).mask;
  if (sliding_window > 0) mask.left = sliding_window - 1;
  mask.chunk = attention_chunk;
  return {.ends = ends(),
          .norm_eps = norm_eps,
          .rotary = rotary(rope_theta, head_width()),
          .initial_weights = torchtitan_weights(dim),
          .blocks = std::vector<Block>(static_cast<std::size_t>(n_layers), block)};
}

}  // namespace rondo
