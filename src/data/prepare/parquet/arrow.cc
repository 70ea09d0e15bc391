// Needs the Arrow C++ library, 24 or newer; built only where it was found.
#include <arrow/array.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "data/prepare/parquet_source.h"

namespace trireme {
namespace {

/// A JSON string without the control characters and quotes that would end it.
void append_json_string(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

constexpr int64_t kBatchRows = 256;  // documents that are decoded at a time, however large the row groups are

/// Strings of either width, as a view.
std::string_view string_at(const arrow::Array& column, int64_t row) {
  if (column.type_id() == arrow::Type::STRING) return static_cast<const arrow::StringArray&>(column).GetView(row);
  return static_cast<const arrow::LargeStringArray&>(column).GetView(row);
}

/// The rows as lines of JSON, a batch at a time.
class ParquetSource final : public ByteSource {
 public:
  ParquetSource(const std::string& path, const std::vector<std::string>& columns) : path_(path), columns_(columns) {
    const auto file = arrow::io::ReadableFile::Open(path);
    require(file.ok(), ErrorKind::io, "cannot open {}: {}", path, file.status().ToString());
    bytes_ = static_cast<uint64_t>((*file)->GetSize().ValueOr(0));
    parquet::ArrowReaderProperties properties;
    properties.set_batch_size(kBatchRows);
    properties.set_pre_buffer(false);  // it would hold whole row groups
    parquet::ReaderProperties buffered;
    buffered.enable_buffered_stream();
    parquet::arrow::FileReaderBuilder builder;
    check_open(builder.Open(*file, buffered));
    check_open(builder.properties(properties)->Build().Value(&reader_));
    std::shared_ptr<arrow::Schema> schema;
    check(reader_->GetSchema(&schema));
    std::vector<int> indices;
    for (const std::string& name : columns) indices.push_back(find_column(*schema, name));
    rows_ = static_cast<uint64_t>(reader_->parquet_reader()->metadata()->num_rows());
    std::vector<int> groups(static_cast<size_t>(reader_->num_row_groups()));
    std::iota(groups.begin(), groups.end(), 0);
    check(reader_->GetRecordBatchReader(groups, indices).Value(&batches_));
  }

  size_t read(char* to, size_t size) override {
    while (at_ == lines_.size()) {
      if (!read_batch()) return 0;
    }
    const size_t n = std::min(size, lines_.size() - at_);
    std::memcpy(to, lines_.data() + at_, n);
    at_ += n;
    return n;
  }
  uint64_t consumed() const override { return rows_ == 0 ? 0 : bytes_ * rows_read_ / rows_; }

 private:
  void check_open(const arrow::Status& status) const {
    require(status.ok(), ErrorKind::data, "{} is no Parquet file or is damaged: {}", path_, status.ToString());
  }
  void check(const arrow::Status& status) const {
    require(status.ok(), ErrorKind::data, "{} is damaged: {}", path_, status.ToString());
  }

  int find_column(const arrow::Schema& schema, const std::string& name) const {
    const int index = schema.GetFieldIndex(name);
    require(index >= 0, ErrorKind::data, "{} has no column \"{}\"; it has {}", path_, name, schema.ToString());
    const std::shared_ptr<arrow::DataType>& type = schema.field(index)->type();
    require(type->id() == arrow::Type::STRING || type->id() == arrow::Type::LARGE_STRING, ErrorKind::data,
            "{}: column \"{}\" holds {}, strings were expected", path_, name, type->ToString());
    return index;
  }

  bool read_batch() {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(batches_->ReadNext(&batch));
    if (!batch) return false;
    lines_.clear();
    at_ = 0;
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      lines_ += '{';
      for (const std::string& name : columns_) append_field(*batch->GetColumnByName(name), name, row);
      lines_ += "}\n";
    }
    rows_read_ += static_cast<uint64_t>(batch->num_rows());
    return true;
  }

  void append_field(const arrow::Array& column, const std::string& name, int64_t row) {
    if (column.IsNull(row)) return;
    if (lines_.back() != '{') lines_ += ", ";
    append_json_string(name, lines_);
    lines_ += ": ";
    append_json_string(string_at(column, row), lines_);
  }

  std::string path_;
  std::vector<std::string> columns_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  uint64_t bytes_ = 0, rows_ = 0, rows_read_ = 0;
  std::string lines_;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> open_parquet(const std::string& path, const std::vector<std::string>& columns) {
  return std::make_unique<ParquetSource>(path, columns);
}

}  // namespace trireme
