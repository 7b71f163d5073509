// LibTorch's attention kernels on CUDA, called by name. Nothing is read on the host. Sizes of
// sequences come from shapes. No kernel has dropout, so seeds and offsets stay empty.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "ops/attention/attention_choice.h"
#include "ops/attention/attention_mask.h"

namespace rondo {

// Operands of rondo::attention, prepared for the kernels.
struct KernelOperands {
  at::Tensor q, k, v;                 // [B, heads, T, width], see readable()
  std::optional<at::Tensor> borders;  // of documents and chunks
  double scale;
  AttentionMask mask;  // without chunks, which are in the borders
  std::optional<at::Tensor> query_positions, key_positions;
  std::int64_t query_runs;
  std::int64_t rows() const { return q.size(0); }
  std::int64_t heads() const { return q.size(1); }
  std::int64_t tokens() const { return q.size(2); }  // of queries
  std::int64_t keys() const { return k.size(2); }
  // Whether flash treats rows as several sequences.
  bool has_sequences() const { return borders || query_positions; }
};

using AttentionOutputs = std::tuple<at::Tensor, at::Tensor>;  // [B, H, T, V], fp32 [B, H, T], of any strides
// Gradients of queries, keys and values, of any strides.
using AttentionGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Computes attention by cuDNN, flash or efficient attention. cuDNN and flash leave documents of
// fewer than short_document() tokens wrong: Note [Short documents] in attention_library.cpp.
AttentionOutputs library_attention(AttentionKernel kernel, const KernelOperands& in);
AttentionGradients library_attention_backward(AttentionKernel kernel, const KernelOperands& in,
                                              const at::Tensor& grad, const at::Tensor& output,
                                              const at::Tensor& logsumexp);

}  // namespace rondo
