// Adapts a TableFile to Arrow, and holds the errors and columns that both readers of
// librondo_arrow.so use.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/status.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tables/text_table.h"

namespace rondo {

// The memory of a table. A damaged length must not take all of the machine's: an allocation has at
// most 192 MiB, or 1024 times the file's size, which compressed text hardly exceeds.
class TablePool final : public arrow::ProxyMemoryPool {
 public:
  explicit TablePool(std::int64_t file_bytes)
      : ProxyMemoryPool(arrow::system_memory_pool()),
        most_(std::max<std::int64_t>(std::int64_t{192} << 20, file_bytes * 1024)) {}
  using MemoryPool::Allocate;
  using MemoryPool::Reallocate;
  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
    ARROW_RETURN_NOT_OK(check_size(size));
    return ProxyMemoryPool::Allocate(size, alignment, out);
  }
  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** out) override {
    ARROW_RETURN_NOT_OK(check_size(new_size));
    return ProxyMemoryPool::Reallocate(old_size, new_size, alignment, out);
  }

 private:
  arrow::Status check_size(std::int64_t size) const {
    if (size <= most_) return arrow::Status::OK();
    return arrow::Status::OutOfMemory("a length of ", size, " bytes is too large for the file");
  }
  const std::int64_t most_;
};

// Reads in the calling thread: Arrow's default would start a pool of threads for ReadAsync.
class ArrowFile final : public arrow::io::RandomAccessFile {
 public:
  explicit ArrowFile(std::unique_ptr<TableFile> file) : file_(std::move(file)), pool_(file_->size()) {}

  // Returns the pool for memory of the file's contents. This object must outlive that memory.
  arrow::MemoryPool* pool() { return &pool_; }
  arrow::Status Close() override;
  bool closed() const override { return closed_; }
  arrow::Result<std::int64_t> Tell() const override { return position_; }
  arrow::Status Seek(std::int64_t position) override;
  arrow::Result<std::int64_t> GetSize() override { return file_->size(); }
  arrow::Result<std::int64_t> Read(std::int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t bytes) override;
  arrow::Future<std::shared_ptr<arrow::Buffer>> ReadAsync(const arrow::io::IOContext&, std::int64_t position,
                                                          std::int64_t bytes, bool allow_short_read) override;
  arrow::Future<std::shared_ptr<arrow::Buffer>> ReadAsync(const arrow::io::IOContext&, std::int64_t position,
                                                          std::int64_t bytes) override;

  // Throws what TableFile threw, if it did: Arrow passes on a Status.
  void rethrow() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  std::unique_ptr<TableFile> file_;
  TablePool pool_;
  std::int64_t position_ = 0;
  bool closed_ = false;
  std::exception_ptr failure_;
};

// Throws std::runtime_error with Arrow's message.
void check(const arrow::Status& status);
template <class T>
T checked(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

struct TableColumn {
  std::string name, type;
  bool is_text = false;
};

// Returns the index of the last column `name`. Throws UnreadableTable when there is none, naming
// those of text first, or when it is not text.
std::size_t find_text_column(const std::vector<TableColumn>& columns, std::string_view name);
// Returns "text: string, id: int64".
std::string listed(const std::vector<TableColumn>& columns);

std::unique_ptr<TextTable> open_parquet(std::shared_ptr<ArrowFile> file, std::string_view text_key);
// `is_stream`: without the footer of a file.
std::unique_ptr<TextTable> open_arrow_ipc(std::shared_ptr<ArrowFile> file, std::string_view text_key,
                                          bool is_stream);

}  // namespace rondo
