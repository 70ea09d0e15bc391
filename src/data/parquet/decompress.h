#pragma once
// The compressions of Parquet's pages.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme {

/// Fills all of `to` from `from`: codec 0 none, 1 snappy, 2 gzip, 6 zstd. Throws Error::data naming `path` for others
/// by their names, and where the contents have another size.
void decompress_page(int64_t codec, std::span<const std::byte> from, std::span<std::byte> to, const std::string& path);

/// Snappy's raw format; false where it is damaged or does not give `to` exactly. Source: format_description.txt of
/// google/snappy.
bool decompress_snappy(std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace trireme
