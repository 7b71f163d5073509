// Reads Parquet by columns, not by Arrow arrays: the physical type of strings of all widths, of
// bytes and of dictionaries is one, and pages stream. The memory is that of the pages in use, so a
// row group of any size is read. Definition levels mark nulls. Checksums of pages are verified
// where the file has them.
#include <arrow/util/compression.h>
#include <fmt/format.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "datasets/tables/arrow_file.h"

namespace rondo {
namespace {

constexpr std::int64_t kBatchRows = 256;
constexpr std::int64_t kReadBytes = std::int64_t{1} << 18;
constexpr const char* kEncrypted =
    "is encrypted, and keys are not read. Write the table without encryption, and name that file";

parquet::ReaderProperties reader_properties(ArrowFile& file) {
  parquet::ReaderProperties properties(file.pool());
  // An element of a list in the metadata takes a byte at least; a damaged length may say more.
  const std::int64_t most =
      std::min<std::int64_t>(checked(file.GetSize()), properties.thrift_container_size_limit());
  properties.set_thrift_container_size_limit(static_cast<std::int32_t>(most));
  properties.enable_buffered_stream();
  properties.set_buffer_size(kReadBytes);
  properties.set_page_checksum_verification(true);
  return properties;
}

bool is_text(const parquet::ColumnDescriptor& leaf) {
  if (leaf.physical_type() != parquet::Type::BYTE_ARRAY || leaf.max_repetition_level() > 0) return false;
  const auto& type = leaf.logical_type();
  return type == nullptr || type->is_none() || type->is_string() || type->is_JSON() || type->is_enum();
}

std::string type_name(const parquet::ColumnDescriptor& leaf) {
  if (leaf.max_repetition_level() > 0) return "a list";
  const auto& type = leaf.logical_type();
  return type == nullptr || type->is_none() ? parquet::TypeToString(leaf.physical_type()) : type->ToString();
}

// The fields at the top of the schema, and the leaf of each, or the first leaf of a nested one.
struct Columns {
  explicit Columns(const parquet::SchemaDescriptor& schema) {
    for (int i = 0; i < schema.num_columns(); ++i) {
      const parquet::ColumnDescriptor& leaf = *schema.Column(i);
      const auto path = leaf.path()->ToDotVector();
      const bool is_nested = path.size() > 1;
      // The leaves of a nested field follow each other.
      if (is_nested && !columns.empty() && columns.back().name == path[0] && leaf_is_nested.back()) continue;
      columns.push_back({path[0], is_nested ? "nested" : type_name(leaf), !is_nested && is_text(leaf)});
      leaves.push_back(i);
      leaf_is_nested.push_back(is_nested);
    }
  }
  std::vector<TableColumn> columns;
  std::vector<int> leaves;
  std::vector<bool> leaf_is_nested;
};

class ParquetTable final : public TextTable {
 public:
  ParquetTable(std::shared_ptr<ArrowFile> file, std::string_view text_key)
      : file_(std::move(file)),
        reader_(parquet::ParquetFileReader::Open(file_, reader_properties(*file_))),
        metadata_(reader_->metadata()),
        columns_(*metadata_->schema()),
        leaf_(columns_.leaves[find_text_column(columns_.columns, text_key)]),
        has_nulls_(metadata_->schema()->Column(leaf_)->max_definition_level() > 0) {
    for (int group = 0; group < metadata_->num_row_groups(); ++group) {
      const std::int64_t rows = metadata_->RowGroup(group)->num_rows();
      if (rows < 0 || rows > std::numeric_limits<std::int64_t>::max() - ends_.back())
        throw std::runtime_error(fmt::format("row group {} has {} rows", group, rows));
      ends_.push_back(ends_.back() + rows);
    }
  }

  std::optional<TableRow> read(std::int64_t row) override {
    if (row >= ends_.back()) return std::nullopt;
    const auto group =
        static_cast<int>(std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin()) - 1;
    try {
      if (row < batch_ || row >= batch_ + batch_rows_) read_batch(group, row);
    } catch (const std::exception& error) {
      column_.reset();  // an error ends the column reader
      file_->rethrow();
      if (metadata_->is_encryption_algorithm_set()) throw UnreadableTable(kEncrypted);
      throw std::runtime_error(
          fmt::format("row group {} of {}: {}", group, metadata_->num_row_groups(), error.what()));
    }
    return cells_[static_cast<std::size_t>(row - batch_)];
  }

  Facts facts() const override {
    std::set<std::string> codecs;
    for (int group = 0; group < metadata_->num_row_groups(); ++group)
      codecs.insert(arrow::util::Codec::GetCodecAsString(
          metadata_->RowGroup(group)->ColumnChunk(leaf_)->compression()));
    std::string compression;
    for (const std::string& codec : codecs) compression += (compression.empty() ? "" : ", ") + codec;
    return {{"columns", listed(columns_.columns)},
            {"rows", fmt::format("{} in {} row groups", ends_.back(), metadata_->num_row_groups())},
            {"compression", compression}};
  }

 private:
  // Reads the batch that begins with `row`, which is in `group`.
  void read_batch(int group, std::int64_t row) {
    const std::int64_t next = batch_ + batch_rows_;
    const auto at = static_cast<std::size_t>(group);
    batch_rows_ = 0;
    if (column_ == nullptr || group != group_ || row < next) {
      column_ = std::dynamic_pointer_cast<parquet::ByteArrayReader>(reader_->RowGroup(group)->Column(leaf_));
      if (column_ == nullptr) throw std::runtime_error("the column is not of the type in the schema");
      group_ = group;
      batch_ = ends_[at];
    } else {
      batch_ = next;
    }
    while (batch_ < row) {
      const std::int64_t skipped = column_->Skip(row - batch_);
      if (skipped <= 0) fail_short(at);
      batch_ += skipped;
    }
    std::array<parquet::ByteArray, kBatchRows> values;
    std::array<std::int16_t, kBatchRows> levels{};
    std::int64_t count = 0;
    const std::int64_t rows = column_->ReadBatch(std::min(kBatchRows, ends_[at + 1] - batch_), levels.data(),
                                                 nullptr, values.data(), &count);
    if (rows <= 0) fail_short(at);
    std::int64_t value = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto cell = static_cast<std::size_t>(i);
      const bool is_null = has_nulls_ && levels[cell] == 0;
      cells_[cell] = {.is_null = is_null};
      if (is_null) continue;
      if (value == count) throw std::runtime_error("a page has fewer values than its levels say");
      cells_[cell].text = std::string_view(values[static_cast<std::size_t>(value++)]);
    }
    batch_rows_ = rows;
  }

  [[noreturn]] void fail_short(std::size_t group) const {
    throw std::runtime_error(fmt::format("its column ends after {} of {} rows", batch_ - ends_[group],
                                         ends_[group + 1] - ends_[group]));
  }

  std::shared_ptr<ArrowFile> file_;
  std::unique_ptr<parquet::ParquetFileReader> reader_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  Columns columns_;
  int leaf_;
  bool has_nulls_;
  std::vector<std::int64_t> ends_ = {0};  // the first row of each row group, and behind the last

  std::shared_ptr<parquet::ByteArrayReader> column_;  // behind the batch, in group_
  int group_ = -1;
  std::int64_t batch_ = 0, batch_rows_ = 0;  // the rows in cells_
  std::array<TableRow, kBatchRows> cells_;   // their texts are in pages of column_
};

}  // namespace

std::unique_ptr<TextTable> open_parquet(std::shared_ptr<ArrowFile> file, std::string_view text_key) {
  constexpr std::string_view kEncryptedFooter = "PARE";
  const auto head = checked(file->ReadAt(0, std::ssize(kEncryptedFooter)));
  if (std::string_view(*head) == kEncryptedFooter) throw UnreadableTable(kEncrypted);
  return std::make_unique<ParquetTable>(std::move(file), text_key);
}

}  // namespace rondo
