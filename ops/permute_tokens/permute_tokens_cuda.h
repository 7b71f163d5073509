// The CUDA kernels of ops/permute_tokens/permute_tokens.h, for contiguous memory. They run on
// `stream`, do not wait, allocate no memory, and give the same bits as the CPU's. Optional operands
// may be null. No LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/kernel/element.h"

namespace rondo::cuda {

// result [rows, width]; x and addend [slots / copies, width].
void permute_tokens(Element element, const void* x, const void* addend, const std::int64_t* order,
                    const std::int32_t* count, const void* scores, void* result, std::int64_t rows,
                    std::int64_t width, std::int64_t slots, std::int64_t copies, cudaStream_t stream);

// result [tokens, width], of the dtype of rows with `narrow`; rows and addend [room, width]; place
// and scores [tokens, copies].
void unpermute_tokens(Element element, const void* rows, const void* addend, const std::int64_t* place,
                      const std::int32_t* count, const void* scores, bool narrow, void* result,
                      std::int64_t tokens, std::int64_t copies, std::int64_t room, std::int64_t width,
                      cudaStream_t stream);

// result [elements]; x [pieces, elements].
void sum_pieces(Element element, const void* x, void* result, std::int64_t pieces, std::int64_t elements,
                cudaStream_t stream);

// result and place [slots]; rows [room, width]; x [slots / copies, width].
void dot_rows(Element element, const void* rows, const void* x, const std::int64_t* place,
              const std::int32_t* count, void* result, std::int64_t slots, std::int64_t copies,
              std::int64_t room, std::int64_t width, cudaStream_t stream);

// counts [ranks, experts]; order and place [rows].
void order_by_expert(const std::int32_t* counts, std::int64_t ranks, std::int64_t experts, std::int64_t rows,
                     std::int64_t* order, std::int64_t* place, cudaStream_t stream);

}  // namespace rondo::cuda
