#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace trireme {

uint64_t xxh3(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string hex64(uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace trireme
