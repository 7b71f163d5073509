// Small safetensors files as text, and the messages of their errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors/format.h"
#include "checkpoint/safetensors/writer.h"
#include "support/error.h"

namespace rondo::safetensors {

inline std::span<const std::byte> as_span(const std::string& text) { return std::as_bytes(std::span(text)); }

// Returns a file of this header and data, without padding.
inline std::string file_of(const std::string& header, const std::string& data = "") {
  std::string length;
  for (int byte = 0; byte < 8; ++byte) length += static_cast<char>(header.size() >> (8 * byte) & 0xff);
  return length + header + data;
}

inline std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the message of the Error(`code`) that `action` throws. Without one returns "no error" or
// "wrong exit code: ...".
template <class Action>
std::string error_of(const Action& action, ExitCode code = ExitCode::checkpoint) {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() != code) return "wrong exit code: " + std::string(error.what());
    return error.what();
  }
  return "no error";
}

inline TensorInfo tensor(std::string name, Dtype dtype, std::vector<std::int64_t> shape) {
  TensorInfo info;
  info.name = std::move(name);
  info.dtype = dtype;
  info.shape = std::move(shape);
  return info;
}

// Writes a file of zeros.
inline void write_tensors(const std::string& path, const std::vector<TensorInfo>& tensors) {
  Writer writer(path, tensors);
  for (const TensorInfo& info : writer.header().tensors)
    writer.write(info.name, 0, as_span(std::string(info.bytes(), '\0')));
  writer.finish();
}

// Writes a file of one F32 tensor each with these numbers.
inline void write_numbers(const std::string& path, const std::map<std::string, std::vector<float>>& tensors) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, numbers] : tensors)
    infos.push_back(tensor(name, Dtype::f32, {std::ssize(numbers)}));
  Writer writer(path, infos);
  for (const auto& [name, numbers] : tensors) writer.write(name, 0, std::as_bytes(std::span(numbers)));
  writer.finish();
}

// Returns one tensor of every dtype, an empty one, a scalar, and names that need escapes.
inline std::vector<TensorInfo> tensors_of_all_kinds() {
  std::vector<TensorInfo> tensors;
  for (int dtype = 0; dtype < kDtypes; ++dtype)
    tensors.push_back(tensor("of " + std::string(dtype_name(static_cast<Dtype>(dtype))),
                             static_cast<Dtype>(dtype), {2, 3}));
  tensors.push_back(tensor("empty", Dtype::bf16, {4, 0, 2}));
  tensors.push_back(tensor("scalar", Dtype::f64, {}));
  tensors.push_back(tensor("\xc3\xa9\xe4\xb8\xad\xf0\x9f\xa6\x99", Dtype::f16, {1}));
  tensors.push_back(tensor("line\nquote\"back\\slash\x01\x7f", Dtype::i32, {1, 1, 1}));
  tensors.push_back(tensor("", Dtype::u8, {3}));
  return tensors;
}

}  // namespace rondo::safetensors
