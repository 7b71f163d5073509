#include "trainer/load_weights.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>

#include "parallel/error.h"
#include "trainer/float_dtypes.h"

namespace rondo {
namespace {

// Bounds the copy of stored bytes that is alive at a time.
constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;

}  // namespace

void load_weights(at::Tensor& shard, const hugging_face::StoredTensor& stored, std::int64_t begin,
                  std::int64_t end) {
  RONDO_ASSERT(shard.is_contiguous() && 0 <= begin && begin <= end && end - begin <= shard.numel(),
               "a shard has room for the elements that it is filled with");
  const at::ScalarType dtype = float_in_file(stored.dtype());
  const at::Tensor flat = shard.view({-1});
  // The stored bytes are aligned to nothing, so they are copied before ATen reads them.
  for (std::int64_t at = begin; at < end; at += kChunkElements) {
    const std::int64_t count = std::min(kChunkElements, end - at);
    const std::span<const std::byte> bytes =
        stored.elements(static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(at + count));
    const at::Tensor chunk = at::empty({count}, dtype);
    std::memcpy(chunk.data_ptr(), bytes.data(), bytes.size());
    flat.narrow(0, at - begin, count).copy_(chunk);
  }
  flat.narrow(0, end - begin, flat.numel() - (end - begin)).zero_();
}

void load_weights(at::Tensor& shard, const hugging_face::Folder& folder, const std::string& hugging_face_name,
                  const std::vector<std::int64_t>& sizes, std::int64_t begin, std::int64_t end) {
  const at::Tensor flat = shard.view({-1});
  std::int64_t offset = 0;
  for (const hugging_face::Parameter& one : hugging_face::stacked(hugging_face_name, sizes)) {
    const std::int64_t count = c10::multiply_integers(one.shape);
    const std::int64_t from = std::max(begin, offset), to = std::min(end, offset + count);
    if (from < to) {
      at::Tensor part = flat.narrow(0, from - begin, to - from);
      load_weights(part, folder.find(one.name), from - offset, to - offset);
    }
    offset += count;
  }
  flat.narrow(0, end - begin, flat.numel() - (end - begin)).zero_();
}

}  // namespace rondo
