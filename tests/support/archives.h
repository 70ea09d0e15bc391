#pragma once
// Compressed files and tar archives, made in memory.

#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

inline std::string gzip(std::string text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

/// Header, content and padding of one entry of a ustar archive.
inline std::string tar_entry(const std::string& name, const std::string& content, char type) {
  std::string header(512, '\0');
  std::memcpy(header.data(), name.data(), std::min<size_t>(name.size(), 100));
  std::snprintf(header.data() + 124, 12, "%011zo", content.size());
  header[156] = type;
  std::memcpy(header.data() + 257, "ustar\00000", 8);
  std::memset(header.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  std::snprintf(header.data() + 148, 8, "%06o", sum);
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tar_of(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string out;
  for (const auto& [name, content] : files) out += tar_entry(name, content, '0');
  return out + std::string(1024, '\0');
}

}  // namespace trireme
