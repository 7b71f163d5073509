// Layers that all decoders share: norm, linear and feed-forward layers, and the forward from tokens
// to logits.
//
// Shape suffixes: B batch, T sequence, N tokens of this rank (parallel/rank_context.h), D model
// dim, F feed-forward, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "models/parts/decoder.h"

namespace rondo {

// Each function opens the scope `name` and reads the weights in it. Ranks all-gather in the order
// in which a forward calls these functions. Call them in separate statements, not nested.
//
// Computes the root mean square norm over the last dimension in fp32 (fp64 for fp64). The scale is
// applied in x's dtype.
at::Tensor rms_norm(const char* name, const at::Tensor& x, const RankContext& ranks, double eps);
// Computes the same norm over `width` elements that are divided among the ranks that share a layer.
// x, for all tokens, and the weight are this rank's part of them.
at::Tensor shared_rms_norm(const char* name, const at::Tensor& x, std::int64_t width,
                           const RankContext& ranks, double eps);
// Computes the same norm without a weight and without a scope.
at::Tensor unweighted_rms_norm(const at::Tensor& x, double eps);
at::Tensor linear(const char* name, const at::Tensor& x, const RankContext& ranks);
// Returns whether this linear layer is quantized (Weights::quantizes).
bool quantizes(const char* name, const RankContext& ranks);
// Computes SwiGLU: w2(silu(w1 x) * w3 x).
at::Tensor feed_forward(const char* name, const at::Tensor& x, const RankContext& ranks);

// The parts of a decoder's forward. Scopes: "tok_embeddings", "layers.0" and so on,
// "norm", "output".
struct DecoderStack {
  StagePart part;
  double norm_eps;
  bool tie_embeddings;
  // Maps the hidden states h [N, D] of this rank's tokens to h, in the scope of the layer. The
  // function is copied; its captures must outlive the backward.
  std::function<at::Tensor(const at::Tensor& h_ND, std::int64_t layer)> block;
};
// Returns logits [B, T, V] for this rank's shard of the vocabulary, the result of
// ForwardInputs::head if it is set, or h [N, D] if the part has no head.
at::Tensor decode(const RankContext& ranks, const ForwardInputs& inputs, const DecoderStack& stack);

}  // namespace rondo
