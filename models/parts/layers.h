// What decoders share: norm, linear and feed-forward layers, rotary tables, and the way from tokens to
// logits.
//
// Shape suffixes: B batch, T sequence, N tokens of this rank (parallel/sharding.h), D model dim, F
// feed-forward, V vocabulary, K width of what is rotated.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "models/parts/decoder.h"

namespace rondo {

// Each opens the scope `name` and reads the weights in it. The order in which a forward calls them is the
// order in which ranks gather: statements, not nested calls.
//
// Root mean square norm over the last dimension, in fp32 (fp64 for fp64), scaled in x's dtype.
at::Tensor rms_norm(const char* name, const at::Tensor& x, const Weights& weights, double eps);
at::Tensor linear(const char* name, const at::Tensor& x, const Weights& weights);
// SwiGLU: w2(silu(w1 x) * w3 x).
at::Tensor feed_forward(const char* name, const at::Tensor& x, const Weights& weights);

// Cosines and sines at the positions of the tokens, of the tables' dtype: [B or 1, T, 1, K/2].
struct RotaryTables {
  at::Tensor cos, sin;
};
RotaryTables rotary_tables(const ForwardInputs& inputs);
// The pairs (first_i, second_i) turned by their angles, all firsts and then all seconds.
at::Tensor apply_rotary(const at::Tensor& first, const at::Tensor& second, const RotaryTables& rope);
// "rope.cos" and "rope.sin", fp64 [seq_len, frequencies]; the angle of position t is t * frequency.
std::vector<Buffer> rotary_buffers(const std::vector<double>& frequencies, std::int64_t seq_len);

// Scopes "tok_embeddings", "layers.0" and so on, "norm", "output".
struct DecoderStack {
  std::int64_t n_layers;
  double norm_eps;
  bool tie_embeddings;
  // The block of a layer, h [N, D] of this rank's tokens to h, in its scope. Copied; what it refers to
  // outlives the backward.
  std::function<at::Tensor(const at::Tensor& h_ND, std::int64_t layer)> block;
};
// Logits [B, T, V], of this rank's part of the vocabulary.
at::Tensor decode(const Weights& weights, const ForwardInputs& inputs, const DecoderStack& stack);

}  // namespace rondo
