#include "checkpoint/gguf/file.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <filesystem>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 32;  // of files that do not name another one
/// Types of metadata.
enum : uint32_t { kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9 };

template <class T>
void put(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out += text;
}

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Gives the tensors their places and returns what is before the data.
std::string place_and_describe(const GgufMetadata& metadata, std::vector<GgufTensor>& tensors) {
  uint64_t end = 0;
  for (GgufTensor& tensor : tensors) {
    tensor.begin = end;
    end = aligned(end + encoded_bytes(tensor.type, tensor.values()));
  }
  std::string header(kMagic);
  put(header, kVersion);
  put(header, uint64_t{tensors.size()});
  put(header, uint64_t{metadata.count()});
  header += metadata.bytes();
  for (const GgufTensor& tensor : tensors) {
    put_text(header, tensor.name);
    put(header, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t d = tensor.shape.size(); d-- > 0;) put(header, static_cast<uint64_t>(tensor.shape[d]));
    put(header, static_cast<uint32_t>(tensor.type));
    put(header, tensor.begin);
  }
  header.resize(aligned(header.size()), '\0');
  return header;
}

}  // namespace

void GgufMetadata::add_key(std::string_view key, uint32_t type) {
  assert(std::ranges::find(keys_, key) == keys_.end());
  keys_.emplace_back(key);
  put_text(bytes_, key);
  put(bytes_, type);
}

void GgufMetadata::add_array(std::string_view key, uint32_t type, size_t count) {
  add_key(key, kArray);
  put(bytes_, type);
  put(bytes_, uint64_t{count});
}

void GgufMetadata::add(std::string_view key, uint32_t value) {
  add_key(key, kU32);
  put(bytes_, value);
}

void GgufMetadata::add(std::string_view key, float value) {
  add_key(key, kF32);
  put(bytes_, value);
}

void GgufMetadata::add(std::string_view key, bool value) {
  add_key(key, kBool);
  put(bytes_, uint8_t{value});
}

void GgufMetadata::add(std::string_view key, std::string_view value) {
  add_key(key, kString);
  put_text(bytes_, value);
}

void GgufMetadata::add(std::string_view key, std::span<const int32_t> values) {
  add_array(key, kI32, values.size());
  for (const int32_t value : values) put(bytes_, value);
}

void GgufMetadata::add(std::string_view key, std::span<const float> values) {
  add_array(key, kF32, values.size());
  for (const float value : values) put(bytes_, value);
}

void GgufMetadata::add(std::string_view key, const std::vector<bool>& values) {
  add_array(key, kBool, values.size());
  for (const bool value : values) put(bytes_, uint8_t{value});
}

void GgufMetadata::add(std::string_view key, std::span<const std::string> values) {
  add_array(key, kString, values.size());
  for (const std::string& value : values) put_text(bytes_, value);
}

size_t GgufTensor::values() const {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return count;
}

void require_disk_space(const std::string& folder, uint64_t bytes) {
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) != 0) return;  // what is wrong with it, the file will say
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  require(bytes <= free, ErrorKind::io, "{} has only {:.2f} GB free, but the files take {:.2f} GB; nothing was written",
          folder, static_cast<double>(free) / 1e9, static_cast<double>(bytes) / 1e9);
}

GgufWriter::GgufWriter(const std::string& path, const GgufMetadata& metadata, std::vector<GgufTensor> tensors)
    : tensors_(std::move(tensors)), header_(place_and_describe(metadata, tensors_)), file_(path) {
  file_.write(header_);
}

void GgufWriter::write(size_t tensor, std::span<const float> values) {
  const GgufTensor& info = tensors_[tensor];
  assert(values.size() == info.values());
  constexpr size_t kPart = size_t{1} << 22;  // values that are encoded before they are written: a multiple of a block
  size_t at = header_.size() + info.begin;
  while (!values.empty()) {
    const auto part = values.first(std::min(values.size(), kPart));
    blocks_.resize(encoded_bytes(info.type, part.size()));
    encode_blocks(info.type, part, blocks_);
    file_.write_at(at, blocks_);
    at += blocks_.size();
    values = values.subspan(part.size());
  }
  const std::byte padding[kAlignment] = {};
  file_.write_at(at, std::span(padding).first(aligned(at) - at));
  ++written_;
}

void GgufWriter::commit() {
  assert(written_ == tensors_.size());
  file_.commit();
}

}  // namespace trireme
