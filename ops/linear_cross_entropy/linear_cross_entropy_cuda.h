// The CUDA kernels behind CrossEntropyRows (linear_cross_entropy.h), one block a row. No LibTorch.
//
// Rows of `classes` logits lie one behind the other. bf16 goes by its bits: a pointer to 16-bit numbers. Every operand of
// a row is f32. Launches on `stream` and does not wait.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rondo::cuda {

struct LogitRows {
  void* logits = nullptr;
  bool is_bf16 = false;  // else f32
  std::int64_t rows = 0, classes = 0;
};

// Losses; with `gradient`, a number on the device, logits are overwritten by their gradients.
void cross_entropy_losses(const LogitRows& of, const std::int64_t* labels, std::int64_t ignored,
                          const float* gradient, float* losses, cudaStream_t stream);

void cross_entropy_statistics(const LogitRows& of, const std::int64_t* places, float* largest, float* sums,
                              float* logits_at_places, cudaStream_t stream);

void cross_entropy_gradients(const LogitRows& of, const std::int64_t* places, const float* largest,
                             const float* sums, const float* gradients, const float* place_gradients,
                             cudaStream_t stream);

}  // namespace rondo::cuda
