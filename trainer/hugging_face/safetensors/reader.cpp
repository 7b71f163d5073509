#include "trainer/hugging_face/safetensors/reader.h"

#include <utility>

#include "support/error.h"

namespace rondo::safetensors {
namespace {

MappedFile map(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(ExitCode::checkpoint, path.string() + ": not a file; name a .safetensors file");
  return MappedFile(path, FileUse::weights);
}

}  // namespace

File::File(const std::filesystem::path& path)
    : mapped_(map(path)), header_(parse_header(mapped_.bytes(), path.string())) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) index_.emplace(header_.tensors[i].name, i);
}

const TensorInfo* File::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

std::span<const std::byte> File::bytes(const TensorInfo& tensor) const {
  return bytes(tensor, 0, tensor.elements());
}

std::span<const std::byte> File::bytes(const TensorInfo& tensor, std::uint64_t begin,
                                       std::uint64_t end) const {
  RONDO_ASSERT(begin <= end && end <= tensor.elements(), "a range outside of " + shown_name(tensor.name));
  const std::uint64_t element = dtype_bytes(tensor.dtype);
  return mapped_.bytes().subspan(header_.data_begin + tensor.begin + begin * element,
                                 (end - begin) * element);
}

}  // namespace rondo::safetensors
