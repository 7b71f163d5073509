#include "datasets/text_source.h"

#include <algorithm>

namespace rondo {

void TextSource::read(std::int64_t number, std::int64_t begin, std::int64_t end, std::int64_t* ids) {
  const Document& document = at(number);
  if (begin >= end) return;
  if (begin == 0) *ids++ = *tokenizer_.bos();
  const std::int64_t first = std::max<std::int64_t>(begin, 1) - 1, last = std::min(end - 1, document.bytes);
  if (first < last)
    for (const char c : corpus_.read(document, first, last)) *ids++ = static_cast<unsigned char>(c);
  if (end == tokens(number)) *ids = tokenizer_.eos();
}

SourceCounts TextSource::counts() const {
  return {.files = corpus_.files(),
          .skipped_binary = corpus_.skipped_binary(),
          .skipped_empty = corpus_.skipped_empty(),
          .skipped_bad = corpus_.skipped_bad(),
          .warnings = corpus_.warnings()};
}

}  // namespace rondo
