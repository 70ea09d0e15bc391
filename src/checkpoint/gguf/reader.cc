#include "checkpoint/gguf/reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/names.h"

namespace trireme {
namespace {

/// Types of metadata, by the numbers of the format.
enum : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

/// Bytes of an element; of a string at least those of its length.
size_t least_bytes(uint32_t type) {
  constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return kSizes[type];
}

constexpr uint64_t kLongestKey = 1 << 16, kMostDims = 4;
constexpr uint64_t kLargestAlignment = uint64_t{1} << 20;

/// Reads from the front; every read is checked.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, std::string_view where) : file_(file), where_(where) {}

  template <class T>
  T take(const char* what) {
    T value;
    std::memcpy(&value, bytes(sizeof value, what).data(), sizeof value);
    return value;
  }
  std::string text(const char* what) {
    const auto size = take<uint64_t>(what);
    const auto raw = bytes(size, what);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  std::span<const std::byte> bytes(uint64_t count, const char* what) {
    require(count <= left(), ErrorKind::data,
            "{}: truncated or not a GGUF file: {} needs {} bytes at {}, but {} are left", where_, what, count, at_,
            left());
    const auto found = file_.subspan(at_, static_cast<size_t>(count));
    at_ += found.size();
    return found;
  }
  uint64_t left() const { return file_.size() - at_; }
  uint64_t at() const { return at_; }

 private:
  std::span<const std::byte> file_;
  std::string_view where_;
  size_t at_ = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> file, std::string_view where) : file_(file), where_(where), cursor_(file, where) {}

  GgufHeader parse() {
    GgufHeader header;
    header.where = where_;
    const auto magic = cursor_.bytes(4, "the magic");
    require(std::memcmp(magic.data(), "GGUF", 4) == 0, ErrorKind::data,
            "{}: not a GGUF file: it does not begin with GGUF", where_);
    const auto version = cursor_.take<uint32_t>("the version");
    require(version == 2 || version == 3, ErrorKind::data, "{}: GGUF version {}{}, expected 2 or 3", where_, version,
            (version & 0xFFFF) == 0 ? " (a big-endian file)" : "");
    const uint64_t tensors = count("tensors", cursor_.take<uint64_t>("the number of tensors"), 8 + 4 + 8 + 4 + 8),
                   values = count("keys", cursor_.take<uint64_t>("the number of keys"), 8 + 4 + 1);
    for (uint64_t i = 0; i < values; ++i) read_value(header);
    for (uint64_t i = 0; i < tensors; ++i) header.tensors.push_back(read_info());
    place(header);
    return header;
  }

 private:
  /// A number of things that each take at least so many bytes of what is left.
  uint64_t count(const char* what, uint64_t number, uint64_t least) {
    require(number <= cursor_.left() / least, ErrorKind::data,
            "{}: says that it has {} {}, but only {} bytes are left, {} are the least for one", where_, number, what,
            cursor_.left(), least);
    return number;
  }

  uint32_t type(const std::string& key) {
    const auto number = cursor_.take<uint32_t>("a type");
    require(number <= kF64, ErrorKind::data, "{}: key {} has the unknown type {}", where_, key, number);
    return number;
  }

  int64_t integer(uint32_t type, const std::string& key) {
    switch (type) {
      case kU8:
        return cursor_.take<uint8_t>("a number");
      case kI8:
        return cursor_.take<int8_t>("a number");
      case kU16:
        return cursor_.take<uint16_t>("a number");
      case kI16:
        return cursor_.take<int16_t>("a number");
      case kU32:
        return cursor_.take<uint32_t>("a number");
      case kI32:
        return cursor_.take<int32_t>("a number");
      case kBool:
        return cursor_.take<uint8_t>("a flag") != 0 ? 1 : 0;
      case kI64:
        return cursor_.take<int64_t>("a number");
      default:
        break;
    }
    const auto value = cursor_.take<uint64_t>("a number");
    require(value <= uint64_t{INT64_MAX}, ErrorKind::data, "{}: key {} is {}, which is too large", where_, key, value);
    return static_cast<int64_t>(value);
  }

  double real(uint32_t type) {
    return type == kF32 ? static_cast<double>(cursor_.take<float>("a number")) : cursor_.take<double>("a number");
  }

  GgufValue array(const std::string& key) {
    const uint32_t element = type(key);
    require(element != kArray, ErrorKind::data, "{}: key {} is an array of arrays, which is not supported", where_,
            key);
    const uint64_t size = count("elements", cursor_.take<uint64_t>("the length of an array"), least_bytes(element));
    const auto fill = [&](auto values, auto read) {
      values.reserve(static_cast<size_t>(size));
      for (uint64_t i = 0; i < size; ++i) values.push_back(read());
      return GgufValue(std::move(values));
    };
    if (element == kString) return fill(std::vector<std::string>(), [&] { return cursor_.text("a string"); });
    if (element == kF32 || element == kF64) return fill(std::vector<double>(), [&] { return real(element); });
    return fill(std::vector<int64_t>(), [&] { return integer(element, key); });
  }

  void read_value(GgufHeader& header) {
    const std::string key = cursor_.text("a key");
    require(!key.empty() && key.size() < kLongestKey, ErrorKind::data, "{}: a key has {} bytes, expected 1 to {}",
            where_, key.size(), kLongestKey - 1);
    const uint32_t kind = type(key);
    GgufValue value;
    if (kind == kString)
      value = cursor_.text("a string");
    else if (kind == kArray)
      value = array(key);
    else if (kind == kF32 || kind == kF64)
      value = real(kind);
    else if (kind == kBool)
      value = integer(kind, key) != 0;
    else
      value = integer(kind, key);
    require(header.values.emplace(key, std::move(value)).second, ErrorKind::data, "{}: key {} appears twice", where_,
            key);
  }

  GgufTensor read_info() {
    GgufTensor tensor;
    tensor.name = cursor_.text("the name of a tensor");
    const auto dims = cursor_.take<uint32_t>("the dims of a tensor");
    require(dims >= 1 && dims <= kMostDims, ErrorKind::data, "{}: tensor {} has {} dims, expected 1 to {}", where_,
            tensor.name, dims, kMostDims);
    uint64_t values = 1;
    for (uint32_t d = 0; d < dims; ++d) {
      const auto size = cursor_.take<uint64_t>("a size of a tensor");
      require(size >= 1 && size <= uint64_t{INT64_MAX} / values, ErrorKind::data,
              "{}: tensor {}: a size of its shape is {}, which is 0 or too large", where_, tensor.name, size);
      values *= size;
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    const auto type = cursor_.take<uint32_t>("the type of a tensor");
    tensor.type = static_cast<BlockType>(type);
    const bool known =
        std::ranges::any_of(Names<BlockType>::kAll, [&](const auto& n) { return n.value == tensor.type; });
    std::vector<std::string_view> names;
    for (const auto& [name, value] : Names<BlockType>::kAll) names.push_back(name);
    require(known, ErrorKind::data, "{}: tensor {} has the type number {}, which is not supported; supported: {}",
            where_, tensor.name, type, fmt::join(names, ", "));
    const auto block = static_cast<int64_t>(block_size(tensor.type).values);
    require(tensor.shape.back() % block == 0, ErrorKind::data,
            "{}: tensor {}: rows of {} values are not whole blocks of {}", where_, tensor.name, tensor.shape.back(),
            block);
    tensor.begin = cursor_.take<uint64_t>("the place of a tensor");
    return tensor;
  }

  /// Checks that the tensors lie in the file, apart.
  void place(GgufHeader& header) {
    const auto alignment = static_cast<uint64_t>(header.integer("general.alignment", 32));
    require(alignment >= 1 && alignment <= kLargestAlignment && (alignment & (alignment - 1)) == 0, ErrorKind::data,
            "{}: general.alignment is {}, expected a power of two of at most {}", where_, alignment, kLargestAlignment);
    header.data_offset = (cursor_.at() + alignment - 1) / alignment * alignment;
    const uint64_t bytes = file_.size() - std::min<uint64_t>(header.data_offset, file_.size());
    std::vector<const GgufTensor*> order;
    for (const GgufTensor& tensor : header.tensors) {
      order.push_back(&tensor);
      require(tensor.begin % alignment == 0, ErrorKind::data, "{}: tensor {} begins at {}, which {} does not divide",
              where_, tensor.name, tensor.begin, alignment);
      const uint64_t blocks = tensor.values() / block_size(tensor.type).values;
      require(
          tensor.begin <= bytes && blocks <= (bytes - tensor.begin) / block_size(tensor.type).bytes, ErrorKind::data,
          "{}: truncated: tensor {} begins at {} and has {} blocks of {} bytes, but there are only {} bytes of data",
          where_, tensor.name, tensor.begin, blocks, block_size(tensor.type).bytes, bytes);
    }
    std::ranges::sort(order, {}, [](const GgufTensor* t) { return t->begin; });
    for (size_t i = 1; i < order.size(); ++i)
      require(order[i - 1]->begin + encoded_bytes(order[i - 1]->type, order[i - 1]->values()) <= order[i]->begin,
              ErrorKind::data, "{}: tensors {} and {} overlap", where_, order[i - 1]->name, order[i]->name);
    std::ranges::sort(order, {}, [](const GgufTensor* t) { return std::string_view(t->name); });
    const auto twice =
        std::ranges::adjacent_find(order, {}, [](const GgufTensor* t) { return std::string_view(t->name); });
    require(twice == order.end(), ErrorKind::data, "{}: tensor {} appears twice", where_,
            twice == order.end() ? "" : (*twice)->name);
  }

  std::span<const std::byte> file_;
  std::string where_;
  Cursor cursor_;
};

}  // namespace

template <class T>
const T* GgufHeader::get(std::string_view key, const char* expected) const {
  const auto found = values.find(key);
  if (found == values.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  require(value != nullptr, ErrorKind::data, "{}: key {} is not {}", where, key, expected);
  return value;
}

const GgufTensor* GgufHeader::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &GgufTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

template <class T>
const T& GgufHeader::need(std::string_view key, const char* expected, const std::optional<T>& otherwise) const {
  const T* value = get<T>(key, expected);
  require(value != nullptr || otherwise, ErrorKind::data, "{}: key {} is missing", where, key);
  return value ? *value : *otherwise;
}

int64_t GgufHeader::integer(std::string_view key, std::optional<int64_t> otherwise) const {
  return need(key, "an integer", otherwise);
}
double GgufHeader::number(std::string_view key, std::optional<double> otherwise) const {
  return need(key, "a number with a fraction", otherwise);
}
bool GgufHeader::flag(std::string_view key, bool otherwise) const {
  return need(key, "true or false", std::optional(otherwise));
}
const std::string& GgufHeader::text(std::string_view key) const { return need<std::string>(key, "a text", {}); }

template <class T>
const std::vector<T>* GgufHeader::array(std::string_view key) const {
  return get<std::vector<T>>(key, "an array of the expected type");
}
template const std::vector<int64_t>* GgufHeader::array(std::string_view) const;
template const std::vector<double>* GgufHeader::array(std::string_view) const;
template const std::vector<std::string>* GgufHeader::array(std::string_view) const;

GgufHeader parse_gguf(std::span<const std::byte> file, std::string_view where) { return Parser(file, where).parse(); }

std::span<const std::byte> GgufFile::bytes(const GgufTensor& tensor) const {
  return file_.bytes().subspan(header_.data_offset + tensor.begin, encoded_bytes(tensor.type, tensor.values()));
}

std::vector<float> GgufFile::read(const GgufTensor& tensor) const {
  std::vector<float> values(tensor.values());
  decode_blocks(tensor.type, bytes(tensor), values);
  return values;
}

}  // namespace trireme
