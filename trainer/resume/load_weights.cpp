#include "trainer/resume/load_weights.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "support/error.h"
#include "trainer/step/float_dtypes.h"

namespace rondo {
namespace {

// Bounds the copy of stored bytes that is alive at a time.
constexpr std::int64_t kReadElements = std::int64_t{1} << 20;

// The stored bytes are aligned to nothing, so they are copied before ATen reads them.
at::Tensor read(const hugging_face::StoredTensor& stored, std::int64_t begin, std::int64_t count) {
  const auto first = static_cast<std::uint64_t>(begin), size = static_cast<std::uint64_t>(count);
  if (stored.scales != nullptr) {
    at::Tensor numbers = at::empty({count}, at::kFloat);
    stored.dequantize(first, {numbers.data_ptr<float>(), size});
    return numbers;
  }
  const std::span<const std::byte> bytes = stored.elements(first, first + size);
  at::Tensor numbers = at::empty({count}, float_in_file(stored.dtype()));
  std::memcpy(numbers.data_ptr(), bytes.data(), bytes.size());
  return numbers;
}

}  // namespace

void load_weights(at::Tensor& shard, const hugging_face::StoredTensor& stored, std::int64_t begin,
                  std::int64_t end) {
  RONDO_ASSERT(shard.is_contiguous() && 0 <= begin && begin <= end && end - begin <= shard.numel(),
               "a shard has room for the elements that it is filled with");
  const at::Tensor flat = shard.view({-1});
  for (std::int64_t at = begin; at < end; at += kReadElements) {
    const std::int64_t count = std::min(kReadElements, end - at);
    flat.narrow(0, at - begin, count).copy_(read(stored, at, count));
  }
  flat.narrow(0, end - begin, flat.numel() - (end - begin)).zero_();
}

void load_weights(at::Tensor& shard, const hugging_face::Folder& folder, const std::string& hugging_face_name,
                  const FlatShard& place) {
  const at::Tensor flat = shard.view({-1}).zero_();
  const std::vector<hugging_face::Parameter> stack = hugging_face::stacked(hugging_face_name, place.sizes());
  const std::int64_t each = element_count(place.sizes()) / std::ssize(stack);
  place.for_each_run([&](const ElementRun& run) {
    const std::int64_t stop = run.in_whole + run.count;
    for (std::int64_t from = run.in_whole; from < stop;) {
      const std::int64_t one = from / each, to = std::min(stop, (one + 1) * each);
      at::Tensor part = flat.narrow(0, run.in_shard + from - run.in_whole, to - from);
      load_weights(part, folder.find(stack[static_cast<std::size_t>(one)].name), from - one * each,
                   to - one * each);
      from = to;
    }
  });
}

}  // namespace rondo
