// Recognises the format of a data file by its first bytes, after decompression. The suffix decides
// only where content cannot: ids without a header (*.bin with *.idx, *.ds), CSV, and names that
// promise a format (*.jsonl, *.packed, *.tokens, *.parquet), so that a damaged file is an error.
// The case of a suffix does not matter, except for pairs of files.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

enum class FileFormat {
  unknown,  // not examined
  // Text that is read.
  text,
  jsonl,   // JSON lines: by name, or the first line is an object with the text key
  packed,  // datasets/documents/corpus.h
  // Tables with a column of text (datasets/tables/text_table.h).
  parquet,
  arrow,
  arrow_stream,
  // Token files that are read.
  rondo_tokens,
  megatron,
  datatrove,
  llmc,
  // Read as JSON lines, or as text in a folder of text: lines of objects, the first without the
  // key.
  json_lines,
  // Not read. `refuse` names the next action.
  json,  // one JSON value
  json_array,
  csv,
  tsv,
  npy,
  compressed,  // by gzip or Zstandard, and then once more
  xz,
  bzip2,
  zip,
  tar,
  git_lfs,  // a pointer to the file
  utf16,    // with a byte order mark
  utf16_le,
  utf16_be,
  utf32,
  utf32_le,
  utf32_be,
  binary,
};

// Returns e.g. "Parquet".
const char* name_of(FileFormat format);
bool is_token_format(FileFormat format);
bool is_table(FileFormat format);  // Parquet, Arrow IPC
bool is_read(FileFormat format);   // up to json_lines

struct Recognised {
  FileFormat format = FileFormat::text;
  bool compressed = false;
};

// Reads the head of a file, and of its companions (X.idx of X.bin). `text_key`: the field of JSON
// lines. Throws Error(data) when the file cannot be read or decompressed.
Recognised recognise(const std::string& path, std::string_view text_key);

// Returns the format of text that begins with `head`. `whole`: nothing follows. `name`: of the
// file, without a suffix of compression.
FileFormat recognise_head(std::string_view head, bool whole, std::string_view name,
                          std::string_view text_key);

// Throws Error(data) that says what the file is and how to make it readable.
[[noreturn]] void refuse(const std::string& path, const Recognised& file, std::string_view text_key);

// Returns whether `name` ends with `suffix`, which is in lower case.
bool has_suffix(std::string_view name, std::string_view suffix);

}  // namespace rondo
