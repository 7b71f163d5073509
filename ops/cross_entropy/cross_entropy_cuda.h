// The kernels of CrossEntropyRows (ops/cross_entropy/cross_entropy.h) on CUDA, one block a row: launched on
// `stream`, no wait. No LibTorch. Rows of `classes` logits lie one behind the other. Every operand of a row
// is f32, and so are scalars.
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

// Losses; with `gradient`, a number on the device, logits are overwritten by their gradients.
void cross_entropy_losses(const LogitRows& of, const std::int64_t* labels, std::int64_t ignored,
                          const float* gradient, float* losses, cudaStream_t stream);

void cross_entropy_statistics(const LogitRows& of, const std::int64_t* places, float* largest, float* sums,
                              float* logits_at_places, cudaStream_t stream);

void cross_entropy_gradients(const LogitRows& of, const std::int64_t* places, const float* largest,
                             const float* sums, const float* gradients, const float* place_gradients,
                             cudaStream_t stream);

// The sum of the losses, by one block.
void cross_entropy_total(const float* largest, const float* sums, const float* logits_at_labels,
                         const std::int64_t* labels, std::int64_t ignored, std::int64_t rows, float* loss,
                         cudaStream_t stream);

// grad_logits has the logits' element and may be the logits.
void cross_entropy_backward(const float* grad, const LogitRows& of, const std::int64_t* labels,
                            const float* largest, const float* sums, std::int64_t ignored, void* grad_logits,
                            cudaStream_t stream);

}  // namespace rondo::cuda
