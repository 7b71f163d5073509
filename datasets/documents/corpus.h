// Indexes the documents of a data path, and reads any part of a document.
//
// A file is one document (text; with a separator, the documents between its occurrences), one
// document per line (JSON lines: objects with a string field, by default "text"), one document per
// row (tables: that is the name of a column), or a packed corpus (*.packed). Each but a table may
// be compressed (text_file.h); its documents are those of the decompressed file. Text files with a
// NUL in their first 8 KiB are binary and skipped. Empty documents and blank lines are skipped too.
// A bad record, which is a line that is no such object, or a null of a table, is an error, or
// skipped and counted by its reason. The ids of the other lines and rows are the same. A table has
// the documents of its rows as JSON lines.
//
// Format of *.packed, which is indexed by reading its head alone:
//   rondo corpus 1\n
//   <bytes> <path>\n          one line per document; the path is its id, as in a
//   folder \n
//   <contents>                of the documents in the same order, contiguous and up to the end
//
// The index is immutable. A reader is used by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/documents/files.h"
#include "datasets/documents/on_bad_record.h"
#include "datasets/documents/text_file.h"
#include "datasets/tables/text_table.h"

namespace rondo {

struct Document {
  // stable_hash of the id: the path below the named folder, in JSONL followed by ":<line>", in
  // tables by ":<row>", between separators by ":<number>", from 1.
  std::uint64_t id_hash = 0;
  std::uint32_t file = 0;
  std::int64_t offset = 0;        // of its stored bytes in the decompressed file; in a table its row
  std::int64_t stored_bytes = 0;  // greater than `bytes` if and only if they contain JSON escapes
  std::int64_t bytes = 0;         // of its text, at least 1
};

// Returns where a document of the file is, "byte 7" or in a table "row 7", for messages.
std::string place_of(const Document& document, const SourceFile& file);

// Reads the documents of a list of files. Keeps the last file open. A compressed file or a table is
// fast in ascending order only.
class CorpusReader {
 public:
  // `files` must be recognised and outlive the reader. `text_key`: the column of tables.
  CorpusReader(const std::vector<SourceFile>& files, std::string text_key)
      : files_(files), text_key_(std::move(text_key)) {}
  CorpusReader(const CorpusReader&) = delete;
  CorpusReader& operator=(const CorpusReader&) = delete;

  // Returns bytes [begin, end) of the document's text, valid until the next call. Reads only that
  // part, or the whole document if it contains JSON escapes or is in a table. Throws Error(data)
  // naming the file when it cannot be opened, shrank, or changed so that the document is not in it.
  std::string_view read(const Document& document, std::int64_t begin, std::int64_t end);

 private:
  friend class Corpus;
  void open(std::uint32_t file);
  std::int64_t size() { return open_->bytes(); }
  // Reads from the open file. Returns fewer bytes than requested at its end.
  std::size_t read_at(std::int64_t offset, char* out, std::size_t bytes);
  [[noreturn]] void fail_changed(const Document& document) const;

  const std::vector<SourceFile>& files_;
  const std::string text_key_;
  // The last file, in one of the two: a packed corpus, JSONL or a table stays open.
  std::optional<TextFile> open_;
  std::unique_ptr<TextTable> table_;
  std::uint32_t open_file_ = 0;
  std::string stored_, text_;  // buffers of the views that read() returns
};

class Corpus {
 public:
  // Takes paths as in datasets/documents/files.h. Throws Error(data) naming the file (and line)
  // that is missing, unreadable or malformed, and when there is no document.
  explicit Corpus(std::string_view paths);
  // Takes a list of files, which may have no documents. Recognises those of unknown format.
  // `separator`: of the documents of a text file; "": none. It may be anywhere in a line. One line
  // break before it and one after it belong to it. Throws Error(data) for JSON lines or a packed
  // corpus with a separator, and where no text file has it.
  explicit Corpus(const std::vector<SourceFile>& files, std::string text_key = "text",
                  OnBadRecord on_bad_record = OnBadRecord::stop, std::string separator = "");

  const std::vector<Document>& documents() const { return documents_; }
  std::int64_t files() const { return static_cast<std::int64_t>(files_.size()); }
  const std::vector<SourceFile>& sources() const { return files_; }
  const std::string& text_key() const { return text_key_; }
  std::int64_t skipped_binary() const { return skipped_binary_; }
  std::int64_t skipped_empty() const { return skipped_empty_; }
  std::int64_t skipped_bad() const { return skipped_bad_; }
  // Warns of skipped binary files and bad records: how many of each reason, and the first.
  std::vector<std::string> warnings() const;

  // As CorpusReader::read.
  std::string_view read(const Document& document, std::int64_t begin, std::int64_t end) {
    return reader_.read(document, begin, end);
  }

 private:
  void index_text(std::uint32_t file, std::string_view id);
  void index_separated(std::uint32_t file, std::string_view id);
  void refuse_separator(std::uint32_t file) const;
  void index_jsonl(std::uint32_t file, std::string_view id);
  void index_json_line(std::uint32_t file, std::string_view id, std::int64_t number, std::int64_t offset,
                       std::string_view line);
  void index_packed(std::uint32_t file);
  void index_table(std::uint32_t file, std::string_view id);
  void add_bad_record(const std::string& place, const std::string& reason);

  struct BadRecords {
    std::int64_t count = 0;
    std::string first;  // "<path>:<line>:<column>", of a table "<path>:<row>"
  };

  const std::string text_key_;
  const OnBadRecord on_bad_record_;
  const std::string separator_;
  std::vector<SourceFile> files_;
  CorpusReader reader_{files_, text_key_};
  std::vector<Document> documents_;
  std::int64_t skipped_binary_ = 0, skipped_empty_ = 0, skipped_bad_ = 0;
  std::int64_t separators_ = 0;  // in text files
  std::string first_binary_;
  std::map<std::string, BadRecords> bad_records_;  // by reason
};

}  // namespace rondo
