#include "data/npy_file.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are little-endian and written as they are");

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr size_t kAlign = 64, kPrefix = kMagic.size() + sizeof(uint16_t);

struct TypeName {
  NpyType type;
  std::string_view name;
  uint64_t bytes;
};
constexpr TypeName kTypes[] = {{NpyType::i32, "<i4", 4}, {NpyType::u32, "<u4", 4}, {NpyType::i64, "<i8", 8}};

const TypeName& entry_of(NpyType type) { return kTypes[static_cast<size_t>(type)]; }

/// The Python literal that describes the array, padded so that the data begins at a multiple of 64.
std::string header(NpyType type, uint64_t elements, uint64_t columns) {
  const std::string shape =
      columns == 0 ? fmt::format("({},)", elements) : fmt::format("({}, {})", elements / columns, columns);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", entry_of(type).name, shape);
  text.append(kAlign - (kPrefix + text.size() + 1) % kAlign, ' ');
  return text + "\n";
}

template <class T>
void write_array(const std::string& path, NpyType type, std::span<const T> values, uint64_t columns) {
  const std::string text = header(type, values.size(), columns);
  const auto length = static_cast<uint16_t>(text.size());
  AtomicFile file(path);
  file.write(kMagic);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  file.write(std::as_bytes(values));
  file.commit();
}

constexpr std::string_view kAnyMagic("\x93NUMPY", 6);

/// The description of the array, and where the data begins.
std::pair<std::string_view, size_t> description_of(std::string_view file, const std::string& path) {
  require(is_npy(file) && file.size() >= kPrefix, ErrorKind::data, "{} is not a .npy file", path);
  const int version = file[kAnyMagic.size()];
  require(version >= 1 && version <= 3, ErrorKind::data,
          "{}: unsupported version {} of the .npy format; supported: 1, 2 and 3", path, version);
  uint32_t length = 0;
  const size_t prefix = kMagic.size() + (version == 1 ? sizeof(uint16_t) : sizeof(uint32_t));
  require(file.size() >= prefix, ErrorKind::data, "{} is truncated in its header", path);
  std::memcpy(&length, file.data() + kMagic.size(), prefix - kMagic.size());
  require(file.size() - prefix >= length, ErrorKind::data, "{} is truncated in its header", path);
  return {file.substr(prefix, length), prefix + length};
}

/// The value after 'key': in the header.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& path) {
  const size_t at = header.find(fmt::format("'{}':", key));
  require(at != std::string_view::npos, ErrorKind::data, "{}: its header has no \"{}\"", path, key);
  std::string_view value = header.substr(at + key.size() + 3);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

std::vector<uint64_t> read_shape(std::string_view text, const std::string& path) {
  const size_t end = text.find(')');
  require(text.starts_with("(") && end != std::string_view::npos, ErrorKind::data, "{}: its shape is not a tuple",
          path);
  std::vector<uint64_t> shape;
  for (text = text.substr(1, end - 1); !text.empty();) {
    uint64_t dim = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    require(error == std::errc(), ErrorKind::data, "{}: its shape has \"{}\", expected a number", path, text);
    shape.push_back(dim);
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
  }
  return shape;
}

}  // namespace

void write_npy(const std::string& path, std::span<const int32_t> values, uint64_t columns) {
  write_array(path, NpyType::i32, values, columns);
}
void write_npy(const std::string& path, std::span<const uint32_t> values, uint64_t columns) {
  write_array(path, NpyType::u32, values, columns);
}
void write_npy(const std::string& path, std::span<const int64_t> values, uint64_t columns) {
  write_array(path, NpyType::i64, values, columns);
}

bool is_npy(std::string_view file) { return file.starts_with(kAnyMagic); }

NpyHeader read_npy_header(std::string_view file, const std::string& path) {
  const auto [description, data] = description_of(file, path);
  NpyHeader header;
  header.fortran = !value_of(description, "fortran_order", path).starts_with("False");
  const std::string_view type = value_of(description, "descr", path);
  header.type = type.substr(0, type.find(','));
  if (header.type.size() > 1 && header.type.front() == '\'')
    header.type = header.type.substr(1, header.type.size() - 2);
  header.shape = read_shape(value_of(description, "shape", path), path);
  header.data = data;
  return header;
}

NpyArray::NpyArray(const std::string& path) : file_(path) {
  NpyHeader header = read_npy_header(file_.text(), path);
  require(!header.fortran, ErrorKind::data, "{} is in Fortran order, expected C order", path);
  const TypeName* type = nullptr;
  for (const TypeName& known : kTypes) {
    if (header.type == known.name) type = &known;
  }
  require(type != nullptr, ErrorKind::data, "{}: unsupported elements '{}'; supported: '<i4', '<u4' and '<i8'", path,
          header.type);
  type_ = type->type;
  shape_ = std::move(header.shape);
  data_ = file_.bytes().subspan(header.data);
  size_ = 1;
  for (const uint64_t dim : shape_) {
    require(dim == 0 || size_ <= data_.size() / dim, ErrorKind::data, "{} is truncated: it has {} bytes of data", path,
            data_.size());
    size_ *= dim;
  }
  require(size_ * type->bytes == data_.size(), ErrorKind::data, "{}: {} elements of {} bytes, but {} bytes of data",
          path, size_, type->bytes, data_.size());
}

int64_t NpyArray::at(uint64_t index) const {
  const std::byte* from = data_.data() + index * entry_of(type_).bytes;
  int32_t narrow = 0;
  int64_t wide = 0;
  switch (type_) {
    case NpyType::i32:
      std::memcpy(&narrow, from, sizeof narrow);
      return narrow;
    case NpyType::u32:
      std::memcpy(&narrow, from, sizeof narrow);
      return static_cast<uint32_t>(narrow);
    case NpyType::i64:
      std::memcpy(&wide, from, sizeof wide);
      return wide;
  }
  return 0;
}

}  // namespace trireme
