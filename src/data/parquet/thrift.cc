#include "data/parquet/thrift.h"

#include "base/error.h"

namespace trireme {
namespace {

constexpr int kMostDepth = 32;

int64_t unzigzag(uint64_t value) { return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1); }

}  // namespace

void ThriftReader::refuse(const char* what) const {
  fail(ErrorKind::data, "{} is not a Parquet file or is damaged: {} in a header", where_, what);
}

uint8_t ThriftReader::byte() {
  if (at_ >= bytes_.size()) refuse("an unexpected end");
  return static_cast<uint8_t>(bytes_[at_++]);
}

uint64_t ThriftReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const uint8_t next = byte();
    value |= static_cast<uint64_t>(next & 0x7F) << shift;
    if (next < 0x80) return value;
  }
  refuse("a number of more than 64 bits");
}

void ThriftReader::structure(const std::function<bool(int, Type)>& field) {
  if (++depth_ > kMostDepth) refuse("nesting that is too deep");
  int64_t id = 0;
  while (true) {
    const uint8_t head = byte();
    const auto type = static_cast<Type>(head & 0xF);
    if (type == Type::stop) break;
    if (type > Type::structure) refuse("an unknown type");
    const unsigned step = head >> 4;
    id = step != 0 ? id + step : unzigzag(varint());
    if (id < 0 || id > INT16_MAX) refuse("a field that does not exist");
    if (!field(static_cast<int>(id), type)) skip(type);
  }
  --depth_;
}

void ThriftReader::list(size_t most, const std::function<void(Type)>& element) {
  if (++depth_ > kMostDepth) refuse("nesting that is too deep");
  const uint8_t head = byte();
  const auto type = static_cast<Type>(head & 0xF);
  const uint64_t count = (head >> 4) == 15 ? varint() : head >> 4;
  if (count > most || count > bytes_.size() - at_) refuse("a list that is too long");
  for (uint64_t i = 0; i < count; ++i) element(type);
  --depth_;
}

int64_t ThriftReader::integer(Type type) {
  if (type == Type::i8) return static_cast<int8_t>(byte());
  if (type != Type::i16 && type != Type::i32 && type != Type::i64) refuse("a wrong type, expected a number");
  return unzigzag(varint());
}

std::string_view ThriftReader::binary(Type type) {
  if (type != Type::binary) refuse("a wrong type, expected a string");
  const uint64_t size = varint();
  if (size > bytes_.size() - at_) refuse("an unexpected end");
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
  at_ += size;
  return text;
}

void ThriftReader::skip(Type type) {
  switch (type) {
    case Type::stop:
      refuse("an unexpected end");
    case Type::yes:
    case Type::no:
      return;
    case Type::i8:
      byte();
      return;
    case Type::i16:
    case Type::i32:
    case Type::i64:
      varint();
      return;
    case Type::f64:
      for (int i = 0; i < 8; ++i) byte();
      return;
    case Type::binary:
      binary(type);
      return;
    case Type::list:
    case Type::set:
      return list(bytes_.size(), [&](Type element) {
        if (element == Type::yes || element == Type::no) {
          byte();  // in lists a boolean value has its own byte
        } else {
          skip(element);
        }
      });
    case Type::map:
      refuse("a map, which Parquet does not use,");
    case Type::structure:
      return structure([](int, Type) { return false; });
  }
}

}  // namespace trireme
