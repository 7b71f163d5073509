// Weights from a Hugging Face folder or a checkpoint into parameters. A rank takes the elements that it holds
// and touches no others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/reader.h"
#include "parallel/flat_shard.h"

namespace rondo {

// Fills `shard`, contiguous and of a floating dtype, with elements [begin, end) of the flattened tensor;
// elements past `end` are the zero padding of a flat shard, as in models/parts/initialize.h. What the dtype
// of `shard` cannot hold is rounded to the nearest, ties to even. REQUIRES a tensor that Folder::check()
// passed for the parameter: its shape, in F32, F16 or BF16, or in 8 bits with scales. The numbers of the
// latter are those in fp32, rounded but once more.
void load_weights(at::Tensor& shard, const hugging_face::StoredTensor& stored, std::int64_t begin,
                  std::int64_t end);

// What `place` puts there of a parameter, which may be a stack of stored tensors: hugging_face::stacked().
// Throws Error(checkpoint) naming file and tensor where numbers of it are not finite: one more pass over what
// was just written. `shard` is fp32 or bf16.
void load_weights(at::Tensor& shard, const hugging_face::Folder& folder, const std::string& hugging_face_name,
                  const FlatShard& place);

// The tensor of a checkpoint. Throws Error(checkpoint) where it has none of that name and shape.
const checkpoint::TensorRecord& check_stored(const checkpoint::Manifest& manifest, const std::string& name,
                                             const std::vector<std::int64_t>& shape);

// What `place` puts there of the tensor `name` of a checkpoint, whatever the dtypes of both. What pads a
// shard is left as it is. Of a parameter, numbers that are not finite are refused likewise. REQUIRES a tensor
// of that name and of the shape of `place`.
void load_weights(at::Tensor& shard, checkpoint::Reader& reader, const std::string& name,
                  const FlatShard& place);

}  // namespace rondo
