// Reads Arrow IPC one record batch at a time; of a file only the text column. Batches come in
// order, and an earlier row begins the file again: dictionaries of a stream may grow from batch to
// batch.
//
// Arrow does not check the offsets in a batch. Strings are checked as bytes, since text need not be
// UTF-8.
#include <arrow/array.h>
#include <arrow/array/array_dict.h>
#include <arrow/extension_type.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include "datasets/tables/arrow_file.h"

namespace rondo {
namespace {

std::shared_ptr<arrow::DataType> without_extension(std::shared_ptr<arrow::DataType> type) {
  while (type->id() == arrow::Type::EXTENSION)
    type = static_cast<const arrow::ExtensionType&>(*type).storage_type();
  return type;
}

// Returns the type of the bytes of a string, or nullptr for a type that is not text.
std::shared_ptr<arrow::DataType> bytes_of(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return arrow::binary();
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return arrow::large_binary();
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return arrow::binary_view();
    default:
      return nullptr;
  }
}

bool is_text(const std::shared_ptr<arrow::DataType>& column_type) {
  const auto type = without_extension(column_type);
  if (type->id() != arrow::Type::DICTIONARY) return bytes_of(*type) != nullptr;
  return bytes_of(*without_extension(static_cast<const arrow::DictionaryType&>(*type).value_type())) !=
         nullptr;
}

std::shared_ptr<arrow::Array> without_extension(std::shared_ptr<arrow::Array> array) {
  while (array->type_id() == arrow::Type::EXTENSION)
    array = static_cast<const arrow::ExtensionArray&>(*array).storage();
  return array;
}

std::shared_ptr<arrow::Array> checked_array(std::shared_ptr<arrow::Array> array) {
  check(array->ValidateFull());
  return array;
}

// Returns an array of bytes with checked offsets.
std::shared_ptr<arrow::Array> checked_bytes(const std::shared_ptr<arrow::Array>& array) {
  const auto strings = without_extension(array);
  auto data = strings->data()->Copy();
  data->type = bytes_of(*strings->type());
  return checked_array(arrow::MakeArray(data));
}

TableRow cell_of(const arrow::Array& bytes, std::int64_t row) {
  if (bytes.IsNull(row)) return {.is_null = true};
  switch (bytes.type_id()) {
    case arrow::Type::BINARY:
      return {.text = static_cast<const arrow::BinaryArray&>(bytes).GetView(row)};
    case arrow::Type::LARGE_BINARY:
      return {.text = static_cast<const arrow::LargeBinaryArray&>(bytes).GetView(row)};
    default:
      return {.text = static_cast<const arrow::BinaryViewArray&>(bytes).GetView(row)};
  }
}

// The text column of one record batch.
class Cells {
 public:
  Cells() = default;
  explicit Cells(const std::shared_ptr<arrow::Array>& column) : rows_(column->length()) {
    check(column->Validate());
    const auto array = without_extension(column);
    if (array->type_id() == arrow::Type::DICTIONARY) {
      dictionary_ = std::static_pointer_cast<arrow::DictionaryArray>(array);
      checked_array(dictionary_->indices());
      bytes_ = checked_bytes(dictionary_->dictionary());
    } else {
      bytes_ = checked_bytes(array);
    }
  }

  std::int64_t rows() const { return rows_; }
  TableRow at(std::int64_t row) const {
    if (dictionary_ == nullptr) return cell_of(*bytes_, row);
    if (dictionary_->IsNull(row)) return {.is_null = true};
    const std::int64_t index = dictionary_->GetValueIndex(row);
    if (index < 0 || index >= bytes_->length())
      throw std::runtime_error(fmt::format("index {} is outside of the dictionary", index));
    return cell_of(*bytes_, index);
  }

 private:
  std::int64_t rows_ = 0;
  std::shared_ptr<arrow::Array> bytes_;
  std::shared_ptr<arrow::DictionaryArray> dictionary_;  // of indices into bytes_, or nullptr
};

class IpcTable final : public TextTable {
 public:
  IpcTable(std::shared_ptr<ArrowFile> file, std::string_view text_key, bool is_stream)
      : file_(std::move(file)), is_stream_(is_stream) {
    options_.use_threads = false;
    options_.memory_pool = file_->pool();
    open();
    for (const auto& field : (is_stream ? stream_->schema() : batches_->schema())->fields())
      columns_.push_back({field->name(), field->type()->ToString(), is_text(field->type())});
    options_.included_fields = {static_cast<int>(find_text_column(columns_, text_key))};
    open();
  }

  std::optional<TableRow> read(std::int64_t row) override {
    try {
      if (row < first_) open();
      while (row >= first_ + cells_.rows())
        if (!next_batch()) return std::nullopt;
      return cells_.at(row - first_);
    } catch (const std::exception& error) {
      file_->rethrow();
      throw std::runtime_error(fmt::format("record batch {}: {}", next_ - 1, error.what()));
    }
  }

  Facts facts() const override {
    Facts facts = {{"columns", listed(columns_)}};
    if (!is_stream_) facts.emplace_back("batches", std::to_string(batches_->num_record_batches()));
    return facts;
  }

 private:
  void open() {
    if (is_stream_) {
      check(file_->Seek(0));
      stream_ = checked(arrow::ipc::RecordBatchStreamReader::Open(file_, options_));
    } else {
      batches_ = checked(arrow::ipc::RecordBatchFileReader::Open(file_, options_));
    }
    cells_ = Cells();
    next_ = 0;
    first_ = 0;
  }

  bool next_batch() {
    first_ += cells_.rows();
    cells_ = Cells();
    if (!is_stream_ && next_ >= batches_->num_record_batches()) return false;
    ++next_;
    std::shared_ptr<arrow::RecordBatch> batch;
    if (is_stream_) {
      check(stream_->ReadNext(&batch));
    } else {
      batch = checked(batches_->ReadRecordBatch(next_ - 1));
    }
    if (batch == nullptr) return false;
    cells_ = Cells(batch->column(0));
    return true;
  }

  std::shared_ptr<ArrowFile> file_;
  bool is_stream_;
  arrow::ipc::IpcReadOptions options_ = arrow::ipc::IpcReadOptions::Defaults();
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> stream_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> batches_;
  std::vector<TableColumn> columns_;
  Cells cells_;             // of the last batch that was read
  std::int64_t first_ = 0;  // its first row
  int next_ = 0;            // the batch behind it
};

}  // namespace

std::unique_ptr<TextTable> open_arrow_ipc(std::shared_ptr<ArrowFile> file, std::string_view text_key,
                                          bool is_stream) {
  return std::make_unique<IpcTable>(std::move(file), text_key, is_stream);
}

}  // namespace rondo
