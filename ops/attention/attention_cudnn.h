// Attention of documents, chunks and windows by cuDNN's graph API, through the headers of
// nvidia-cudnn-frontend (cmake/cudnn_frontend.cmake). LibTorch calls cuDNN for causal rows alone.
// Nothing is read on the host. The plan of a case is built at its first call, which must not be in
// a capture.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/attention/attention_library.h"

namespace rondo {

// Returns whether this build has the headers.
bool has_cudnn_graphs();

// The sequences of queries and of keys, as borders [N + 1] in int32 over those of all rows. No
// sequence crosses a row, and the tails repeat B * T and B * S. The last query of a sequence has
// the position of its last key.
struct AttentionSequences {
  at::Tensor of_queries, of_keys;
};

// Computes attention of queries in order, at the ends of their rows or sequences. Without sequences
// each row is one. Throws Error(config) if cuDNN has no plan for the case.
AttentionOutputs cudnn_graph_attention(const KernelOperands& in,
                                       const std::optional<AttentionSequences>& sequences);
AttentionGradients cudnn_graph_attention_backward(const KernelOperands& in,
                                                  const std::optional<AttentionSequences>& sequences,
                                                  const at::Tensor& grad, const at::Tensor& output,
                                                  const at::Tensor& logsumexp);

}  // namespace rondo
