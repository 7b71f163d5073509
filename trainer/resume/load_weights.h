// Loads weights from a Hugging Face folder or a checkpoint into parameters. A rank reads only the
// elements that it holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/reader.h"
#include "parallel/flat_shard.h"

namespace rondo {

// Fills `shard`, contiguous and of a floating dtype, with elements [begin, end) of the flattened
// tensor. Elements after `end` are the zero padding of a flat shard, as in
// models/parts/initialize.h. Rounds to nearest even if the dtype of `shard` is narrower. REQUIRES:
// a tensor that Folder::check() accepted for the parameter: its shape, in F32, F16 or BF16, or in 8
// bits with scales. The latter are dequantized in fp32 and rounded once more.
void load_weights(at::Tensor& shard, const hugging_face::StoredTensor& stored, std::int64_t begin,
                  std::int64_t end);

// Fills `shard` with the elements of a parameter at `place`. The parameter may be a stack of stored
// tensors: hugging_face::stacked(). Throws Error(checkpoint) naming file and tensor if any element
// is not finite, which takes one more pass over the result. `shard` is fp32 or bf16.
void load_weights(at::Tensor& shard, const hugging_face::Folder& folder, const std::string& hugging_face_name,
                  const FlatShard& place);

// Returns a tensor of a checkpoint. Throws Error(checkpoint) if there is none of that name
// and shape.
const checkpoint::TensorRecord& check_stored(const checkpoint::Manifest& manifest, const std::string& name,
                                             const std::vector<std::int64_t>& shape);

// Fills `shard` with the elements of the tensor `name` of a checkpoint at `place`, for any dtypes
// of both. Leaves the padding of a shard unchanged. For a parameter, throws Error(checkpoint) if
// any element is not finite. REQUIRES: a tensor of that name with the shape of `place`.
void load_weights(at::Tensor& shard, checkpoint::Reader& reader, const std::string& name,
                  const FlatShard& place);

}  // namespace rondo
