// The index contains offsets and lengths, and contents are read on demand. So memory grows with the
// number of documents, not with their text. JSONL is scanned in chunks of 4 MiB, and an incomplete
// line is carried over to the next chunk. A part of an escaped document cannot be located without
// unescaping from the beginning, so such a document is read whole. Its two lengths differ, which
// marks it. A table is read whole for the lengths of its rows; a document's offset is its row. A
// document that changed on disk is an error.
#include "datasets/documents/corpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "datasets/documents/files.h"
#include "datasets/documents/jsonl.h"
#include "datasets/documents/order.h"
#include "support/error.h"

namespace rondo {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(ExitCode::data, message); }

}  // namespace

Corpus::Corpus(std::string_view paths) : Corpus(find_files(paths).files) {
  if (documents_.empty())
    fail(fmt::format(
        "data path \"{}\": no document in {} files ({} binary, {} empty). Text has no NUL byte in its "
        "first 8 KiB",
        paths, files_.size(), skipped_binary_, skipped_empty_));
}

Corpus::Corpus(const std::vector<SourceFile>& files, std::string text_key, OnBadRecord on_bad_record,
               std::string separator)
    : text_key_(std::move(text_key)), on_bad_record_(on_bad_record), separator_(std::move(separator)) {
  files_.reserve(files.size());
  documents_.reserve(files.size());
  for (const SourceFile& source : files) {
    const auto file = static_cast<std::uint32_t>(files_.size());
    files_.push_back(source);
    const std::string_view id = without_compression(source.id);
    if (source.as.format == FileFormat::unknown) files_.back().as = recognise(source.path, text_key_);
    switch (files_.back().as.format) {
      case FileFormat::jsonl:
      case FileFormat::json_lines:
        refuse_separator(file);
        index_jsonl(file, id);
        break;
      case FileFormat::packed:
        refuse_separator(file);
        index_packed(file);
        break;
      case FileFormat::parquet:
      case FileFormat::arrow:
      case FileFormat::arrow_stream:
        refuse_separator(file);
        index_table(file, source.id);
        break;
      case FileFormat::text:
      case FileFormat::json:
      case FileFormat::json_array:
      case FileFormat::csv:
      case FileFormat::tsv:
        if (separator_.empty())
          index_text(file, id);
        else
          index_separated(file, id);
        break;
      default:
        if (skipped_binary_++ == 0) first_binary_ = source.path;
    }
  }
  if (!separator_.empty() && separators_ == 0 && !documents_.empty())
    fail(
        fmt::format("{}: the separator \"{}\" of training.document_separator, or --document-separator, is in "
                    "no text file. Correct it, or leave it out",
                    files_[documents_[0].file].path, separator_));
}

void Corpus::refuse_separator(std::uint32_t file) const {
  if (separator_.empty()) return;
  fail(fmt::format(
      "{}: training.document_separator, or --document-separator, is for text files, and this one is "
      "{}, which says itself where documents end. Leave the separator out, or tokenize the text "
      "files with it by `rondo data tokenize`",
      files_[file].path, name_of(files_[file].as.format)));
}

std::string place_of(const Document& document, const SourceFile& file) {
  return is_table(file.as.format) ? fmt::format("row {}", document.offset + 1)
                                  : fmt::format("byte {}", document.offset);
}

std::string_view CorpusReader::read(const Document& document, std::int64_t begin, std::int64_t end) {
  RONDO_ASSERT(0 <= begin && begin <= end && end <= document.bytes, "a read outside the document");
  open(document.file);
  if (table_ != nullptr) {
    const auto row = table_->read(document.offset);
    if (!row || row->is_null || std::ssize(row->text) != document.bytes) fail_changed(document);
    return row->text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }
  const bool escaped = document.stored_bytes > document.bytes;
  const std::int64_t offset = document.offset + (escaped ? 0 : begin);
  stored_.resize(static_cast<std::size_t>(escaped ? document.stored_bytes : end - begin));
  if (read_at(offset, stored_.data(), stored_.size()) != stored_.size()) fail_changed(document);
  if (!escaped) return stored_;

  // A position in escaped text is found only by unescaping from the beginning.
  text_.clear();
  try {
    append_unescaped(stored_, text_);
  } catch (const JsonError&) {
    fail_changed(document);
  }
  if (static_cast<std::int64_t>(text_.size()) != document.bytes) fail_changed(document);
  return std::string_view(text_).substr(static_cast<std::size_t>(begin),
                                        static_cast<std::size_t>(end - begin));
}

void CorpusReader::open(std::uint32_t file) {
  if ((open_ || table_ != nullptr) && open_file_ == file) return;
  open_.reset();
  table_.reset();
  if (is_table(files_[file].as.format)) {
    table_ = open_table(files_[file].path, text_key_);
  } else {
    open_.emplace(files_[file].path, files_[file].as.compressed);
  }
  open_file_ = file;
}

std::size_t CorpusReader::read_at(std::int64_t offset, char* out, std::size_t bytes) {
  return open_->read_some_at(offset, std::as_writable_bytes(std::span(out, bytes)));
}

void CorpusReader::fail_changed(const Document& document) const {
  fail(
      fmt::format("{}: changed while in use: the document of {} bytes at {} is missing. "
                  "Restore the file, or start a new run on the new data",
                  files_[document.file].path, document.bytes, place_of(document, files_[document.file])));
}

void Corpus::index_text(std::uint32_t file, std::string_view id) {
  reader_.open(file);
  if (const std::int64_t bytes = reader_.size(); bytes > 0)
    documents_.push_back({stable_hash(id), file, 0, bytes, bytes});
  else
    ++skipped_empty_;
}

// Scans in chunks of 4 MiB. The next chunk begins with what may be the first part of a separator,
// and the line break before it.
void Corpus::index_separated(std::uint32_t file, std::string_view id) {
  constexpr std::size_t kChunkBytes = std::size_t{4} << 20, kLineBreakBytes = 2;
  reader_.open(file);
  std::string buffer;
  std::size_t from = 0;                // in the buffer: the separator is not before it
  std::int64_t offset = 0, begin = 0;  // in the file: of the buffer, of the document
  std::int64_t number = 0;
  const auto add = [&](std::int64_t end) {
    ++number;
    if (end > begin)
      documents_.push_back(
          {stable_hash(fmt::format("{}:{}", id, number)), file, begin, end - begin, end - begin});
    return end > begin;
  };
  for (bool last = false; !last;) {
    const std::size_t kept = buffer.size();
    buffer.resize(kept + kChunkBytes);
    buffer.resize(
        kept + reader_.read_at(offset + static_cast<std::int64_t>(kept), buffer.data() + kept, kChunkBytes));
    last = buffer.size() < kept + kChunkBytes;
    std::size_t at;
    while ((at = buffer.find(separator_, from)) != std::string::npos) {
      std::size_t next = at + separator_.size();
      if (!last && next + kLineBreakBytes > buffer.size()) break;
      std::int64_t end = offset + static_cast<std::int64_t>(at);
      for (const char c : {'\n', '\r'})
        if (end > begin && buffer[static_cast<std::size_t>(end - offset - 1)] == c)
          --end;
        else
          break;
      skipped_empty_ += !add(end);
      ++separators_;
      const std::string_view after = std::string_view(buffer).substr(next, kLineBreakBytes);
      next += after.starts_with('\n') ? 1 : after == "\r\n" ? 2 : 0;
      begin = offset + static_cast<std::int64_t>(next);
      from = next;
    }
    if (last) break;
    from = std::max(from, std::min(at, buffer.size() - std::min(buffer.size(), separator_.size() - 1)));
    const std::size_t done = from - std::min(from, kLineBreakBytes);
    buffer.erase(0, done);
    offset += static_cast<std::int64_t>(done);
    from -= done;
  }
  if (!add(offset + static_cast<std::int64_t>(buffer.size())) && number == 1) ++skipped_empty_;
}

void Corpus::index_jsonl(std::uint32_t file, std::string_view id) {
  constexpr std::size_t kChunkBytes = std::size_t{4} << 20, kMaxLineBytes = std::size_t{256} << 20;
  reader_.open(file);
  std::string buffer;       // starts at the beginning of a line
  std::int64_t offset = 0;  // of the buffer in the file
  for (std::int64_t number = 1, last = 0; !last;) {
    const std::size_t kept = buffer.size();
    buffer.resize(kept + kChunkBytes);
    buffer.resize(
        kept + reader_.read_at(offset + static_cast<std::int64_t>(kept), buffer.data() + kept, kChunkBytes));
    last = buffer.size() < kept + kChunkBytes;
    std::size_t begin = 0;
    for (std::size_t searched = kept; begin < buffer.size(); searched = begin) {
      if (buffer[begin] == '\n') {  // an empty line, of which there may be very many
        ++begin, ++number;
        continue;
      }
      std::size_t end = buffer.find('\n', searched);
      if (end == std::string::npos && !last) break;
      end = std::min(end, buffer.size());
      index_json_line(file, id, number++, offset + static_cast<std::int64_t>(begin),
                      std::string_view(buffer).substr(begin, end - begin));
      begin = end + 1;
    }
    begin = std::min(begin, buffer.size());
    if (buffer.size() - begin > kMaxLineBytes)
      fail(fmt::format(
          "{}: line {} has more than 256 MiB. A document of JSONL is a line; divide it into several",
          files_[file].path, number));
    // Growth by doubling would need the old and the new buffer at once.
    if (buffer.size() - begin > kMaxLineBytes / 4) buffer.reserve(kMaxLineBytes + 2 * kChunkBytes);
    buffer.erase(0, begin);
    offset += static_cast<std::int64_t>(begin);
  }
}

void Corpus::index_json_line(std::uint32_t file, std::string_view id, std::int64_t number,
                             std::int64_t offset, std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  try {
    const JsonText text = find_json_text(line, text_key_);
    if (text.bytes == 0) {
      ++skipped_empty_;
      return;
    }
    documents_.push_back({stable_hash(fmt::format("{}:{}", id, number)), file,
                          offset + static_cast<std::int64_t>(text.offset),
                          static_cast<std::int64_t>(text.stored), static_cast<std::int64_t>(text.bytes)});
  } catch (const JsonError& error) {
    const std::string place = fmt::format("{}:{}:{}", files_[file].path, number, error.column);
    if (on_bad_record_ == OnBadRecord::stop) {
      const std::string keys = error.column == 1 ? json_keys(line) : "";  // 1: the object as a whole
      fail(
          fmt::format("{}: {}{}. A line of JSONL is an object like {{\"{}\": \"...\"}}; training.text_key, "
                      "or --text-key, names the field; training.on_bad_record=\"skip\", or --on-bad-record "
                      "skip, leaves such lines out",
                      place, error.what(), keys.empty() ? "" : ", but " + keys, text_key_));
    }
    add_bad_record(place, error.what());
  }
}

void Corpus::index_table(std::uint32_t file, std::string_view id) {
  reader_.open(file);
  for (std::int64_t row = 0; const auto cell = reader_.table_->read(row); ++row) {
    if (cell->is_null) {
      const std::string place = fmt::format("{}:{}", files_[file].path, row + 1);
      const std::string reason = fmt::format("the column \"{}\" is null", text_key_);
      if (on_bad_record_ == OnBadRecord::stop)
        fail(
            fmt::format("{}: {}. training.on_bad_record=\"skip\", or --on-bad-record skip, leaves such rows "
                        "out; training.text_key, or --text-key, names the column",
                        place, reason));
      add_bad_record(place, reason);
    } else if (cell->text.empty()) {
      ++skipped_empty_;
    } else {
      const std::int64_t bytes = std::ssize(cell->text);
      documents_.push_back({stable_hash(fmt::format("{}:{}", id, row + 1)), file, row, bytes, bytes});
    }
  }
}

void Corpus::add_bad_record(const std::string& place, const std::string& reason) {
  ++skipped_bad_;
  BadRecords& records = bad_records_[reason];
  if (records.count++ == 0) records.first = place;
}

std::vector<std::string> Corpus::warnings() const {
  std::vector<std::string> lines;
  if (skipped_binary_ > 0)
    lines.push_back(
        fmt::format("{} of {} files are skipped as binary (a NUL in their first 8 KiB), the first is {}",
                    skipped_binary_, files_.size(), first_binary_));
  for (const auto& [reason, records] : bad_records_)
    lines.push_back(
        fmt::format("bad records skipped: {}, {}; the first is {}", records.count, reason, records.first));
  return lines;
}

}  // namespace rondo
