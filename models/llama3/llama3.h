// Llama 3 (Grattafiori et al., "The Llama 3 Herd of Models", 2024): pre-norm decoder, grouped-query
// attention, SwiGLU, half-split RoPE as Hugging Face stores it, with llama-3.1 frequency scaling; initialised
// as torchtitan does.
//
// Its configuration: the [model] section of a run with model.name = "llama3". No LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/parts/model_spec.h"
#include "models/parts/parameter_table.h"
#include "support/fields.h"

namespace rondo {

struct Llama3Config {
  static constexpr const char* kName = "llama3";

  std::int64_t dim = 256;
  std::int64_t n_layers = 6;
  std::int64_t n_heads = 16;
  std::int64_t n_kv_heads = 16;  // divides n_heads; each serves n_heads / n_kv_heads query heads
  std::int64_t vocab_size = 2048;
  double ffn_dim_multiplier = 1.0;
  std::int64_t multiple_of = 256;
  std::int64_t ffn_hidden_dim = 0;  // 0 = from dim, ffn_dim_multiplier and multiple_of
  std::int64_t head_dim = 0;        // 0 = dim / n_heads
  double norm_eps = 1e-5;
  double rope_theta = 500000.0;
  double rope_scaling_factor = 8.0;  // 1 = no scaling
  double rope_low_freq_factor = 1.0;
  double rope_high_freq_factor = 4.0;
  std::int64_t rope_original_max_seq_len = 8192;
  std::int64_t max_seq_len = 131072;
  bool tie_embeddings = false;  // the head is the token embedding

  // Elements of one head; the heads together may be narrower or wider than dim.
  std::int64_t head_width() const { return head_dim > 0 ? head_dim : dim / n_heads; }
  // Hidden width of the feed-forward: ffn_hidden_dim, or 8 dim / 3 truncated, times the multiplier truncated,
  // rounded up to a multiple of `multiple_of`.
  std::int64_t ffn_width() const;

  static const Fields& fields();
  // What tells one model from another: with the widths spelt out that may be left to follow from others, and
  // without fields that then have no effect.
  FieldValues plain() const;
  // The same parts, few and narrow: 24 of what ranks share, so that 2, 3, 4, 6 and 8 of them can; a
  // vocabulary and a width that none of these divides.
  Llama3Config small() const;
  // The rules between fields that do not hold; each field alone is within its range.
  std::vector<SizeProblem> problems() const;
  // What ranks that share layers or experts divide.
  SharedSizes shared() const;
  ParameterTable parameters() const;
  // Its names at Hugging Face.
  static const hugging_face::ModelType& hugging_face_type();
};

// In the LibTorch half: llama3.cpp.
std::shared_ptr<const Decoder> make_decoder(const Llama3Config& config);

}  // namespace rondo
