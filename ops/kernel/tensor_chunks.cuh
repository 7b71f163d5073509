// Many tensors in one launch: a table of them is a kernel parameter, and each block takes a chunk
// of one tensor.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace rondo::cuda {

// REQUIRES: Tensor has a member `count`, its number of elements.
template <class Tensor>
struct TensorTable {
  // The parameters of a kernel stay below 4 KiB, which every GPU supports.
  static constexpr std::size_t kMax = (4096 - 128) / (sizeof(Tensor) + sizeof(std::int32_t));

  Tensor tensors[kMax];
  std::int32_t first_chunk[kMax + 1];  // first chunk of each tensor, relative to the launch
  std::int32_t count;

  // Returns the tensor of a chunk: the last one that begins at this chunk or before.
  __device__ int tensor_of(std::int32_t chunk) const {
    int tensor = 0, above = count;
    while (above - tensor > 1) {
      const int middle = (tensor + above) / 2;
      if (first_chunk[middle] <= chunk)
        tensor = middle;
      else
        above = middle;
    }
    return tensor;
  }
};

// Calls launch_of(table, chunks) for successive tables of tensors.
template <class Tensor, class LaunchOf>
void for_each_table(std::span<const Tensor> tensors, std::int64_t chunk, const LaunchOf& launch_of) {
  while (!tensors.empty()) {
    const auto these = tensors.first(std::min(tensors.size(), TensorTable<Tensor>::kMax));
    tensors = tensors.subspan(these.size());
    TensorTable<Tensor> table{};
    for (const Tensor& tensor : these) {
      table.tensors[table.count] = tensor;
      table.first_chunk[table.count + 1] =
          table.first_chunk[table.count] + static_cast<std::int32_t>((tensor.count + chunk - 1) / chunk);
      ++table.count;
    }
    launch_of(table, table.first_chunk[table.count]);
  }
}

}  // namespace rondo::cuda
