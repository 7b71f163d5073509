// The documents of a data path: an index of places and lengths, and reads of any part of one.
//
// A file is one document (text), a document a line (*.jsonl: objects with a string field, "text" unless it is
// named), or a packed corpus (*.packed); each may be compressed (text_file.h), and has the documents of the
// file that it was. Text files with a NUL in their first 8 KiB are binary and skipped; so are empty documents
// and blank lines.
//
// Format of *.packed, which opens with one read of its head however many documents it has:
//   rondo corpus 1\n
//   <bytes> <path>\n          one line a document; the path is its id, as it would be in a folder
//   \n
//   <contents>                of the documents in the same order, with nothing between or after them
//
// The index is immutable; a reader is used by one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/documents/files.h"
#include "datasets/documents/text_file.h"

namespace rondo {

struct Document {
  std::uint64_t id_hash =
      0;  // stable_hash of its id: the path below the named folder, in JSONL with ":<line>" after it
  std::uint32_t file = 0;
  std::int64_t offset = 0;        // of its stored bytes in the file, as it was before it was compressed
  std::int64_t stored_bytes = 0;  // more than `bytes` if and only if JSON escapes are in them
  std::int64_t bytes = 0;         // of its text, at least 1
};

// Reads the documents of a list of files. Keeps the file read last open; one that is compressed is fast only
// forwards.
class CorpusReader {
 public:
  explicit CorpusReader(const std::vector<std::string>& files) : files_(files) {}  // which outlive the reader
  CorpusReader(const CorpusReader&) = delete;
  CorpusReader& operator=(const CorpusReader&) = delete;

  // Bytes [begin, end) of the document's text; valid until the next call. Costs a read of that
  // part, or where JSON escapes are in the document, of the document. Throws Error(data) naming the file
  // when it cannot be opened any more, shrank, or changed so that the document is no longer there.
  std::string_view read(const Document& document, std::int64_t begin, std::int64_t end);

 private:
  friend class Corpus;
  void open(std::uint32_t file);
  std::int64_t size() { return open_->bytes(); }
  // Of the open file. Fewer bytes than asked for are its end.
  std::size_t read_at(std::int64_t offset, char* out, std::size_t bytes);
  [[noreturn]] void fail_changed(const Document& document) const;

  const std::vector<std::string>& files_;
  std::optional<TextFile> open_;  // the file read last: a packed corpus or JSONL stays open
  std::uint32_t open_file_ = 0;
  std::string stored_, text_;  // what read() returns views of
};

class Corpus {
 public:
  // `paths` as in datasets/documents/files.h. Throws Error(data) naming the file (and line) that is
  // missing, unreadable or malformed, and when there is no document at all.
  explicit Corpus(std::string_view paths);
  // Of these files; no document is no error.
  explicit Corpus(const std::vector<SourceFile>& files, std::string text_key = "text");

  const std::vector<Document>& documents() const { return documents_; }
  std::int64_t files() const { return static_cast<std::int64_t>(files_.size()); }
  const std::vector<std::string>& paths() const { return files_; }
  std::int64_t skipped_binary() const { return skipped_binary_; }
  std::int64_t skipped_empty() const { return skipped_empty_; }
  const std::string& first_binary() const { return first_binary_; }  // of those that are skipped

  // CorpusReader::read, by a reader of the corpus's own.
  std::string_view read(const Document& document, std::int64_t begin, std::int64_t end) {
    return reader_.read(document, begin, end);
  }

 private:
  void index_text(std::uint32_t file, std::string_view id);
  void index_jsonl(std::uint32_t file, std::string_view id);
  void index_json_line(std::uint32_t file, std::string_view id, std::int64_t number, std::int64_t offset,
                       std::string_view line);
  void index_packed(std::uint32_t file);

  const std::string text_key_;
  std::vector<std::string> files_;  // paths
  CorpusReader reader_{files_};
  std::vector<Document> documents_;
  std::int64_t skipped_binary_ = 0, skipped_empty_ = 0;
  std::string first_binary_;
};

}  // namespace rondo
