#pragma once
// Members of a ZIP archive whose members are stored, not compressed, as torch writes them: nothing is unpacked, so
// nothing can grow. Source: PKWARE APPNOTE 6.3.10 (end record, central directory, zip64).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

struct ZipMember {
  std::string_view name;
  std::span<const std::byte> data;
  uint32_t checksum;  ///< from the directory; not verified against the data
};

/// CRC-32, of which a ZIP archive keeps one for each member.
uint32_t zip_checksum(std::span<const std::byte> data);

bool looks_like_zip(std::span<const std::byte> file);

/// In the order of the central directory; names and data are views of `file`. Throws Error::data: truncated, members
/// outside the file, compressed or encrypted ones, two of a name.
std::vector<ZipMember> read_zip(std::span<const std::byte> file, std::string_view where);

}  // namespace trireme
