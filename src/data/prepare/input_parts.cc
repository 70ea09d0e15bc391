#include "data/prepare/input_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "data/parquet/column.h"
#include "data/prepare/byte_source.h"

namespace trireme {
namespace {

constexpr size_t kBlock = 512;
constexpr uint64_t kLongestName = uint64_t{1}
                                  << 20;  // of a long name or a pax header; usual ones have a few hundred bytes

// Byte offsets in a header block.
constexpr size_t kName = 0, kNameSize = 100, kSize = 124, kSizeSize = 12, kChecksum = 148, kChecksumSize = 8,
                 kType = 156, kMagic = 257, kPrefix = 345, kPrefixSize = 155;

std::string text_of(const char* field, size_t size) { return std::string(field, strnlen(field, size)); }

/// Octal digits between blanks, or a big-endian number after a byte 0x80; empty for anything else.
std::optional<uint64_t> parse_number(const char* field, size_t size) {
  uint64_t value = 0;
  if (static_cast<uint8_t>(field[0]) == 0x80) {
    for (size_t i = 1; i < size; ++i) {
      if (value >> 56 != 0) return std::nullopt;
      value = value << 8 | static_cast<uint8_t>(field[i]);
    }
    return value;
  }
  std::string_view text(field, strnlen(field, size));
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty()) return 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The sum of the header's bytes, with blanks for its checksum field.
uint64_t checksum_of(const char* block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool in_field = i >= kChecksum && i < kChecksum + kChecksumSize;
    sum += in_field ? uint64_t{' '} : static_cast<uint8_t>(block[i]);
  }
  return sum;
}

/// The value of a key in the lines "LENGTH KEY=VALUE\n" of a pax header; empty if missing.
std::string pax_value(std::string_view text, std::string_view key) {
  std::string found;
  while (!text.empty()) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(end - text.data());
    if (error != std::errc() || length <= digits + 1 || length > text.size()) return found;
    const std::string_view line = text.substr(digits + 1, length - digits - 2);
    if (line.starts_with(key) && line.substr(key.size()).starts_with('=')) found = line.substr(key.size() + 1);
    text.remove_prefix(length);
  }
  return found;
}

uint64_t padding_of(uint64_t size) { return (kBlock - size % kBlock) % kBlock; }

}  // namespace

TarReader::TarReader(std::unique_ptr<ByteSource> from, std::string path)
    : from_(std::move(from)), path_(std::move(path)) {}

/// False at the end of the archive's bytes.
bool TarReader::read_block(char* block) {
  size_t have = 0;
  while (have < kBlock) {
    const size_t n = from_->read(block + have, kBlock - have);
    if (n == 0) break;
    have += n;
  }
  require(have == 0 || have == kBlock, ErrorKind::data, "{} is truncated in a header", path_);
  return have == kBlock;
}

void TarReader::read_exactly(char* to, size_t size) {
  while (size > 0) {
    const size_t n = from_->read(to, size);
    require(n > 0, ErrorKind::data, "{} is truncated in {}", path_, name_);
    to += n;
    size -= n;
  }
}

/// The content of an entry that describes the next entry.
std::string TarReader::read_body(uint64_t size) {
  require(size <= kLongestName, ErrorKind::data, "{}: a name in it declares {} bytes", path_, size);
  std::string body(size, '\0');
  read_exactly(body.data(), body.size());
  char padding[kBlock];
  read_exactly(padding, padding_of(size));
  return body;
}

void TarReader::skip_rest() {
  char buffer[kBlock * 32];
  while (left_ + padding_ > 0) {
    const uint64_t size = std::min<uint64_t>(sizeof buffer, left_ + padding_);
    read_exactly(buffer, size);
    const uint64_t of_file = std::min(left_, size);
    left_ -= of_file;
    padding_ -= size - of_file;
  }
}

bool TarReader::next() {
  skip_rest();
  std::string long_name, pax;
  char block[kBlock];
  while (read_block(block)) {
    if (std::all_of(block, block + kBlock, [](char c) { return c == 0; })) return false;
    require(checksum_of(block) == parse_number(block + kChecksum, kChecksumSize), ErrorKind::data, "{} {}", path_,
            first_ ? "is not a tar archive" : "is damaged: the checksum of a header is wrong");
    first_ = false;
    const std::optional<uint64_t> stated = parse_number(block + kSize, kSizeSize);
    require(stated.has_value(), ErrorKind::data, "{} is damaged: a header has no number for the size", path_);
    uint64_t size = *stated;
    const char type = block[kType];
    if (type == 'L' || type == 'x' || type == 'K' || type == 'g') {
      std::string body = read_body(size);
      if (type == 'L') long_name = body.c_str();
      if (type == 'x') pax = std::move(body);
      continue;
    }
    name_ = text_of(block + kName, kNameSize);
    const std::string prefix = text_of(block + kPrefix, kPrefixSize);
    // GNU's format has other fields in place of the prefix; its magic ends with a blank.
    if (!prefix.empty() && std::string_view(block + kMagic, 6) == std::string_view("ustar\0", 6))
      name_ = prefix + "/" + name_;
    if (!long_name.empty()) name_ = long_name;
    if (const std::string path = pax_value(pax, "path"); !path.empty()) name_ = path;
    if (const std::string text = pax_value(pax, "size"); !text.empty()) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
      require(error == std::errc(), ErrorKind::data, "{}: {} has a size of \"{}\"", path_, name_, text);
    }
    require(size <= uint64_t{1} << 62, ErrorKind::data, "{}: {} declares {} bytes", path_, name_, size);
    size_ = left_ = size;
    padding_ = padding_of(size);
    if (type == '0' || type == '\0' || type == '7') return true;
    if (type != '5' && type != '1' && type != '2') skip_rest();  // folders and links have no content
    left_ = padding_ = 0;
    long_name.clear();
    pax.clear();
  }
  require(!first_, ErrorKind::data, "{} is not a tar archive: it is empty", path_);
  return false;
}

size_t TarReader::read(char* to, size_t size) {
  if (left_ == 0) return 0;
  const size_t n = from_->read(to, std::min<uint64_t>(size, left_));
  require(n > 0, ErrorKind::data, "{} is truncated in {}", path_, name_);
  left_ -= n;
  return n;
}

namespace {

/// The current file of an archive's reader.
class MemberSource final : public ByteSource {
 public:
  explicit MemberSource(std::shared_ptr<TarReader> archive) : archive_(std::move(archive)) {}
  size_t read(char* to, size_t size) override { return archive_->read(to, size); }
  uint64_t consumed() const override { return archive_->consumed(); }

 private:
  std::shared_ptr<TarReader> archive_;
};

bool is_stream(InputKind kind) { return kind == InputKind::text || kind == InputKind::json_lines; }

}  // namespace

InputParts::InputParts(const std::vector<InputFile>& files, std::vector<std::string> columns, InputPlace from,
                       uint64_t most_bytes)
    : files_(files), columns_(std::move(columns)), most_bytes_(most_bytes), skip_members_(from.member) {
  for (; file_ < from.file && file_ < files_.size(); ++file_) earlier_ += files_[file_].bytes;
}

InputParts::~InputParts() = default;

void InputParts::set_part(std::string name, InputKind kind) {
  name_ = std::make_shared<const std::string>(std::move(name));
  kind_ = kind;
}

void InputParts::open_file() {
  const InputFile& file = files_[file_];
  open_ = true;
  member_ = unread_members_ = 0;
  switch (file.kind) {
    case InputKind::archive:
      archive_ = std::make_shared<TarReader>(open_source(file.path), file.path);
      return;
    case InputKind::parquet:
      source_ = open_parquet(file.path, columns_, most_bytes_);
      return set_part(file.path, InputKind::json_lines);
    case InputKind::text:
    case InputKind::json_lines:
      source_ = as_utf8(open_source(file.path), file.encoding, file.path, file.kind == InputKind::json_lines);
      return set_part(file.path, file.kind);
  }
}

void InputParts::close_file() {
  if (unread_members_ > 0)
    log::info("{}: skipped {} of its files, which are neither text nor jsonl", files_[file_].path, unread_members_);
  if (archive_ && member_ == 0 && unread_members_ == 0) log::warning("{} has no files", files_[file_].path);
  earlier_ += files_[file_].bytes;
  source_.reset();
  archive_.reset();
  open_ = false;
  skip_members_ = 0;
  ++file_;
}

bool InputParts::next_member() {
  if (source_) ++member_;  // the one before
  source_.reset();
  while (archive_->next()) {
    const std::optional<InputKind> kind = kind_of(archive_->name());
    if (!kind || !is_stream(*kind)) {
      ++unread_members_;
      continue;
    }
    if (member_ < skip_members_) {
      ++member_;
      continue;
    }
    set_part(files_[file_].path + ":" + archive_->name(), *kind);
    source_ = as_utf8(decompressed(std::make_unique<MemberSource>(archive_), archive_->name()), files_[file_].encoding,
                      *name_, *kind == InputKind::json_lines);
    return true;
  }
  return false;
}

bool InputParts::next() {
  while (file_ < files_.size()) {
    if (!open_) {
      open_file();
      if (!archive_) return true;
    } else if (!archive_) {
      close_file();
      continue;
    }
    if (next_member()) return true;
    close_file();
  }
  return false;
}

uint64_t InputParts::consumed() const {
  if (archive_) return earlier_ + archive_->consumed();
  return earlier_ + (source_ ? source_->consumed() : 0);
}

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
