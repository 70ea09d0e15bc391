#include "data/parquet/column.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

enum PageEncoding : int64_t { kPlain = 0, kPlainDictionary = 2, kRuns = 3, kDictionary = 8 };

const char* name_of_encoding(int64_t encoding) {
  constexpr const char* kNames[] = {
      "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
      "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
      "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
  return encoding >= 0 && encoding < 10 ? kNames[encoding] : "an unknown encoding";
}

template <class T>
T number_in(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

ParquetFile::ParquetFile(const std::string& path) : file(path), footer(read_parquet_footer(file.bytes(), path)) {}

const ParquetColumnFacts* ParquetFile::find(std::string_view name) const {
  const auto found = std::ranges::find(footer.columns, name, &ParquetColumnFacts::name);
  return found == footer.columns.end() ? nullptr : &*found;
}

std::string ParquetFile::describe() const {
  std::string text;
  for (const ParquetColumnFacts& column : footer.columns)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", column.name,
                        column.flat ? name_of(column.type) : "list or structure");
  return text.empty() ? "no columns" : text;
}

ParquetColumn::ParquetColumn(const ParquetFile& file, const ParquetColumnFacts& facts)
    : ParquetColumn(file, ParquetLeaf{facts.name, facts.type, "", facts.optional ? 1U : 0U, 0, facts.meaning}) {
  require(facts.flat, ErrorKind::data,
          "{}: column \"{}\" has lists or structures, which is unsupported; supported: strings and numbers",
          file.path(), facts.name);
}

ParquetColumn::ParquetColumn(const ParquetFile& file, ParquetLeaf leaf) : file_(file), leaf_(std::move(leaf)) {
  require(is_readable(leaf_.type, leaf_.meaning), ErrorKind::data,
          "{}: column \"{}\" has {}{}, which is unsupported; supported: strings, numbers, dates, times and decimals",
          file.path(), leaf_.name, name_of(leaf_.type),
          leaf_.meaning.kind == ParquetMeaning::Kind::other ? " with an unknown meaning" : "");
}

void ParquetColumn::damaged(const char* what) const {
  fail(ErrorKind::data, "{} is damaged: column \"{}\" has {}", file_.path(), leaf_.name, what);
}

std::span<const std::byte> ParquetColumn::cut(size_t size) {
  if (size > values_.size()) damaged("a page whose values end early");
  const auto part = values_.first(size);
  values_ = values_.subspan(size);
  return part;
}

bool ParquetColumn::open_group() {
  if (group_ == file_.footer.groups.size()) return false;
  const ParquetGroup& group = file_.footer.groups[group_++];
  const auto chunk = leaf_.path.empty() ? std::ranges::find(group.chunks, leaf_.name, &ParquetChunk::column)
                                        : std::ranges::find(group.chunks, leaf_.path, &ParquetChunk::path);
  const auto bytes = file_.file.bytes();
  if (chunk == group.chunks.end()) damaged("no values in a row group");
  if (chunk->values < group.rows || (leaf_.path.empty() && chunk->values != group.rows))
    damaged("a number of values that differs from its row group's rows");
  if (chunk->first_page < 0 || chunk->bytes < 0 || chunk->first_page > static_cast<int64_t>(bytes.size()) ||
      chunk->bytes > static_cast<int64_t>(bytes.size()) - chunk->first_page)
    damaged("pages outside the file");
  chunk_ = bytes.subspan(static_cast<size_t>(chunk->first_page), static_cast<size_t>(chunk->bytes));
  codec_ = chunk->codec;
  group_values_ = chunk->values;
  page_values_ = 0;
  dictionary_.clear();
  return true;
}

std::span<const std::byte> ParquetColumn::unpack(const ParquetPage& page, std::span<const std::byte> bytes) {
  // Levels of the second version come first and are never compressed.
  const auto levels = static_cast<size_t>(page.definition_bytes + page.repetition_bytes);
  const int64_t codec = page.kind == ParquetPage::Kind::data_v2 && !page.compressed ? 0 : codec_;
  if (codec == 0 && page.bytes == page.compressed_bytes) return bytes;  // in the file itself
  std::vector<std::byte>& to = page.kind == ParquetPage::Kind::dictionary ? dictionary_page_ : page_;
  to.resize(static_cast<size_t>(page.bytes));
  std::copy_n(bytes.begin(), levels, to.begin());
  decompress_page(codec, bytes.subspan(levels), std::span(to).subspan(levels), file_.path());
  return to;
}

void ParquetColumn::open_page() {
  const ParquetPage page = read_page_header(chunk_, file_.path());
  const auto bytes = chunk_.subspan(page.header_bytes, static_cast<size_t>(page.compressed_bytes));
  chunk_ = chunk_.subspan(page.header_bytes + bytes.size());
  consumed_ += page.header_bytes + bytes.size();
  if (page.has_checksum &&
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())) != page.checksum)
    damaged("a page with a wrong checksum");
  if (page.kind == ParquetPage::Kind::index) return;
  const auto contents = unpack(page, bytes);
  if (page.kind == ParquetPage::Kind::dictionary) {
    if (page.encoding != kPlain && page.encoding != kPlainDictionary) damaged("a dictionary that is not plain");
    return read_dictionary(contents, page.values);
  }
  if (page.values > group_values_) damaged("more values than its row group has rows");
  page_values_ = page.values;
  values_ = contents;
  const auto levels = [&](uint32_t most, int64_t size) {
    const auto width = static_cast<unsigned>(std::bit_width(most));
    if (page.kind == ParquetPage::Kind::data_v2) return HybridReader(cut(static_cast<size_t>(size)), width);
    return most == 0 ? HybridReader() : HybridReader(cut(number_in<uint32_t>(cut(4))), width);
  };
  if (leaf_.repetition == 0 && page.repetition_bytes != 0) damaged("levels of a list");
  repetitions_ = levels(leaf_.repetition, page.repetition_bytes);
  definitions_ = levels(leaf_.definition, page.definition_bytes);
  begin_values(page.encoding);
}

void ParquetColumn::begin_values(int64_t encoding) {
  in_dictionary_ = encoding == kPlainDictionary || encoding == kDictionary;
  packed_truth_ = leaf_.type == ParquetType::boolean;
  if (in_dictionary_) {
    if (values_.empty()) {  // nulls only
      places_ = {};
      return;
    }
    const auto width = std::to_integer<unsigned>(cut(1)[0]);
    if (width > 32) damaged("indices of more than 32 bits");
    places_ = HybridReader(values_, width);
    if (leaf_.type == ParquetType::byte_array) count_repeated();
  } else if (packed_truth_ && encoding == kRuns) {
    places_ = HybridReader(cut(number_in<uint32_t>(cut(4))), 1);
  } else {
    require(encoding == kPlain, ErrorKind::data,
            "{}: column \"{}\" has the unsupported encoding {}; supported: plain values and dictionaries; write the "
            "file again with them (pyarrow's defaults), or as jsonl",
            file_.path(), leaf_.name, name_of_encoding(encoding));
    if (packed_truth_) places_ = HybridReader::packed(values_, 1, static_cast<uint64_t>(page_values_));
  }
}

/// A few bytes can repeat a long text billions of times. The sizes of the page's texts are added up before the first of
/// them is used, so that nothing of such a file is copied.
void ParquetColumn::count_repeated() {
  constexpr uint64_t kLarge = uint64_t{1} << 20;  // writers do not put longer texts into dictionaries
  constexpr uint64_t kMost = uint64_t{1} << 30;
  HybridReader places = places_;
  uint32_t place = 0;
  for (int64_t i = 0; i < page_values_ && places.next(place); ++i) {
    const size_t size = place < dictionary_.size() && dictionary_[place].text ? dictionary_[place].text->size() : 0;
    repeated_ += size;
    if (size >= kLarge) repeated_large_ += size;
  }
  const uint64_t bytes = file_.file.bytes().size();
  require(
      repeated_ <= kMost + 256 * bytes && repeated_large_ <= kMost + 8 * bytes, ErrorKind::data,
      "{}: column \"{}\" repeats the texts of its dictionary until they are more than {} bytes, but the file has {}; "
      "such a file is damaged or made to exhaust memory",
      file_.path(), leaf_.name, repeated_, bytes);
}

void ParquetColumn::read_dictionary(std::span<const std::byte> bytes, int64_t values) {
  values_ = bytes;
  dictionary_.clear();
  for (int64_t i = 0; i < values; ++i) dictionary_.push_back(plain());
}

ParquetCell ParquetColumn::plain() {
  ParquetCell cell;
  switch (leaf_.type) {
    case ParquetType::int32:
    case ParquetType::int64: {
      const int64_t whole = leaf_.type == ParquetType::int32 ? number_in<int32_t>(cut(4)) : number_in<int64_t>(cut(8));
      cell = {.text = {},
              .number = static_cast<double>(whole),
              .exact = ParquetCell::Exact::integer,
              .bits = static_cast<uint64_t>(whole)};
      break;
    }
    case ParquetType::int96:
    case ParquetType::fixed: {
      const auto bytes = cut(leaf_.type == ParquetType::int96 ? 12 : static_cast<size_t>(leaf_.meaning.length));
      cell.text = std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      break;
    }
    case ParquetType::f32:
      cell.number = number_in<float>(cut(4));
      break;
    case ParquetType::f64:
      cell.number = number_in<double>(cut(8));
      break;
    case ParquetType::byte_array: {
      const auto text = cut(number_in<uint32_t>(cut(4)));
      cell.text = std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
      break;
    }
    default:
      damaged("values of an unsupported type");
  }
  return cell;
}

ParquetCell ParquetColumn::value() {
  if (!in_dictionary_ && !packed_truth_) return plain();
  uint32_t place = 0;
  if (!places_.next(place)) damaged("a page whose values end early");
  if (!in_dictionary_) return {.text = {}, .number = place, .exact = ParquetCell::Exact::truth, .bits = place};
  if (place >= dictionary_.size()) damaged("an index outside its dictionary");
  return dictionary_[place];
}

/// The stored value as what it means.
ParquetCell ParquetColumn::meant(ParquetCell cell) {
  using Kind = ParquetMeaning::Kind;
  const Kind kind = leaf_.meaning.kind;
  if (kind == Kind::plain && leaf_.type != ParquetType::int96) return cell;
  if (kind == Kind::natural) {
    if (leaf_.type == ParquetType::int32) cell.bits = static_cast<uint32_t>(cell.bits);
    cell.exact = ParquetCell::Exact::natural;
    cell.number = static_cast<double>(cell.bits);
    return cell;
  }
  const auto bytes = std::as_bytes(std::span(cell.text.value_or(std::string_view())));
  std::optional<std::string> text = leaf_.type == ParquetType::int96 ? parquet_julian(bytes)
                                    : cell.text                      ? parquet_decimal(bytes, leaf_.meaning.digits)
                                                : parquet_text(leaf_.meaning, static_cast<int64_t>(cell.bits));
  if (!text) damaged("a date, time or decimal outside of what these can be (years 1 to 9999, 76 digits)");
  text_ = std::move(*text);
  return {.text = text_, .number = {}};
}

bool ParquetColumn::next(ParquetCell& cell) {
  uint32_t definition = 0, repetition = 0;
  return next(cell, definition, repetition);
}

bool ParquetColumn::next(ParquetCell& cell, uint32_t& definition, uint32_t& repetition) {
  while (group_values_ == 0) {
    if (!open_group()) return false;
  }
  while (page_values_ == 0) {
    if (chunk_.empty()) damaged("fewer values than its row group has rows");
    open_page();
  }
  --page_values_;
  --group_values_;
  definition = leaf_.definition;
  repetition = 0;
  if (leaf_.definition > 0 && !definitions_.next(definition)) damaged("a page whose levels end early");
  if (leaf_.repetition > 0 && !repetitions_.next(repetition)) damaged("a page whose levels end early");
  if (definition > leaf_.definition || repetition > leaf_.repetition) damaged("levels that are too high");
  cell = definition == leaf_.definition ? meant(value()) : ParquetCell{};
  return true;
}

namespace {

bool decompress_gzip(std::span<const std::byte> from, std::span<std::byte> to) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) return false;  // 32: gzip or zlib, by the header
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
  stream.avail_in = static_cast<uInt>(from.size());
  stream.next_out = reinterpret_cast<Bytef*>(to.data());
  stream.avail_out = static_cast<uInt>(to.size());
  const int result = inflate(&stream, Z_FINISH);
  const bool whole = result == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return whole;
}

bool decompress_zstd(std::span<const std::byte> from, std::span<std::byte> to) {
  return ZSTD_decompress(to.data(), to.size(), from.data(), from.size()) == to.size();
}

/// Little-endian number of `size` bytes at `at`; false past the end.
bool read_number(std::span<const std::byte> from, size_t& at, size_t size, uint32_t& value) {
  if (size > from.size() - at) return false;
  value = 0;
  for (size_t i = 0; i < size; ++i) value |= std::to_integer<uint32_t>(from[at + i]) << (8 * i);
  at += size;
  return true;
}

}  // namespace

bool decompress_snappy(std::span<const std::byte> from, std::span<std::byte> to) {
  size_t at = 0, out = 0;
  uint64_t size = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (at >= from.size() || shift > 28) return false;
    const auto next = std::to_integer<uint64_t>(from[at++]);
    size |= (next & 0x7F) << shift;
    if (next < 0x80) break;
  }
  if (size != to.size()) return false;
  while (at < from.size()) {
    const auto tag = std::to_integer<uint32_t>(from[at++]);
    uint32_t length = (tag >> 2) + 1, offset = 0;
    if ((tag & 3) == 0) {  // literal bytes
      if (length > 60) {
        if (!read_number(from, at, length - 60, length) || length == UINT32_MAX) return false;
        ++length;
      }
      if (length > from.size() - at || length > to.size() - out) return false;
      std::memcpy(to.data() + out, from.data() + at, length);
      at += length;
      out += length;
      continue;
    }
    if ((tag & 3) == 1) {
      length = (tag >> 2 & 7) + 4;
      if (!read_number(from, at, 1, offset)) return false;
      offset |= tag >> 5 << 8;
    } else if (!read_number(from, at, (tag & 3) == 2 ? 2 : 4, offset)) {
      return false;
    }
    if (offset == 0 || offset > out || length > to.size() - out) return false;
    for (uint32_t i = 0; i < length; ++i, ++out) to[out] = to[out - offset];  // may overlap
  }
  return out == to.size();
}

void decompress_page(int64_t codec, std::span<const std::byte> from, std::span<std::byte> to, const std::string& path) {
  bool whole = false;
  if (codec == 0) {
    whole = from.size() == to.size();
    if (whole) std::copy(from.begin(), from.end(), to.begin());
  } else if (codec == 1) {
    whole = decompress_snappy(from, to);
  } else if (codec == 2) {
    whole = decompress_gzip(from, to);
  } else if (codec == 6) {
    whole = decompress_zstd(from, to);
  } else {
    constexpr const char* kNames[] = {"none", "snappy", "gzip", "LZO", "Brotli", "LZ4", "zstd", "LZ4_RAW"};
    fail(ErrorKind::data,
         "{} uses the unsupported compression {}; supported: snappy, gzip and zstd; write it again with one of "
         "them, or as jsonl",
         path, codec >= 0 && codec < 8 ? kNames[codec] : "an unknown method");
  }
  require(whole, ErrorKind::data, "{} is damaged: a page does not decompress to the {} bytes that it declares", path,
          to.size());
}

}  // namespace trireme
