// Where training tokens come from: documents of token ids, each with a hash of its id and a length.
//
// Text becomes tokens as it is read, with BOS before and EOS after each document, where a byte is a token;
// for other tokenizers it becomes a token file first. Token files hold the ids already: a document is its
// tokens as they are stored, and nothing is put around it. Which separators are in the file is the business
// of what wrote it; `rondo data tokenize` writes BOS and EOS.
//
// A source is used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

// What was found, for the log.
struct SourceCounts {
  std::int64_t files = 0;
  std::int64_t skipped_hidden = 0, skipped_binary = 0, skipped_special = 0, skipped_empty = 0;
  std::vector<std::string> warnings{};  // of files that are skipped as binary, or listed twice
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t documents() const = 0;
  // Of `document` in [0, documents()); 0 is possible. Throws Error(data) where the index is damaged.
  virtual std::int64_t tokens(std::int64_t document) const = 0;
  // The same on every machine; decides whether a document is held out.
  virtual std::uint64_t id_hash(std::int64_t document) const = 0;
  // Writes tokens [begin, end) of the document to `ids`. Throws Error(data) naming the file when it changed
  // since it was opened, or holds an id that the tokenizer does not have.
  virtual void read(std::int64_t document, std::int64_t begin, std::int64_t end, std::int64_t* ids) = 0;
  // What decides the tokens beside the documents' ids and lengths; part of a run's fingerprint.
  virtual std::string identity() const = 0;
  virtual SourceCounts counts() const = 0;
};

}  // namespace rondo
