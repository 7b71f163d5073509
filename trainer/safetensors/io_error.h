// What a failed system call on a file of weights becomes. Thread-safe.
#pragma once

#include <filesystem>

namespace rondo::safetensors {

// "cannot ACTION PATH: reason; what to do": Error(resources) where disk, quota, memory or descriptors ran out
// or the disk failed, Error(checkpoint) otherwise (missing, permissions, wrong kind of file).
[[noreturn]] void throw_io_error(const char* action, const std::filesystem::path& path, int error_number);

}  // namespace rondo::safetensors
