// Reads a million elements at a time, converts them to the dtype of the shard, and checks that they
// are finite. A shard of a cut parameter consists of runs of elements, which are read in order. An
// expert in 4 bits is dequantized once for all its runs.
#include "trainer/resume/load_weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/sums_of_squares/sums_of_squares.h"
#include "support/error.h"
#include "trainer/step/float_dtypes.h"

namespace rondo {
namespace {

// Bounds the memory of the copy of stored bytes.
constexpr std::int64_t kReadElements = std::int64_t{1} << 20;

at::Tensor read(const hugging_face::StoredTensor& stored, std::int64_t begin, std::int64_t count) {
  const auto first = static_cast<std::uint64_t>(begin), size = static_cast<std::uint64_t>(count);
  if (stored.scales != nullptr) {
    at::Tensor numbers = at::empty({count}, at::kFloat);
    stored.dequantize(first, {numbers.data_ptr<float>(), size});
    return numbers;
  }
  at::Tensor numbers = at::empty({count}, float_in_file(stored.dtype()));
  stored.read(first, {static_cast<std::byte*>(numbers.mutable_data_ptr()), numbers.nbytes()});
  return numbers;
}

// An expert in 4 bits, whose elements are read together. Cached for the next run, since a cut of it
// is many short runs.
struct CachedExpert {
  std::int64_t index = -1;
  at::Tensor numbers = {};
};

void load_part(at::Tensor& part, const hugging_face::StoredTensor& stored, std::int64_t begin,
               std::int64_t end, CachedExpert& last) {
  const auto each = static_cast<std::int64_t>(stored.together());
  if (each == 1) return load_weights(part, stored, begin, end);
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t index = at / each, stop = std::min(end, (index + 1) * each);
    if (index != last.index) last = {index, read(stored, index * each, each)};
    part.narrow(0, at - begin, stop - at).copy_(last.numbers.narrow(0, at - index * each, stop - at));
    at = stop;
  }
}

// A step with such numbers is not finite, for any batch and learning rate.
void refuse_not_finite(const at::Tensor& loaded, const std::string& name, const std::string& where) {
  if (!std::isfinite(sums_of_squares({loaded}).item<double>()))
    throw Error(ExitCode::checkpoint,
                fmt::format("{}: tensor {} has numbers that are not finite (nan or inf), which no model can "
                            "compute with; use other weights",
                            where, name));
}

}  // namespace

void load_weights(at::Tensor& shard, const hugging_face::StoredTensor& stored, std::int64_t begin,
                  std::int64_t end) {
  RONDO_ASSERT(shard.is_contiguous() && 0 <= begin && begin <= end && end - begin <= shard.numel(),
               "the shard has room for the elements");
  const at::Tensor flat = shard.view({-1});
  const std::int64_t most = std::max(kReadElements, static_cast<std::int64_t>(stored.together()));
  for (std::int64_t at = begin; at < end; at += most) {
    const std::int64_t count = std::min(most, end - at);
    flat.narrow(0, at - begin, count).copy_(read(stored, at, count));
  }
  flat.narrow(0, end - begin, flat.numel() - (end - begin)).zero_();
}

void load_weights(at::Tensor& shard, const hugging_face::Folder& folder, const std::string& hugging_face_name,
                  const FlatShard& place) {
  const at::Tensor flat = shard.view({-1}).zero_();
  const std::vector<hugging_face::Parameter> stack = hugging_face::stacked(hugging_face_name, place.sizes());
  const std::int64_t each = element_count(place.sizes()) / std::ssize(stack);
  CachedExpert last;
  place.for_each_run([&](const ElementRun& run) {
    const std::int64_t stop = run.in_whole + run.count;
    for (std::int64_t from = run.in_whole; from < stop;) {
      const std::int64_t index = from / each, to = std::min(stop, (index + 1) * each);
      at::Tensor part = flat.narrow(0, run.in_shard + from - run.in_whole, to - from);
      const std::string& name = stack[static_cast<std::size_t>(index)].name;
      const hugging_face::StoredTensor stored = folder.find(name);
      load_part(part, stored, from - index * each, to - index * each, last);
      refuse_not_finite(part, name, stored.file->path().string());
      from = to;
    }
  });
}

const checkpoint::TensorRecord& check_stored(const checkpoint::Manifest& manifest, const std::string& name,
                                             const std::vector<std::int64_t>& shape) {
  const checkpoint::TensorRecord* stored = manifest.find(name);
  if (stored == nullptr || stored->shape != shape)
    throw Error(ExitCode::checkpoint,
                fmt::format("the checkpoint has no tensor {} of the shape in its model", name));
  return *stored;
}

void load_weights(at::Tensor& shard, checkpoint::Reader& reader, const std::string& name,
                  const FlatShard& place) {
  const at::ScalarType stored = float_stored_as(reader.manifest().find(name)->dtype);
  at::Tensor to = shard.view({-1}).narrow(0, 0, checkpoint::range_of(place).count());
  const bool direct = stored == to.scalar_type() && to.is_cpu();
  at::Tensor from = direct ? to : at::empty_like(to, to.options().dtype(stored).device(at::kCPU));
  reader.read(name, place,
              {static_cast<std::byte*>(from.data_ptr()), static_cast<std::size_t>(from.nbytes())});
  if (!direct) to.copy_(from);
  if (name.starts_with("model/")) refuse_not_finite(to, name, reader.folder().string());
}

}  // namespace rondo
