// Reads the text column of a table: a Parquet file, or an Arrow IPC file or stream.
//
// Arrow's C++ libraries read it. They are larger than the program, so librondo_arrow.so links them,
// and the first table loads it. A program that was built without Arrow refuses tables.
//
// A column of strings or bytes is text, of any width, as views, or as a dictionary. Its name is a
// field at the top of the schema; of several with one name the last counts, as in a JSON object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo {

struct TableRow {
  bool is_null = false;
  std::string_view text{};  // any bytes
};

// Used by one thread at a time. Starts no thread.
class TextTable {
 public:
  virtual ~TextTable() = default;

  // Returns row `row` (>= 0), or nullopt behind the last. The text is valid until the next call.
  // Fast in ascending order. Row groups of Parquet are found at once; a row of one, or of Arrow
  // IPC, is found from the beginning. Memory: some pages of a row group, or one record batch.
  // Throws Error(data) naming file and row group or record batch when they are damaged.
  virtual std::optional<TableRow> read(std::int64_t row) = 0;

  // Labels and values for people: columns with their types, row groups, compression.
  using Facts = std::vector<std::pair<std::string, std::string>>;
  virtual Facts facts() const = 0;
};

// Opens the table and finds its column `text_key`. Throws Error(data) naming the file when it is
// damaged or encrypted, has no such column, or the column is not text; when the program was built
// without Arrow, or its libraries cannot be loaded. FileError when the file cannot be read.
std::unique_ptr<TextTable> open_table(const std::string& path, std::string_view text_key);

// The bytes of a table, as librondo_arrow.so reads them. May throw any exception.
class TableFile {
 public:
  virtual ~TableFile() = default;
  virtual std::int64_t size() const = 0;
  // Returns fewer bytes than requested at the end of the file.
  virtual std::size_t read_some_at(std::int64_t offset, std::span<std::byte> out) const = 0;
};

// An intact table that cannot be read; the message names the next action.
struct UnreadableTable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The function of librondo_arrow.so. It and its tables throw UnreadableTable, what TableFile threw,
// and other exceptions for damage. Messages do not name the file.
using OpenArrowTable = std::unique_ptr<TextTable>(std::unique_ptr<TableFile> file, std::string_view text_key);
inline constexpr const char* kOpenArrowTable = "rondo_open_arrow_table";

}  // namespace rondo
