#include "data/parquet/decompress.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace trireme {
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
