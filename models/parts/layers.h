// What decoders share: norm, linear and feed-forward layers, and the way from tokens to logits.
//
// Shape suffixes: B batch, T sequence, N tokens of this rank (parallel/rank_context.h), D model dim, F
// feed-forward, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "models/parts/decoder.h"

namespace rondo {

// Each opens the scope `name` and reads the weights in it. The order in which a forward calls them is the
// order in which ranks gather: statements, not nested calls.
//
// Root mean square norm over the last dimension, in fp32 (fp64 for fp64), scaled in x's dtype.
at::Tensor rms_norm(const char* name, const at::Tensor& x, const RankContext& ranks, double eps);
// The same over `width` elements that ranks share a layer by: x, of all tokens, and the weight are this
// rank's part of them.
at::Tensor shared_rms_norm(const char* name, const at::Tensor& x, std::int64_t width,
                           const RankContext& ranks, double eps);
// The same without a weight, in no scope of its own.
at::Tensor unweighted_rms_norm(const at::Tensor& x, double eps);
at::Tensor linear(const char* name, const at::Tensor& x, const RankContext& ranks);
// SwiGLU: w2(silu(w1 x) * w3 x).
at::Tensor feed_forward(const char* name, const at::Tensor& x, const RankContext& ranks);

// Scopes "tok_embeddings", "layers.0" and so on, "norm", "output".
struct DecoderStack {
  StagePart part;
  double norm_eps;
  bool tie_embeddings;
  // The block of a layer, h [N, D] of this rank's tokens to h, in its scope. Copied; what it refers to
  // outlives the backward.
  std::function<at::Tensor(const at::Tensor& h_ND, std::int64_t layer)> block;
};
// Logits [B, T, V], of this rank's part of the vocabulary; h [N, D] where the part has no head.
at::Tensor decode(const RankContext& ranks, const ForwardInputs& inputs, const DecoderStack& stack);

}  // namespace rondo
