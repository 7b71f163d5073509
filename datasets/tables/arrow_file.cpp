// The entry of librondo_arrow.so, and what its two readers share. The first bytes of a file decide
// which reader it gets: "ARROW1" is an Arrow IPC file, a continuation marker a stream of it, and
// anything else is Parquet by its name.
#include "datasets/tables/arrow_file.h"

#include <arrow/buffer.h>
#include <arrow/util/future.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rondo {

arrow::Status ArrowFile::Close() {
  closed_ = true;
  return arrow::Status::OK();
}

arrow::Status ArrowFile::Seek(std::int64_t position) {
  if (position < 0) return arrow::Status::Invalid("a negative offset");
  position_ = position;
  return arrow::Status::OK();
}

arrow::Result<std::int64_t> ArrowFile::Read(std::int64_t bytes, void* out) {
  if (bytes < 0) return arrow::Status::Invalid("a negative number of bytes");
  try {
    const std::size_t count =
        file_->read_some_at(position_, {static_cast<std::byte*>(out), static_cast<std::size_t>(bytes)});
    position_ += static_cast<std::int64_t>(count);
    return static_cast<std::int64_t>(count);
  } catch (...) {
    failure_ = std::current_exception();
    return arrow::Status::IOError("the file cannot be read");
  }
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ArrowFile::Read(std::int64_t bytes) {
  const std::int64_t most =
      std::clamp<std::int64_t>(file_->size() - position_, 0, std::max<std::int64_t>(bytes, 0));
  ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(most, pool()));
  ARROW_ASSIGN_OR_RAISE(const std::int64_t count, Read(most, buffer->mutable_data()));
  ARROW_RETURN_NOT_OK(buffer->Resize(count, /*shrink_to_fit=*/false));
  return buffer;
}

arrow::Future<std::shared_ptr<arrow::Buffer>> ArrowFile::ReadAsync(const arrow::io::IOContext&,
                                                                   std::int64_t position, std::int64_t bytes,
                                                                   bool allow_short_read) {
  return arrow::Future<std::shared_ptr<arrow::Buffer>>::MakeFinished(
      ReadAt(position, bytes, allow_short_read));
}
arrow::Future<std::shared_ptr<arrow::Buffer>> ArrowFile::ReadAsync(const arrow::io::IOContext&,
                                                                   std::int64_t position,
                                                                   std::int64_t bytes) {
  return arrow::Future<std::shared_ptr<arrow::Buffer>>::MakeFinished(ReadAt(position, bytes));
}

void check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

namespace {

constexpr std::size_t kMaxListed = 20;

std::string names_of(const std::vector<TableColumn>& columns, bool is_text) {
  std::string names;
  std::size_t count = 0;
  for (const TableColumn& column : columns) {
    if (column.is_text != is_text || ++count > kMaxListed) continue;
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", column.name);
  }
  if (count > kMaxListed) names += fmt::format(" and {} more", count - kMaxListed);
  return names.empty() ? "none" : names;
}

}  // namespace

std::size_t find_text_column(const std::vector<TableColumn>& columns, std::string_view name) {
  constexpr const char* kRemedy = "training.text_key, or --text-key, names the column";
  std::size_t match = columns.size();
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].name == name) match = i;
  if (match == columns.size())
    throw UnreadableTable(fmt::format("the table has no column \"{}\". Columns of text: {}; others: {}. {}",
                                      name, names_of(columns, true), names_of(columns, false), kRemedy));
  if (!columns[match].is_text)
    throw UnreadableTable(fmt::format("the column \"{}\" is {}, not text. Columns of text: {}. {}", name,
                                      columns[match].type, names_of(columns, true), kRemedy));
  return match;
}

std::string listed(const std::vector<TableColumn>& columns) {
  std::string text;
  for (std::size_t i = 0; i < std::min(columns.size(), kMaxListed); ++i)
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", columns[i].name, columns[i].type);
  if (columns.size() > kMaxListed) text += fmt::format(", and {} more", columns.size() - kMaxListed);
  return text;
}

}  // namespace rondo

extern "C" __attribute__((visibility("default"))) std::unique_ptr<rondo::TextTable> rondo_open_arrow_table(
    std::unique_ptr<rondo::TableFile> bytes, std::string_view text_key) {
  std::array<char, 8> head{};
  bytes->read_some_at(0, std::as_writable_bytes(std::span(head)));
  const std::string_view start(head.data(), head.size());
  auto file = std::make_shared<rondo::ArrowFile>(std::move(bytes));
  const bool is_stream = start.starts_with("\xff\xff\xff\xff");
  try {
    if (is_stream || start.starts_with("ARROW1")) return rondo::open_arrow_ipc(file, text_key, is_stream);
    return rondo::open_parquet(file, text_key);
  } catch (const rondo::UnreadableTable&) {
    throw;
  } catch (const std::exception&) {
    file->rethrow();
    throw;
  }
}
