// Sorts tensors by dtype, the widest first, and then by name. The header is padded to a multiple of
// 8, so every tensor is aligned to its elements. The header's text is written by hand, in the order
// of the data. Sizes are added and multiplied with overflow checks. Names in messages are escaped
// to ASCII and truncated, as they come from files.
#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors/format.h"
#include "support/error.h"

namespace rondo::safetensors {
namespace {

struct DtypeFact {
  Dtype dtype;
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<DtypeFact, kDtypes> kFacts = {{{Dtype::boolean, "BOOL", 1},
                                                    {Dtype::u8, "U8", 1},
                                                    {Dtype::i8, "I8", 1},
                                                    {Dtype::f8_e5m2, "F8_E5M2", 1},
                                                    {Dtype::f8_e4m3, "F8_E4M3", 1},
                                                    {Dtype::i16, "I16", 2},
                                                    {Dtype::u16, "U16", 2},
                                                    {Dtype::f16, "F16", 2},
                                                    {Dtype::bf16, "BF16", 2},
                                                    {Dtype::i32, "I32", 4},
                                                    {Dtype::u32, "U32", 4},
                                                    {Dtype::f32, "F32", 4},
                                                    {Dtype::f64, "F64", 8},
                                                    {Dtype::i64, "I64", 8},
                                                    {Dtype::u64, "U64", 8}}};

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(); }

std::uint64_t bytes_of(const TensorInfo& tensor) {
  std::uint64_t bytes = dtype_bytes(tensor.dtype);
  for (const std::int64_t size : tensor.shape) {
    const bool fits = size >= 0 && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes);
    RONDO_ASSERT(fits, "the shape of " + shown_name(tensor.name) + " is not valid");
  }
  return bytes;
}

std::string tensor_json(const TensorInfo& tensor) {
  std::string shape, text = json_text(tensor.name) + R"(:{"dtype":")";
  for (const std::int64_t size : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
  text.append(dtype_name(tensor.dtype)).append(R"(","shape":[)").append(shape);
  text += R"(],"data_offsets":[)" + std::to_string(tensor.begin) + "," + std::to_string(tensor.end) + "]}";
  return text;
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return kFacts[static_cast<std::size_t>(dtype)].name; }
std::uint64_t dtype_bytes(Dtype dtype) { return kFacts[static_cast<std::size_t>(dtype)].bytes; }

const Dtype* find_dtype(std::string_view name) {
  for (const DtypeFact& fact : kFacts)
    if (fact.name == name) return &fact.dtype;
  return nullptr;
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 120;
  using Json = nlohmann::json;
  std::string text = Json(std::string(name.substr(0, 2 * kLongest)))
                         .dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...\"";
  return text;
}

Header lay_out(std::vector<TensorInfo> tensors, Metadata metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  Header header{.tensors = std::move(tensors), .metadata = std::move(metadata)};
  for (TensorInfo& tensor : header.tensors) {
    tensor.begin = header.data_bytes;
    const bool fits = !__builtin_add_overflow(tensor.begin, bytes_of(tensor), &tensor.end);
    RONDO_ASSERT(fits, "the tensors of a file are larger than any file");
    header.data_bytes = tensor.end;
  }
  header.data_begin = header_bytes(header).size();
  return header;
}

std::string header_bytes(const Header& header) {
  std::string json;
  if (!header.metadata.empty()) {
    std::string entries;
    for (const auto& [key, value] : header.metadata)
      entries += (entries.empty() ? "" : ",") + json_text(key) + ":" + json_text(value);
    json = R"("__metadata__":{)" + entries + "}";
  }
  for (const TensorInfo& tensor : header.tensors) {
    if (!json.empty()) json += ',';
    json += tensor_json(tensor);
  }
  json = "{" + json + "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  RONDO_ASSERT(json.size() <= kMaxHeaderBytes, "a safetensors header of more than 100 MB");

  std::string bytes;
  for (int byte = 0; byte < 8; ++byte) bytes += static_cast<char>(json.size() >> (8 * byte) & 0xff);
  return bytes + json;
}

}  // namespace rondo::safetensors
