// The CUDA kernels of CrossEntropyRows (ops/cross_entropy/cross_entropy.h), one block per row. They
// run on `stream` without waiting. No LibTorch. Rows of `classes` logits are contiguous. Operands
// per row and scalars are f32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

struct LogitRows {
  void* logits = nullptr;
  Element element = Element::f32;  // or bf16
  std::int64_t rows = 0, classes = 0;
};

// Computes the losses. If `gradient`, a number on the device, is set, logits are overwritten by
// their gradients.
void cross_entropy_losses(const LogitRows& of, const std::int64_t* labels, std::int64_t ignored,
                          const float* gradient, float* losses, cudaStream_t stream);

void cross_entropy_statistics(const LogitRows& of, const std::int64_t* places, float* largest, float* sums,
                              float* logits_at_places, cudaStream_t stream);

void cross_entropy_gradients(const LogitRows& of, const std::int64_t* places, const float* largest,
                             const float* sums, const float* gradients, const float* place_gradients,
                             cudaStream_t stream);

// Sums the losses, by one block.
void cross_entropy_total(const float* largest, const float* sums, const float* logits_at_labels,
                         const std::int64_t* labels, std::int64_t ignored, std::int64_t rows, float* loss,
                         cudaStream_t stream);

// grad_logits has the element type of the logits and may share their memory.
void cross_entropy_backward(const float* grad, const LogitRows& of, const std::int64_t* labels,
                            const float* largest, const float* sums, std::int64_t ignored, void* grad_logits,
                            cudaStream_t stream);

}  // namespace rondo::cuda
