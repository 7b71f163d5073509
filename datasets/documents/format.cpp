// One table of signatures, one of suffixes, and one of names and next actions. Order: signatures of
// binary formats, byte order marks, suffixes that promise a text format, NUL bytes, JSON by its
// first lines, suffixes of CSV and JSON, prose. JSON needs whole lines, so up to 1 MiB of a file
// that begins with '{' is read. A line that is cut there counts as an object if it is one so far.
#include "datasets/documents/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

#include "datasets/documents/jsonl.h"
#include "datasets/documents/text_file.h"
#include "support/error.h"
#include "support/files/hub_advice.h"
#include "support/files/input_file.h"

namespace rondo {
namespace {

constexpr std::size_t kFormatHeadBytes = 8192;
constexpr std::size_t kFormatLineBytes = std::size_t{1} << 20;
constexpr int kExaminedLines = 4;

struct SignatureRow {
  FileFormat format;
  std::size_t offset;
  std::string_view bytes;
};
using namespace std::string_view_literals;
constexpr std::array kSignatures = {
    SignatureRow{FileFormat::packed, 0, "rondo corpus 1\n"},
    SignatureRow{FileFormat::rondo_tokens, 0, "rondotok"},
    SignatureRow{FileFormat::llmc, 0, "\x88\xd8\x34\x01"sv},  // 20240520
    SignatureRow{FileFormat::llmc, 0, "\xa1\xd9\x34\x01"sv},  // 20240801
    SignatureRow{FileFormat::parquet, 0, "PAR1\x15"},         // the first field of a page header is an i32
    SignatureRow{FileFormat::arrow, 0, "ARROW1\0\0"sv},
    SignatureRow{FileFormat::npy, 0, "\x93NUMPY"},
    SignatureRow{FileFormat::compressed, 0, "\x1f\x8b\x08"},
    SignatureRow{FileFormat::compressed, 0, "\x28\xb5\x2f\xfd"},
    SignatureRow{FileFormat::xz, 0,
                 "\xfd"
                 "7zXZ\0"sv},
    SignatureRow{FileFormat::zip, 0, "PK\x03\x04"},
    SignatureRow{FileFormat::tar, 257, "ustar"},
    SignatureRow{FileFormat::git_lfs, 0, kGitLfsPointer},
    SignatureRow{FileFormat::utf32, 0, "\xff\xfe\0\0"sv},
    SignatureRow{FileFormat::utf32, 0, "\0\0\xfe\xff"sv},
    SignatureRow{FileFormat::utf16, 0, "\xff\xfe"},
    SignatureRow{FileFormat::utf16, 0, "\xfe\xff"},
};

struct SuffixRow {
  FileFormat format;
  std::string_view suffix;
};
// Names that promise a format before JSON is examined, and after it.
constexpr std::array kPromises = {
    SuffixRow{FileFormat::jsonl, ".jsonl"},         SuffixRow{FileFormat::jsonl, ".ndjson"},
    SuffixRow{FileFormat::jsonl, ".jsonlines"},     SuffixRow{FileFormat::packed, ".packed"},
    SuffixRow{FileFormat::parquet, ".parquet"},     SuffixRow{FileFormat::parquet, ".pq"},
    SuffixRow{FileFormat::rondo_tokens, ".tokens"},
};
constexpr std::array kTextNames = {SuffixRow{FileFormat::csv, ".csv"}, SuffixRow{FileFormat::tsv, ".tsv"},
                                   SuffixRow{FileFormat::json, ".json"}};

struct FormatRow {
  FileFormat format;
  const char* name;
  // The next action. {0}: the path, {1}: the path without its suffix, {2}: the text key, {3}:
  // for a TSV an argument of Python's csv.reader, {4}: the suffix of the path, ".txt" without one.
  const char* action = "";
};
constexpr const char* kConvertTable =
    "Convert it: `python3 -c \"import csv, json; csv.field_size_limit(1 << 30); "
    "[print(json.dumps(row)) for row in csv.DictReader(open('{0}', newline='', "
    "encoding='utf-8-sig'){3})]\" > '{1}.jsonl'`, and move it out of the data path";
constexpr std::array kDescriptions = {
    FormatRow{FileFormat::unknown, "not examined"},
    FormatRow{FileFormat::text, "text"},
    FormatRow{FileFormat::jsonl, "JSONL"},
    FormatRow{FileFormat::packed, "packed corpus"},
    FormatRow{FileFormat::parquet, "Parquet"},
    FormatRow{FileFormat::arrow, "Arrow IPC"},
    FormatRow{FileFormat::arrow_stream, "Arrow IPC stream"},
    FormatRow{FileFormat::rondo_tokens, "Rondo tokens"},
    FormatRow{FileFormat::megatron, "Megatron-LM"},
    FormatRow{FileFormat::datatrove, "datatrove"},
    FormatRow{FileFormat::llmc, "llm.c"},
    FormatRow{FileFormat::json_lines, "JSONL"},
    FormatRow{FileFormat::json, "JSON",
              "The first line of JSON lines is an object like {{\"{2}\": \"...\"}}; training.text_key, or "
              "--text-key, names the field. `jq -c . '{0}' > '{1}.jsonl'` writes one value per line"},
    FormatRow{FileFormat::json_array, "JSON array",
              "Convert it: `jq -c '.[]' '{0}' > '{1}.jsonl'`, and move it out of the data path"},
    FormatRow{FileFormat::csv, "CSV", kConvertTable},
    FormatRow{FileFormat::tsv, "TSV", kConvertTable},
    FormatRow{FileFormat::npy, "NumPy array",
              "Name the text it was made of, or write its ids as Megatron-LM's *.bin and *.idx"},
    FormatRow{FileFormat::compressed, "a file that is compressed twice", "Then name '{0}'"},
    FormatRow{FileFormat::xz, "xz", "Unpack it: `xz -dk '{0}'`, or compress it by gzip or zstd"},
    FormatRow{FileFormat::bzip2, "bzip2", "Unpack it: `bzip2 -dk '{0}'`, or compress it by gzip or zstd"},
    FormatRow{FileFormat::zip, "zip archive", "Unpack it: `unzip '{0}'`, and name what it holds"},
    FormatRow{FileFormat::tar, "tar archive", "Unpack it: `tar -xf '{0}'`, and name what it holds"},
    FormatRow{FileFormat::git_lfs, "a pointer of Git LFS",
              "Fetch the file that it stands for: `git lfs pull`"},
    FormatRow{FileFormat::utf16, "UTF-16 text",
              "Convert it: `iconv -f UTF-16 -t UTF-8 '{0}' > '{1}.utf8{4}'`"},
    FormatRow{FileFormat::utf16_le, "UTF-16 text without a byte order mark",
              "Convert it: `iconv -f UTF-16LE -t UTF-8 '{0}' > '{1}.utf8{4}'`"},
    FormatRow{FileFormat::utf16_be, "UTF-16 text without a byte order mark",
              "Convert it: `iconv -f UTF-16BE -t UTF-8 '{0}' > '{1}.utf8{4}'`"},
    FormatRow{FileFormat::utf32, "UTF-32 text",
              "Convert it: `iconv -f UTF-32 -t UTF-8 '{0}' > '{1}.utf8{4}'`"},
    FormatRow{FileFormat::utf32_le, "UTF-32 text without a byte order mark",
              "Convert it: `iconv -f UTF-32LE -t UTF-8 '{0}' > '{1}.utf8{4}'`"},
    FormatRow{FileFormat::utf32_be, "UTF-32 text without a byte order mark",
              "Convert it: `iconv -f UTF-32BE -t UTF-8 '{0}' > '{1}.utf8{4}'`"},
    FormatRow{FileFormat::binary, "binary", "Text has no NUL byte in its first 8 KiB"},
};

// Ids without a header cannot be known by content.
constexpr const char* kHeaderless =
    "May be ids of 2 bytes without a header, as nanoGPT and OLMo write them, or Megatron-LM's without its "
    ".idx. GPT-2 ids get llm.c's header by `python3 -c \"import numpy as n; t = n.fromfile('{0}', n.uint16); "
    "h = n.zeros(256, n.int32); h[:3] = 20240520, 1, len(t); open('{1}.llmc.bin', 'wb').write(h.tobytes() + "
    "t.tobytes())\"`. Or tokenize the text again with `rondo data tokenize`";

const FormatRow& description_of(FileFormat format) {
  return *std::find_if(kDescriptions.begin(), kDescriptions.end(),
                       [&](const FormatRow& row) { return row.format == format; });
}

bool is_at(std::string_view head, std::size_t offset, std::string_view bytes) {
  return offset < head.size() && head.substr(offset).starts_with(bytes);
}

// "BZh" is text; a level and the magic of a block, or of the end, follow it.
bool is_bzip2(std::string_view head) {
  return head.starts_with("BZh") &&
         (is_at(head, 4, "\x31\x41\x59\x26\x53\x59") || is_at(head, 4, "\x17\x72\x45\x38\x50\x90"));
}

// A continuation marker, and the length of a schema: a positive multiple of 8 below 16 MiB.
bool is_arrow_stream(std::string_view head) {
  return head.size() > 8 && head.starts_with("\xff\xff\xff\xff") && head[7] == 0 && head[4] % 8 == 0 &&
         head.substr(4, 3) != "\0\0\0"sv;
}

bool is_ascii_text(char c) { return c >= ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Returns whether the head is ASCII characters of `width` bytes, of which byte `low` is not 0.
bool is_wide_ascii(std::string_view head, std::size_t width, std::size_t low) {
  for (std::size_t i = 0; i + width <= head.size(); ++i)
    if (i % width == low ? head[i] == 0 || !is_ascii_text(head[i]) : head[i] != 0) return false;
  return head.size() >= 2 * width;
}

// Returns the format of a head with a NUL byte and without a byte order mark.
FileFormat recognise_wide(std::string_view head) {
  if (is_wide_ascii(head, 2, 0)) return FileFormat::utf16_le;
  if (is_wide_ascii(head, 2, 1)) return FileFormat::utf16_be;
  if (is_wide_ascii(head, 4, 0)) return FileFormat::utf32_le;
  return is_wide_ascii(head, 4, 3) ? FileFormat::utf32_be : FileFormat::binary;
}

std::string_view without_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

// Returns text if the head, which begins with '{', is no JSON.
FileFormat recognise_object(std::string_view head, bool whole, std::string_view text_key) {
  int objects = 0;
  bool valid = false, has_text = false;
  for (int i = 0; i < kExaminedLines && !head.empty(); ++i) {
    const std::size_t end = std::min(head.find('\n'), head.size());
    const bool cut = end == head.size() && !whole;
    const std::string_view line = head.substr(0, end);
    head = without_space(head.substr(end));
    if (!line.starts_with('{')) return FileFormat::text;
    ++objects;
    const JsonLine kind = examine_json_line(line, text_key, cut);
    valid |= kind != JsonLine::invalid;
    has_text |= kind == JsonLine::has_text;
    if (cut) ++objects;  // longer than any metadata
  }
  if (has_text) return FileFormat::jsonl;
  return !valid ? FileFormat::text : objects > 1 ? FileFormat::json_lines : FileFormat::json;
}

template <class File>  // InputFile or TextFile
std::string read_head(File& file, std::size_t bytes) {
  std::string head(bytes, '\0');
  head.resize(file.read_some_at(0, std::as_writable_bytes(std::span(head))));
  return head;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool begins_with(const std::string& path, std::string_view magic) {
  if (!exists(path)) return false;
  const InputFile file(path, FileUse::data);
  return read_head(file, magic.size()) == magic;
}

// The formats of several files.
FileFormat recognise_pair(const std::string& path) {
  constexpr std::string_view kMegatron = "MMIDIDX";
  const auto stem = [&](std::size_t bytes) { return path.substr(0, path.size() - bytes); };
  if (path.ends_with(".ds")) return FileFormat::datatrove;
  for (const std::string_view suffix : {".index", ".metadata", ".loss"})
    if (path.ends_with(".ds" + std::string(suffix)) && exists(stem(suffix.size())))
      return FileFormat::datatrove;
  if (path.ends_with(".idx") && begins_with(path, kMegatron)) return FileFormat::megatron;
  if (path.ends_with(".bin") && begins_with(stem(4) + ".idx", kMegatron)) return FileFormat::megatron;
  return FileFormat::unknown;
}

}  // namespace

const char* name_of(FileFormat format) { return description_of(format).name; }
bool is_token_format(FileFormat format) {
  return FileFormat::rondo_tokens <= format && format <= FileFormat::llmc;
}
bool is_table(FileFormat format) {
  return FileFormat::parquet <= format && format <= FileFormat::arrow_stream;
}
bool is_read(FileFormat format) { return format <= FileFormat::json_lines; }

bool has_suffix(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() &&
         std::equal(suffix.begin(), suffix.end(), name.end() - std::ssize(suffix), [](char lower, char c) {
           return lower == (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
         });
}

FileFormat recognise_head(std::string_view head, bool whole, std::string_view name,
                          std::string_view text_key) {
  for (const SignatureRow& row : kSignatures)
    if (is_at(head, row.offset, row.bytes)) return row.format;
  if (is_bzip2(head)) return FileFormat::bzip2;
  if (is_arrow_stream(head)) return FileFormat::arrow_stream;
  std::string_view start = head;
  if (start.starts_with("\xef\xbb\xbf")) start.remove_prefix(3);
  start = without_space(start);
  if (start.starts_with('[')) {
    const std::string_view first = without_space(start.substr(1));
    const std::string_view inside = without_space(first.substr(std::min<std::size_t>(1, first.size())));
    if (first.starts_with('{') && (inside.starts_with('"') || inside.starts_with('}')))
      return FileFormat::json_array;
  }
  for (const SuffixRow& row : kPromises)
    if (has_suffix(name, row.suffix)) return row.format;
  if (head.substr(0, kFormatHeadBytes).find('\0') != std::string_view::npos)
    return recognise_wide(head.substr(0, kFormatHeadBytes));
  if (start.starts_with('{')) {
    const FileFormat format = recognise_object(start, whole, text_key);
    if (format != FileFormat::text) return format;
    if (!has_suffix(name, ".txt") && are_json_objects(start, !whole)) return FileFormat::json;
  }
  if (has_suffix(name, ".json")) {  // its first record may be cut, as by `split -b`
    const std::string_view rest = without_space(start.substr(std::min(start.find('\n'), start.size())));
    if (rest.starts_with('{') && recognise_object(rest, whole, text_key) == FileFormat::jsonl)
      return FileFormat::jsonl;
  }
  for (const SuffixRow& row : kTextNames)
    if (has_suffix(name, row.suffix) && !start.empty() &&
        (row.format != FileFormat::json || start.starts_with('{') || start.starts_with('[')))
      return row.format;
  return FileFormat::text;
}

Recognised recognise(const std::string& path, std::string_view text_key) {
  if (const FileFormat pair = recognise_pair(path); pair != FileFormat::unknown) return {pair};
  const InputFile file(path, FileUse::data);
  // One read for a small file: more bytes than it has would take another, to find its end.
  const auto size = static_cast<std::size_t>(file.size());
  std::string head = read_head(file, std::min(size, kFormatHeadBytes));
  if (head.starts_with(kGitLfsPointer)) return {FileFormat::git_lfs};  // whatever its name is
  const std::string_view name = without_compression(path);
  if (size > 0 && make_decompressor(path, head) != nullptr) {
    TextFile text(path, true);
    const std::string start = read_head(text, kFormatLineBytes);
    return {recognise_head(start, start.size() < kFormatLineBytes, name, text_key), true};
  }
  const bool may_be_json =
      has_suffix(path, ".json") || without_space(head).find('{') < 4;  // after a byte order mark, or '['
  if (may_be_json && head.size() < size) head = read_head(file, std::min(size, kFormatLineBytes));
  return {recognise_head(head, head.size() == size, name, text_key), false};
}

void refuse(const std::string& path, const Recognised& file, std::string_view text_key) {
  const FormatRow& row = description_of(file.format);
  const bool headerless =
      file.format == FileFormat::binary && (has_suffix(path, ".bin") || has_suffix(path, ".npy"));
  const bool unpacks = file.format == FileFormat::tar;  // the command itself
  const std::string plain(unpacks ? std::string_view(path) : without_compression(path));
  const std::size_t dot = plain.rfind('.');
  const bool has_dot = dot != std::string::npos && plain.find('/', dot) == std::string::npos;
  throw Error(
      ExitCode::data,
      fmt::format("{}: {} is not supported{}. {}", path, row.name,
                  file.compressed && !unpacks ? fmt::format(" here. Unpack it to {} first", plain) : "",
                  fmt::format(fmt::runtime(headerless ? kHeaderless : row.action), plain,
                              has_dot ? plain.substr(0, dot) : plain, text_key,
                              file.format == FileFormat::tsv ? ", delimiter='\\t'" : "",
                              has_dot ? plain.substr(dot) : ".txt")));
}

}  // namespace rondo
