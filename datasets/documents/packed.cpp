// Indexes a packed corpus (format: datasets/documents/corpus.h).
#include <fmt/format.h>

#include <charconv>

#include "datasets/documents/corpus.h"
#include "datasets/documents/order.h"
#include "support/error.h"

namespace rondo {
namespace {

constexpr std::string_view kMagic = "rondo corpus 1\n";

struct Entry {
  std::int64_t bytes;
  std::string_view path;
};

// Parses "<bytes> <path>". Returns false for anything else.
bool parse_entry(std::string_view line, Entry& entry) {
  const char* end = line.data() + line.size();
  const auto [next, error] = std::from_chars(line.data(), end, entry.bytes);
  if (error != std::errc() || entry.bytes < 0 || end - next < 2 || *next != ' ') return false;
  entry.path = std::string_view(next + 1, static_cast<std::size_t>(end - next - 1));
  return true;
}

}  // namespace

void Corpus::index_packed(std::uint32_t file) {
  const auto fail = [&](std::int64_t line, const std::string& what) {
    throw Error(ExitCode::data, fmt::format("{}:{}: {}. Build the file again with scripts/make_corpus.sh",
                                            files_[file].path, line, what));
  };
  reader_.open(file);
  const std::int64_t size = reader_.size();

  constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
  std::string head;
  std::size_t head_end = std::string::npos;
  for (bool last = false; !last && head_end == std::string::npos;) {
    const std::size_t before = head.size();
    head.resize(before + kChunkBytes);
    head.resize(before +
                reader_.read_at(static_cast<std::int64_t>(before), head.data() + before, kChunkBytes));
    last = head.size() < before + kChunkBytes;
    if (!head.starts_with(kMagic)) fail(1, "a packed corpus begins with the line \"rondo corpus 1\"");
    head_end = head.find("\n\n", before == 0 ? 0 : before - 1);
  }
  if (head_end == std::string::npos) fail(1, "the list of documents does not end with an empty line");

  std::int64_t offset = static_cast<std::int64_t>(head_end) + 2, number = 2;
  for (std::size_t begin = kMagic.size(); begin < head_end; ++number) {
    const std::size_t end = head.find('\n', begin);
    Entry entry;
    if (!parse_entry(std::string_view(head).substr(begin, end - begin), entry))
      fail(number, "expected \"<bytes> <path>\"");
    if (entry.bytes > size - offset) fail(number, "the file ends before the contents of this document");
    if (entry.bytes > 0) {
      documents_.push_back({stable_hash(entry.path), file, offset, entry.bytes, entry.bytes});
    } else {
      ++skipped_empty_;
    }
    offset += entry.bytes;
    begin = end + 1;
  }
  if (offset != size)
    fail(number, fmt::format("the file has {} bytes after its last document", size - offset));
}

}  // namespace rondo
