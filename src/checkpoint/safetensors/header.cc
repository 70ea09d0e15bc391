// Reads the header of a safetensors file. The JSON is taken event by event (no document tree), so that memory stays
// proportional to the header, whatever it holds.

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/safetensors/safetensors.h"

namespace trireme {
namespace {

constexpr size_t kMaxHeader = 100'000'000;  // the limit of the format's own library

constexpr size_t kMaxDims = 64;  // NumPy's own; no framework has more

struct ElementType {
  std::string_view name;
  size_t bytes;
};
constexpr ElementType kElementTypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
    {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}, {"C64", 8},
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Takes the header's JSON events and fills a SafetensorsHeader; everything that the format does not allow throws.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(SafetensorsHeader& header, std::string_view where) : header_(header), where_(where) {}

  bool key(string_t& name) override {
    if (place_ == Place::root) {
      start_entry(name);
    } else if (place_ == Place::metadata) {
      key_ = name;
    } else {
      start_field(name);
    }
    return true;
  }
  bool start_object(size_t) override {
    if (place_ == Place::before) {
      place_ = Place::root;
    } else if (place_ == Place::root) {
      place_ = key_ == "__metadata__" ? Place::metadata : Place::tensor;
    } else {
      refuse("an object");
    }
    return true;
  }
  bool end_object() override {
    if (place_ == Place::tensor) end_tensor();
    place_ = place_ == Place::root ? Place::after : Place::root;
    return true;
  }
  bool start_array(size_t) override {
    if (place_ == Place::tensor && (field_ == Field::shape || field_ == Field::offsets)) {
      place_ = Place::list;
    } else {
      refuse("an array");
    }
    return true;
  }
  bool end_array() override {
    place_ = Place::tensor;
    if (field_ != Field::offsets) return true;
    if (offsets_.size() != 2) error("tensor {}: data_offsets has {} values, expected 2", key_, offsets_.size());
    return true;
  }
  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, value).second) error("__metadata__ has the key \"{}\" twice", key_);
    } else if (place_ == Place::tensor && field_ == Field::dtype) {
      entry().dtype = std::move(value);
    } else {
      refuse("a string");
    }
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::list) refuse("a number");
    if (field_ == Field::shape) {
      if (value > static_cast<number_unsigned_t>(INT64_MAX)) error("tensor {}: shape overflows: {}", key_, value);
      if (entry().shape.size() == kMaxDims) error("tensor {}: shape has more than {} sizes", key_, kMaxDims);
      entry().shape.push_back(static_cast<int64_t>(value));
    } else {
      if (offsets_.size() == 2) error("tensor {}: data_offsets has more than 2 values", key_);
      offsets_.push_back(value);
    }
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (place_ != Place::list) refuse("a number");
    error("tensor {}: {} is negative: {}", key_, field_ == Field::shape ? "a size of its shape" : "a data offset",
          value);
  }
  bool number_float(number_float_t, const string_t& written) override {
    if (place_ != Place::list) refuse("a number");
    error("tensor {}: {} is not an integer: {}", key_, field_ == Field::shape ? "a size of its shape" : "a data offset",
          written.substr(0, 40));
  }
  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool binary(binary_t&) override { refuse("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    const std::string_view reason = e.what();
    const size_t colon = reason.rfind(": ");
    error("header is not valid JSON at byte {}: {}", position,
          colon == reason.npos ? reason : reason.substr(colon + 2));
  }

 private:
  enum class Place { before, root, metadata, tensor, list, after };
  enum class Field { none, dtype, shape, offsets };

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) {
    fail(ErrorKind::data, "{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }
  /// A value of a type that is not allowed here.
  [[noreturn]] void refuse(std::string_view found) {
    if (place_ == Place::before) error("header is {}, expected a JSON object", found);
    if (place_ == Place::root) error("entry {} is {}, expected an object", key_, found);
    if (place_ == Place::metadata) error("__metadata__ value \"{}\" is {}, expected a string", key_, found);
    if (place_ == Place::list) {
      error("tensor {}: {} holds {}, expected integers", key_, field_ == Field::shape ? "shape" : "data_offsets",
            found);
    }
    error("tensor {}: {} is {}, expected {}", key_,
          field_ == Field::dtype   ? "dtype"
          : field_ == Field::shape ? "shape"
                                   : "data_offsets",
          found, field_ == Field::dtype ? "a string" : "an array of integers");
  }

  SafetensorsEntry& entry() { return header_.entries.back(); }

  void start_entry(string_t& name) {
    key_ = std::move(name);
    if (key_ != "__metadata__") {
      header_.entries.emplace_back().name = key_;
      seen_ = 0;
      offsets_.clear();
    } else if (std::exchange(metadata_seen_, true)) {
      error("header has __metadata__ twice");
    }
  }
  void start_field(const string_t& name) {
    field_ = name == "dtype"          ? Field::dtype
             : name == "shape"        ? Field::shape
             : name == "data_offsets" ? Field::offsets
                                      : Field::none;
    if (field_ == Field::none)
      error("tensor {}: unknown field \"{}\", expected dtype, shape and data_offsets", key_, name);
    const unsigned bit = 1u << static_cast<unsigned>(field_);
    if (seen_ & bit) error("tensor {}: field \"{}\" appears twice", key_, name);
    seen_ |= bit;
  }
  void end_tensor() {
    for (const auto& [field, name] :
         {std::pair{Field::dtype, "dtype"}, {Field::shape, "shape"}, {Field::offsets, "data_offsets"}}) {
      if (!(seen_ & 1u << static_cast<unsigned>(field))) error("tensor {}: field \"{}\" is missing", key_, name);
    }
    const size_t element = safetensors_element_bytes(entry().dtype);
    if (element == 0) error("tensor {}: unknown dtype \"{}\"", key_, entry().dtype);
    if (offsets_[1] < offsets_[0])
      error("tensor {}: data ends before it begins: [{}, {}]", key_, offsets_[0], offsets_[1]);
    entry().begin = offsets_[0];
    entry().end = offsets_[1];
    size_t bytes = element;
    for (int64_t size : entry().shape) {
      if (__builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes)) {
        error("tensor {}: shape overflows: [{}] of {}", key_, fmt::join(entry().shape, ", "), entry().dtype);
      }
    }
    if (bytes != entry().end - entry().begin) {
      error("tensor {}: shape [{}] of {} needs {} bytes, but its data_offsets span {}", key_,
            fmt::join(entry().shape, ", "), entry().dtype, bytes, entry().end - entry().begin);
    }
  }

  SafetensorsHeader& header_;
  std::string_view where_;
  Place place_ = Place::before;
  Field field_ = Field::none;
  std::string key_;  // of the entry, or inside __metadata__ of its value
  std::vector<size_t> offsets_;
  unsigned seen_ = 0;
  bool metadata_seen_ = false;
};

void check_utf8(std::string_view text, std::string_view where) {
  size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t code;
    const auto n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                    static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    require(n > 0, ErrorKind::data, "{}: header is not UTF-8 at byte {}", where, at);
    at += static_cast<size_t>(n);
  }
}

void index_by_name(SafetensorsHeader& header, std::string_view where) {
  const auto name = [&](size_t i) -> const std::string& { return header.entries[i].name; };
  header.by_name.resize(header.entries.size());
  std::iota(header.by_name.begin(), header.by_name.end(), size_t{0});
  std::sort(header.by_name.begin(), header.by_name.end(), [&](size_t a, size_t b) { return name(a) < name(b); });
  const auto twice = std::adjacent_find(header.by_name.begin(), header.by_name.end(),
                                        [&](size_t a, size_t b) { return name(a) == name(b); });
  require(twice == header.by_name.end(), ErrorKind::data, "{}: tensor {} appears twice in the header", where,
          twice == header.by_name.end() ? std::string() : name(*twice));
}

/// Tensors must tile [0, data_bytes).
void check_tiling(const SafetensorsHeader& header, size_t data_bytes, std::string_view where) {
  std::vector<const SafetensorsEntry*> order(header.entries.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = &header.entries[i];
  std::sort(order.begin(), order.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  size_t end = 0;
  for (const SafetensorsEntry* entry : order) {
    require(entry->begin >= end, ErrorKind::data, "{}: tensor {} begins at {} and overlaps the one that ends at {}",
            where, entry->name, entry->begin, end);
    require(entry->begin == end, ErrorKind::data, "{}: bytes {} to {} of the data belong to no tensor (hole before {})",
            where, end, entry->begin, entry->name);
    end = entry->end;
  }
  require(end <= data_bytes, ErrorKind::data, "{}: file is truncated: its tensors need {} bytes of data, but it has {}",
          where, end, data_bytes);
  require(end == data_bytes, ErrorKind::data, "{}: {} bytes after the last tensor belong to no tensor", where,
          data_bytes - end);
}

}  // namespace

void refuse_lfs_pointer(std::span<const std::byte> file, std::string_view where) {
  require(!text_of(file).starts_with("version https://git-lfs.github.com/spec/"), ErrorKind::data,
          "{}: is a Git LFS pointer, not the file itself; run `git lfs pull` in its folder", where);
}

std::string other_format(std::span<const std::byte> bytes) {
  const std::string_view file = text_of(bytes);
  const auto starts = [&](std::string_view magic) { return file.starts_with(magic); };
  if (starts("GGUF")) return "GGUF";
  if (starts("PK\x03\x04")) {
    const std::string_view first = file.substr(0, 4096);  // the name of the first member shows the format
    return first.find(".npy") != first.npos                                                ? "npz"
           : first.find("data.pkl") != first.npos || first.find("byteorder") != first.npos ? "torch pickle (.pt, .bin)"
                                                                                           : "ZIP";
  }
  if (starts("\x93NUMPY")) return "npy";
  if (starts("\x89HDF\r\n\x1a\n")) return "HDF5";
  // Pickle protocols 2 to 5 begin with 0x80 and their number.
  if (file.size() > 2 && file[0] == '\x80' && file[1] >= 2 && file[1] <= 5) return "pickle";
  // ONNX is a protobuf: field 1 (version) as a varint, then the producer's name as field 2.
  if (file.size() > 3 && file[0] == '\x08' && file[1] > 0 && file[1] < 32 && file[2] == '\x12') return "ONNX";
  return {};
}

size_t safetensors_element_bytes(std::string_view dtype) {
  for (const ElementType& type : kElementTypes) {
    if (type.name == dtype) return type.bytes;
  }
  return 0;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view where) {
  refuse_lfs_pointer(file, where);
  const std::string format = other_format(file);
  const auto recognised = [&] {
    require(
        format.empty(), ErrorKind::data,
        "{}: format {} is recognised but not supported; convert with save_pretrained(..., safe_serialization=True) of "
        "transformers or save_file() of the safetensors package",
        where, format);
  };
  if (file.size() < 8) recognised();
  require(file.size() >= 8, ErrorKind::data,
          "{}: has only {} bytes, but a safetensors file begins with 8 bytes of header length", where, file.size());
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= static_cast<uint64_t>(file[i]) << (8 * i);
  // A length can look like another format's magic by chance; it is that format's file only if no header follows.
  if (length > kMaxHeader || length > file.size() - 8 || text_of(file.subspan(8)).find_first_not_of(" \t\r\n{") == 0) {
    recognised();
  }
  require(length <= kMaxHeader, ErrorKind::data, "{}: header length {} is over the limit of {} bytes", where, length,
          kMaxHeader);
  require(length <= file.size() - 8, ErrorKind::data,
          "{}: header length {} points past the end of the file, which has {} bytes after it", where, length,
          file.size() - 8);
  const std::string_view text = text_of(file.subspan(8, length));
  check_utf8(text, where);
  require(!text.starts_with("\xEF\xBB\xBF"), ErrorKind::data, "{}: header begins with a byte order mark, expected {{",
          where);
  SafetensorsHeader header;
  header.data_offset = 8 + length;
  HeaderReader reader(header, where);
  Json::sax_parse(text.begin(), text.end(), &reader);
  index_by_name(header, where);
  check_tiling(header, file.size() - header.data_offset, where);
  return header;
}

}  // namespace trireme
