#pragma once
// XXH3, the checksum of every file that Trireme writes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme {

/// XXH3-64 of the bytes.
uint64_t xxh3(std::span<const std::byte> bytes);
/// Sixteen lower-case hexadecimal digits.
std::string hex64(uint64_t value);

}  // namespace trireme
