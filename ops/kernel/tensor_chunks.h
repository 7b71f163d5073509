// Many tensors in one loop on the CPU, in chunks of elements: threads are woken once for all of
// them. ops/kernel/tensor_chunks.cuh is the CUDA counterpart.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/kernel/parallel_rows.h"

namespace rondo {

struct TensorChunk {
  std::size_t tensor;
  std::int64_t first, count;  // elements
};

// Returns the chunks of all tensors in order, of `elements` each except the last of a tensor.
inline std::vector<TensorChunk> tensor_chunks(at::TensorList tensors, std::int64_t elements) {
  std::vector<TensorChunk> chunks;
  for (std::size_t k = 0; k < tensors.size(); ++k)
    for (std::int64_t first = 0; first < tensors[k].numel(); first += elements)
      chunks.push_back({k, first, std::min(elements, tensors[k].numel() - first)});
  return chunks;
}

// Calls f(i) for each chunk i. f chooses its vectors (with_best_vectors) after it has chosen its
// types.
template <class F>
void for_each_chunk_of(const std::vector<TensorChunk>& chunks, const F& f) {
  parallel_runs(static_cast<std::int64_t>(chunks.size()), 1, [&f](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(static_cast<std::size_t>(i));
  });
}

// Returns the tensors with contiguous memory, which is theirs where it is contiguous already.
inline std::vector<at::Tensor> contiguous_of(at::TensorList tensors) {
  std::vector<at::Tensor> contiguous;
  for (const at::Tensor& tensor : tensors) contiguous.push_back(tensor.contiguous());
  return contiguous;
}
inline std::vector<at::Tensor> clones_of(at::TensorList tensors) {
  std::vector<at::Tensor> clones;
  for (const at::Tensor& tensor : tensors) clones.push_back(tensor.clone());
  return clones;
}

}  // namespace rondo
