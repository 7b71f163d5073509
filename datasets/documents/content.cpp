#include "datasets/documents/content.h"

#include <xxhash.h>

#include <algorithm>

#include "datasets/documents/order.h"
#include "support/files/input_file.h"

namespace rondo {

std::uint64_t sampled_hash(const std::string& path, std::int64_t blocks) {
  if (blocks == 0) return 0;
  const InputFile file(path, FileUse::data);
  const std::int64_t block = std::min(kContentBlockBytes, file.size()), last = file.size() - block;
  // A short file is covered by blocks that follow each other.
  const std::int64_t count = std::min(blocks, (file.size() + kContentBlockBytes - 1) / kContentBlockBytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(block));
  std::uint64_t hash = mix64(static_cast<std::uint64_t>(file.size()) + 1);
  for (std::int64_t i = 0; i < count; ++i) {
    file.read_at(count == 1 ? 0 : i * last / (count - 1), bytes);
    hash = mix64(hash ^ XXH3_64bits(bytes.data(), bytes.size()));
  }
  return hash;
}

std::uint64_t sampled_hash(const std::vector<std::string>& paths, std::int64_t blocks) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < paths.size(); ++i)
    if (const std::int64_t share = share_of_blocks(blocks, i, paths.size()); share > 0)
      hash = mix64(hash ^ sampled_hash(paths[i], share));
  return hash;
}

}  // namespace rondo
