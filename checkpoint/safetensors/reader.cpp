#include "checkpoint/safetensors/reader.h"

#include <algorithm>
#include <utility>

#include "support/error.h"

namespace rondo::safetensors {
namespace {

std::unique_ptr<InputFile> open_weights(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(ExitCode::checkpoint, path.string() + ": not a file; name a .safetensors file");
  return std::make_unique<InputFile>(path, FileUse::weights);
}

Header read_header(const InputFile& file) {
  const auto size = static_cast<std::uint64_t>(file.size());
  const std::uint64_t length = size < 8 ? 0 : file.load<std::uint64_t>(0);
  std::vector<std::byte> head(std::min(size, 8 + std::min(length, kMaxHeaderBytes)));
  file.read_at(0, head);
  return parse_header(head, file.path().string(), size - head.size());
}

}  // namespace

File::File(const std::filesystem::path& path) : file_(open_weights(path)), header_(read_header(*file_)) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) index_.emplace(header_.tensors[i].name, i);
}

const TensorInfo* File::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &header_.tensors[it->second];
}

void File::read(const TensorInfo& tensor, std::uint64_t begin, std::span<std::byte> out) const {
  const std::uint64_t element = dtype_bytes(tensor.dtype);
  RONDO_ASSERT(out.size() % element == 0 && begin <= tensor.elements() &&
                   out.size() / element <= tensor.elements() - begin,
               "a range outside of " + shown_name(tensor.name));
  file_->read_at(static_cast<std::int64_t>(header_.data_begin + tensor.begin + begin * element), out);
}

std::vector<std::byte> File::bytes(const TensorInfo& tensor) const {
  return bytes(tensor, 0, tensor.elements());
}

std::vector<std::byte> File::bytes(const TensorInfo& tensor, std::uint64_t begin, std::uint64_t end) const {
  RONDO_ASSERT(begin <= end && end <= tensor.elements(), "a range outside of " + shown_name(tensor.name));
  std::vector<std::byte> elements((end - begin) * dtype_bytes(tensor.dtype));
  read(tensor, begin, elements);
  return elements;
}

}  // namespace rondo::safetensors
