// A source of tokens from text, with the byte tokenizer.
#pragma once

#include <vector>

#include "datasets/documents/corpus.h"
#include "datasets/token_files/token_source.h"
#include "datasets/tokenizer/document_ends.h"

namespace rondo {

// Documents of text, one token per byte, between `ends`. Only the requested part of a document is
// read and encoded. In a compressed file, the bytes before it are read as well.
class TextSource final : public TokenSource {
 public:
  explicit TextSource(const std::vector<SourceFile>& files, const std::string& text_key = "text",
                      OnBadRecord on_bad_record = OnBadRecord::stop,
                      const DocumentEnds& ends = document_ends({}, ByteTokenizer()),
                      const std::string& separator = "")
      : corpus_(files, text_key, on_bad_record, separator), ends_(ends) {}

  std::int64_t documents() const override { return static_cast<std::int64_t>(corpus_.documents().size()); }
  std::int64_t tokens(std::int64_t document) const override { return at(document).bytes + ends_.count(); }
  std::uint64_t id_hash(std::int64_t document) const override { return at(document).id_hash; }
  void read(std::int64_t document, std::int64_t begin, std::int64_t end, std::int64_t* ids) override;
  std::string identity() const override { return ByteTokenizer().name(); }
  std::uint64_t content(std::int64_t blocks) const override;
  SourceCounts counts() const override;
  Corpus& corpus() { return corpus_; }

 private:
  const Document& at(std::int64_t document) const {
    return corpus_.documents()[static_cast<std::size_t>(document)];
  }

  Corpus corpus_;
  DocumentEnds ends_;
};

}  // namespace rondo
