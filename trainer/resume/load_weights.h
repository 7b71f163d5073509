// Weights from a Hugging Face folder into parameters. A rank takes the elements that it holds and touches no
// others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "parallel/flat_shard.h"
#include "trainer/hugging_face/folder.h"

namespace rondo {

// Fills `shard`, contiguous and of a floating dtype, with elements [begin, end) of the flattened tensor;
// elements past `end` are the zero padding of a flat shard, as in models/parts/initialize.h. What the dtype
// of `shard` cannot hold is rounded to the nearest, ties to even. REQUIRES a tensor that Folder::check()
// passed for the parameter: its shape, in F32, F16 or BF16, or in 8 bits with scales. The numbers of the
// latter are those in fp32, rounded but once more.
void load_weights(at::Tensor& shard, const hugging_face::StoredTensor& stored, std::int64_t begin,
                  std::int64_t end);

// What `place` puts there of a parameter, which may be a stack of stored tensors: hugging_face::stacked().
void load_weights(at::Tensor& shard, const hugging_face::Folder& folder, const std::string& hugging_face_name,
                  const FlatShard& place);

}  // namespace rondo
