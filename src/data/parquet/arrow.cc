// Needs the Arrow C++ library, 24 or newer; built only where it was found.
#include <arrow/array.h>
#include <arrow/chunked_array.h>
#include <arrow/io/file.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/parquet_source.h"

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

/// One row group at a time.
class ParquetSource final : public ByteSource {
 public:
  ParquetSource(const std::string& path, const std::vector<std::string>& columns) : path_(path), columns_(columns) {
    const auto file = arrow::io::ReadableFile::Open(path);
    require(file.ok(), ErrorKind::io, "cannot open {}: {}", path, file.status().ToString());
    bytes_ = static_cast<uint64_t>((*file)->GetSize().ValueOr(0));
    auto reader = parquet::arrow::OpenFile(*file, arrow::default_memory_pool());
    require(reader.ok(), ErrorKind::data, "{} is no Parquet file or is damaged: {}", path, reader.status().ToString());
    reader_ = std::move(*reader);
    std::shared_ptr<arrow::Schema> schema;
    check(reader_->GetSchema(&schema));
    for (const std::string& name : columns) {
      const int index = schema->GetFieldIndex(name);
      require(index >= 0, ErrorKind::data, "{} has no column \"{}\"; it has {}", path, name, schema->ToString());
      const auto type = schema->field(index)->type()->id();
      require(type == arrow::Type::STRING || type == arrow::Type::LARGE_STRING, ErrorKind::data,
              "{}: column \"{}\" holds {}, strings were expected", path, name,
              schema->field(index)->type()->ToString());
      indices_.push_back(index);
    }
  }

  size_t read(char* to, size_t size) override {
    while (at_ == lines_.size()) {
      if (group_ == reader_->num_row_groups()) return 0;
      read_group();
    }
    const size_t n = std::min(size, lines_.size() - at_);
    std::memcpy(to, lines_.data() + at_, n);
    at_ += n;
    return n;
  }
  uint64_t consumed() const override {
    const auto groups = static_cast<uint64_t>(std::max(reader_->num_row_groups(), 1));
    return bytes_ * static_cast<uint64_t>(group_) / groups;
  }

 private:
  void check(const arrow::Status& status) const {
    require(status.ok(), ErrorKind::data, "{} is damaged: {}", path_, status.ToString());
  }

  void read_group() {
    const auto group = reader_->ReadRowGroup(group_++, indices_);
    check(group.status());
    const std::shared_ptr<arrow::Table>& table = *group;
    lines_.clear();
    at_ = 0;
    for (int64_t row = 0; row < table->num_rows(); ++row) {
      lines_ += '{';
      for (const std::string& name : columns_) append_field(*table, name, row);
      lines_ += "}\n";
    }
  }

  void append_field(const arrow::Table& table, const std::string& name, int64_t row) {
    const auto scalar = table.GetColumnByName(name)->GetScalar(row);
    require(scalar.ok(), ErrorKind::data, "{} is damaged: {}", path_, scalar.status().ToString());
    if (!(*scalar)->is_valid) return;
    if (lines_.back() != '{') lines_ += ", ";
    append_json_string(name, lines_);
    lines_ += ": ";
    append_json_string((*scalar)->ToString(), lines_);
  }

  std::string path_;
  std::vector<std::string> columns_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> indices_;
  int group_ = 0;
  uint64_t bytes_ = 0;
  std::string lines_;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> open_parquet(const std::string& path, const std::vector<std::string>& columns) {
  return std::make_unique<ParquetSource>(path, columns);
}

}  // namespace trireme
