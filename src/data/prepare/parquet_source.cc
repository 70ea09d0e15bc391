#include "data/prepare/parquet_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/parquet/column.h"

namespace trireme {
namespace {

constexpr size_t kBatchBytes = size_t{64} << 10;  // of lines made at a time, except for a longer one

/// Writes a JSON string and escapes control characters and quotes.
void append_json_string(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

class ParquetSource final : public ByteSource {
 public:
  ParquetSource(const std::string& path, const std::vector<std::string>& names, uint64_t most_bytes)
      : file_(path), names_(names), most_bytes_(most_bytes) {
    for (const std::string& name : names) {
      const ParquetColumnFacts* facts = file_.find(name);
      require(facts != nullptr, ErrorKind::data, "{}: column \"{}\" is missing; it has {}", path, name,
              file_.describe());
      require(
          facts->flat && facts->type == ParquetType::byte_array && facts->meaning.kind == ParquetMeaning::Kind::plain,
          ErrorKind::data, "{}: column \"{}\" has {}, expected strings", path, name,
          facts->flat ? name_of(facts->type) : "lists or structures");
      columns_.emplace_back(file_, *facts);
    }
  }

  size_t read(char* to, size_t size) override {
    if (at_ == lines_.size() && !fill()) return 0;
    const size_t n = std::min(size, lines_.size() - at_);
    std::memcpy(to, lines_.data() + at_, n);
    at_ += n;
    return n;
  }
  uint64_t consumed() const override {
    const auto rows = static_cast<uint64_t>(file_.footer.rows);
    return rows == 0 ? 0 : file_.file.bytes().size() * rows_read_ / rows;
  }

 private:
  bool fill() {
    lines_.clear();
    at_ = 0;
    while (lines_.size() < kBatchBytes && rows_read_ < static_cast<uint64_t>(file_.footer.rows)) {
      lines_ += '{';
      for (size_t i = 0; i < columns_.size(); ++i) append_field(i);
      lines_ += "}\n";
      ++rows_read_;
    }
    return !lines_.empty();
  }

  void append_field(size_t i) {
    ParquetCell cell;
    columns_[i].next(cell);
    if (!cell.text) return;
    require(
        cell.text->size() <= most_bytes_, ErrorKind::data,
        "{}, row {}: the text is longer than {:.4g} MiB, the limit of one document; raise it with --max-document MIB",
        file_.path(), rows_read_ + 1, static_cast<double>(most_bytes_) / (1 << 20));
    if (lines_.back() != '{') lines_ += ", ";
    append_json_string(names_[i], lines_);
    lines_ += ": ";
    append_json_string(*cell.text, lines_);
  }

  ParquetFile file_;
  std::vector<std::string> names_;
  std::vector<ParquetColumn> columns_;
  uint64_t most_bytes_, rows_read_ = 0;
  std::string lines_;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> open_parquet(const std::string& path, const std::vector<std::string>& columns,
                                         uint64_t most_bytes) {
  return std::make_unique<ParquetSource>(path, columns, most_bytes);
}

}  // namespace trireme
