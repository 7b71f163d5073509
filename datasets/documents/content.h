// Hashes of what files hold. A few blocks stand for a file, so that the hash of terabytes takes
// milliseconds. A file that was replaced or rewritten has other blocks; a change of a few bytes in
// a large file may be missed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

constexpr std::int64_t kContentBlockBytes = 4096;

// Returns the part `index` of `count` parts of some blocks, which are divided as evenly as
// possible.
inline std::int64_t share_of_blocks(std::int64_t blocks, std::size_t index, std::size_t count) {
  const auto before = [&](std::size_t i) {
    return static_cast<std::int64_t>(i) * blocks / static_cast<std::int64_t>(count);
  };
  return before(index + 1) - before(index);
}

// Returns a hash of the size of a file and of `blocks` of its blocks, evenly spaced from the first
// byte to the last; of the whole file if it has no more bytes than these. 0 without blocks. Throws
// FileError, and Error(data) if the file shrinks while it is read.
std::uint64_t sampled_hash(const std::string& path, std::int64_t blocks);

// Returns a hash of several files, which share the blocks. Reads evenly spaced ones if there are
// more files than blocks.
std::uint64_t sampled_hash(const std::vector<std::string>& paths, std::int64_t blocks);

}  // namespace rondo
