#pragma once
// Members of a ZIP archive whose members are stored, not compressed, as torch writes them: nothing is unpacked, so
// nothing can grow. Source: PKWARE APPNOTE 6.3.10 (end record, central directory, zip64).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct ZipMember {
  std::string_view name;
  std::span<const std::byte> data;
  uint32_t checksum;  ///< from the directory; zip_fault() compares it with the data
};

/// "FILE: the N bytes of NAME are damaged: ..." if the data does not have its checksum; empty if it does, or if the
/// checksum is 0, which writers leave that compute none. Reads all of the data.
std::string zip_fault(const ZipMember& member, std::string_view where);

/// CRC-32, of which a ZIP archive keeps one for each member; large data is shared among the threads.
uint32_t zip_checksum(std::span<const std::byte> data);

bool looks_like_zip(std::span<const std::byte> file);

/// In the order of the central directory; names and data are views of `file`. Throws Error::data: truncated, members
/// outside the file, compressed or encrypted ones, two of a name.
std::vector<ZipMember> read_zip(std::span<const std::byte> file, std::string_view where);

}  // namespace trireme
