// The fields of Llama 3's sizes, what follows from them, the rules between them, and its table of parameters.
#include <fmt/format.h>

#include <algorithm>

#include "models/llama3/llama3.h"

namespace rondo {

std::int64_t Llama3Config::ffn_width() const {
  if (ffn_hidden_dim > 0) return ffn_hidden_dim;
  const std::int64_t two_thirds = 8 * dim / 3;  // of four times dim, rounded down as in Meta's code
  const auto wide = static_cast<std::int64_t>(ffn_dim_multiplier * static_cast<double>(two_thirds));
  return (wide + multiple_of - 1) / multiple_of * multiple_of;
}

const Fields& Llama3Config::fields() {
  using C = Llama3Config;
  static const Fields list = {
      field("dim", &C::dim, "width of the residual stream", {.minimum = 1, .maximum = 1 << 20}),
      field("n_layers", &C::n_layers, "transformer blocks", {.minimum = 1, .maximum = 10000}),
      field("n_heads", &C::n_heads, "query heads; divides dim where head_dim is 0",
            {.minimum = 1, .maximum = 1 << 16}),
      field("n_kv_heads", &C::n_kv_heads, "key and value heads; divides n_heads",
            {.minimum = 1, .maximum = 1 << 16}),
      field("vocab_size", &C::vocab_size, "rows of the token embedding", {.minimum = 1, .maximum = 1 << 24}),
      field("ffn_dim_multiplier", &C::ffn_dim_multiplier, "factor on the feed-forward's width of 8 dim / 3",
            {.above = 0, .maximum = 64}),
      field("multiple_of", &C::multiple_of, "the feed-forward's width is rounded up to a multiple of this",
            {.minimum = 1, .maximum = 1 << 20}),
      field("ffn_hidden_dim", &C::ffn_hidden_dim,
            "width of the feed-forward; 0 is from dim, ffn_dim_multiplier and multiple_of",
            {.minimum = 0, .maximum = 1 << 24}),
      field("head_dim", &C::head_dim, "width of one head; 0 is dim / n_heads",
            {.minimum = 0, .maximum = 1 << 16}),
      field("norm_eps", &C::norm_eps, "added to the mean square in RMSNorm", {.above = 0, .below = 1}),
      field("rope_theta", &C::rope_theta, "base of the rotary frequencies", {.above = 1}),
      field("rope_scaling_factor", &C::rope_scaling_factor,
            "Llama 3.1 scaling: low rotary frequencies are divided by this; 1 is no scaling", {.minimum = 1}),
      field("rope_low_freq_factor", &C::rope_low_freq_factor,
            "waves longer than rope_original_max_seq_len / this are scaled in full", {.above = 0}),
      field("rope_high_freq_factor", &C::rope_high_freq_factor,
            "waves shorter than rope_original_max_seq_len / this are not scaled", {.above = 0}),
      field("rope_original_max_seq_len", &C::rope_original_max_seq_len,
            "sequence length that the scaling starts from",
            {.minimum = 1, .maximum = 1 << 24, .unit = "tokens"}),
      field("max_seq_len", &C::max_seq_len, "longest sequence that the model takes",
            {.minimum = 1, .maximum = 1 << 24, .unit = "tokens"}),
      field("tie_embeddings", &C::tie_embeddings, "the output head shares the token embedding's weight"),
  };
  return list;
}

FieldValues Llama3Config::plain() const {
  FieldValues values = to_values(*this);
  values["ffn_hidden_dim"] = ffn_width();
  values["head_dim"] = head_width();
  for (const char* derives : {"ffn_dim_multiplier", "multiple_of"}) values.erase(derives);
  if (rope_scaling_factor == 1.0)
    for (const char* unused : {"rope_low_freq_factor", "rope_high_freq_factor", "rope_original_max_seq_len"})
      values.erase(unused);
  return values;
}

Llama3Config Llama3Config::small() const {
  Llama3Config c = *this;
  c.n_kv_heads = 24, c.n_heads = n_heads > n_kv_heads ? 48 : 24, c.head_dim = 4;
  c.dim = 41, c.ffn_hidden_dim = 48, c.n_layers = std::min<std::int64_t>(n_layers, 2), c.vocab_size = 259;
  return c;
}

SharedSizes Llama3Config::shared() const {
  return {{{"n_heads", n_heads}, {"n_kv_heads", n_kv_heads}, {"ffn_hidden_dim", ffn_width()}}, {}};
}

std::vector<SizeProblem> Llama3Config::problems() const {
  std::vector<SizeProblem> found;
  const auto add = [&](std::vector<std::string> keys, std::string rule) {
    found.push_back({std::move(keys), std::move(rule)});
  };
  if (head_dim % 2 != 0) add({"head_dim"}, "model.head_dim must be even: rotary embedding turns pairs");
  if (head_dim == 0 && dim % n_heads != 0)
    add({"dim", "n_heads"},
        fmt::format("model.dim must be a multiple of model.n_heads, and {} (model.head_dim gives "
                    "heads a width of their own)",
                    division(dim, n_heads)));
  else if (head_dim == 0 && head_width() % 2 != 0)
    add({"dim", "n_heads"},
        fmt::format("model.dim / model.n_heads = {} / {} = {} must be even: rotary embedding turns pairs",
                    dim, n_heads, head_width()));
  if (n_heads % n_kv_heads != 0)
    add({"n_kv_heads", "n_heads"},
        "model.n_kv_heads must divide model.n_heads, and " + division(n_heads, n_kv_heads));
  if (rope_scaling_factor > 1 && rope_low_freq_factor >= rope_high_freq_factor)
    add({"rope_low_freq_factor", "rope_high_freq_factor"},
        fmt::format("model.rope_low_freq_factor = {} must be less than model.rope_high_freq_factor = {}",
                    rope_low_freq_factor, rope_high_freq_factor));
  return found;
}

ParameterTable Llama3Config::parameters() const {
  using enum ParallelStyle;
  const std::int64_t q_dim = n_heads * head_width(), kv_dim = n_kv_heads * head_width();
  const auto add_block = [&](ParameterTable& table, std::int64_t) {
    table.add("attention_norm", "input_layernorm", {dim}, replicated, kOnes);
    table.add("attention.wq", "self_attn.q_proj", {q_dim, dim}, colwise, kNormal);
    table.add("attention.wk", "self_attn.k_proj", {kv_dim, dim}, colwise, kNormal);
    table.add("attention.wv", "self_attn.v_proj", {kv_dim, dim}, colwise, kNormal);
    table.add("attention.wo", "self_attn.o_proj", {dim, q_dim}, rowwise, table.deep_normal());
    table.add("ffn_norm", "post_attention_layernorm", {dim}, replicated, kOnes);
    table.add_feed_forward("feed_forward", "mlp", dim, ffn_width());
  };
  return {{dim, n_layers, vocab_size, tie_embeddings}, add_block};
}

}  // namespace rondo
