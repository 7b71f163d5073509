// A source of training tokens: documents of token ids, each with a length and a hash of its id.
//
// If a byte is a token, text is tokenized as it is read. For other tokenizers it is first written
// to a token file. Both put the tokens of DocumentEnds before and after each document. A document
// of a token file is its stored ids; nothing is added. The program that writes the file decides
// about separators.
//
// A source is used by one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rondo {

// Counts of files, for the log.
struct SourceCounts {
  std::int64_t files = 0;
  std::int64_t skipped_hidden = 0, skipped_binary = 0, skipped_special = 0, skipped_empty = 0;
  std::int64_t skipped_bad = 0;  // records of JSON lines
  std::set<std::string> ends{};  // what is around documents, e.g. "<bos> text <eos>"
  // Number of control tokens that the text spells; nullopt if it is unknown.
  std::optional<std::int64_t> spelled{};
  std::vector<std::string> notes{};     // files that are left out
  std::vector<std::string> warnings{};  // skipped binary files and records, files that are listed twice

  SourceCounts& operator+=(const SourceCounts& more) {
    files += more.files;
    skipped_hidden += more.skipped_hidden;
    skipped_binary += more.skipped_binary;
    skipped_special += more.skipped_special;
    skipped_empty += more.skipped_empty;
    skipped_bad += more.skipped_bad;
    ends.insert(more.ends.begin(), more.ends.end());
    if (more.spelled) spelled = spelled.value_or(0) + *more.spelled;
    notes.insert(notes.end(), more.notes.begin(), more.notes.end());
    warnings.insert(warnings.end(), more.warnings.begin(), more.warnings.end());
    return *this;
  }
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t documents() const = 0;
  // Returns the length of `document` in [0, documents()), which may be 0. Throws Error(data) when
  // the index is damaged.
  virtual std::int64_t tokens(std::int64_t document) const = 0;
  // Returns the hash that decides whether a document is held out; the same on every machine.
  virtual std::uint64_t id_hash(std::int64_t document) const = 0;
  // Writes tokens [begin, end) of the document to `ids`. Throws Error(data) naming the file when it
  // changed after it was opened, or contains an id that the tokenizer does not have.
  virtual void read(std::int64_t document, std::int64_t begin, std::int64_t end, std::int64_t* ids) = 0;
  // Returns what determines the tokens in addition to the documents' ids and lengths; part of a
  // run's fingerprint.
  virtual std::string identity() const = 0;
  // Returns a hash of the content: of checksums in the files, or of at most `blocks` blocks of them
  // (datasets/documents/content.h).
  virtual std::uint64_t content(std::int64_t blocks) const = 0;
  virtual SourceCounts counts() const = 0;
};

}  // namespace rondo
