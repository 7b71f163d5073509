// The safetensors file format (https://github.com/huggingface/safetensors, README "Format"): parses
// headers strictly and writes them deterministically. Plain data, no I/O, thread-safe.
//
//   bytes 0..7        N, little-endian u64: the length of the header, at most 100 MB
//   bytes 8..8+N      one JSON object in UTF-8, first byte '{', padded with spaces:
//                     {"__metadata__": {text: text},
//                      NAME: {"dtype", "shape", "data_offsets": [begin, end]}}
//   bytes 8+N..end    the tensors, row-major, little-endian, without gaps; offsets count from 8+N
//
// Stricter than the official package, which accepts white space before the '{', a repeated name
// (the last one counts), unknown keys of a tensor, and metadata that is null. All of these are
// errors here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::safetensors {

// In the format's order of alignment, which is the order of tensors in a file.
enum class Dtype {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64,
};
constexpr int kDtypes = 15;

std::string_view dtype_name(Dtype dtype);        // as in headers: "BF16"
std::uint64_t dtype_bytes(Dtype dtype);          // per element: 1, 2, 4 or 8
const Dtype* find_dtype(std::string_view name);  // nullptr for one that is not read, such as F8_E8M0

struct TensorInfo {
  std::string name;  // UTF-8, any characters
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;  // empty: a scalar; with a size of 0: no bytes
  std::uint64_t begin = 0;          // bytes from the start of the data section
  std::uint64_t end = 0;            // one past the last

  std::uint64_t bytes() const { return end - begin; }
  std::uint64_t elements() const { return bytes() / dtype_bytes(dtype); }
  bool operator==(const TensorInfo&) const = default;
};

using Metadata = std::map<std::string, std::string>;

struct Header {
  std::vector<TensorInfo> tensors;  // by offset; each begins at the end of the previous one
  Metadata metadata;
  std::uint64_t data_begin = 0;  // 8 + N, from the start of the file
  std::uint64_t data_bytes = 0;
};

// Limits of what the reader allocates.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the official package
constexpr std::size_t kMaxTensors = 250'000;
constexpr std::size_t kMaxDims = 64;  // the limit of ATen

// Parses the header of a file. `head` are its first bytes, with the whole header, and `rest_bytes`
// the number of bytes after them. Throws Error(checkpoint) naming `file`, the tensor and the rule.
// The exit code is 5, as weights are named by checkpoint keys, and not 4, which is for
// training data.
Header parse_header(std::span<const std::byte> head, const std::string& file, std::uint64_t rest_bytes = 0);

// Orders tensors as the official package does, by descending alignment and then by name. Sets their
// offsets and data_begin; `begin` and `end` of the input are ignored. A file may have any order.
// With this one every tensor is aligned to its elements, and the bytes are those of the official
// package. REQUIRES: names are UTF-8, distinct, and not "__metadata__"; sizes are at least 0, and
// their bytes fit.
Header lay_out(std::vector<TensorInfo> tensors, Metadata metadata = {});

// Returns the first data_begin bytes of the file, padded so that the data begins at a multiple
// of 8.
std::string header_bytes(const Header& header);

// Returns a tensor's name for a message: quoted, escaped to ASCII, truncated.
std::string shown_name(std::string_view name);

}  // namespace rondo::safetensors
