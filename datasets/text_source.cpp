#include "datasets/text_source.h"

#include <algorithm>

#include "datasets/documents/content.h"

namespace rondo {

void TextSource::read(std::int64_t number, std::int64_t begin, std::int64_t end, std::int64_t* ids) {
  const Document& document = at(number);
  if (begin >= end) return;
  const std::int64_t before = ends_.begin.has_value();  // tokens
  if (begin < before) *ids++ = *ends_.begin;
  const std::int64_t first = std::max(begin, before) - before, last = std::min(end - before, document.bytes);
  if (first < last)
    for (const char c : corpus_.read(document, first, last)) *ids++ = static_cast<unsigned char>(c);
  if (ends_.end && end == tokens(number)) *ids = *ends_.end;
}

std::uint64_t TextSource::content(std::int64_t blocks) const {
  std::vector<std::string> paths;
  for (const SourceFile& file : corpus_.sources()) paths.push_back(file.path);
  return sampled_hash(paths, blocks);
}

SourceCounts TextSource::counts() const {
  return {.files = corpus_.files(),
          .skipped_binary = corpus_.skipped_binary(),
          .skipped_empty = corpus_.skipped_empty(),
          .skipped_bad = corpus_.skipped_bad(),
          .warnings = corpus_.warnings()};
}

}  // namespace rondo
