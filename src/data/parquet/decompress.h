#pragma once
// The compressions of Parquet's pages.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trireme {

/// Fills `to` from `from`: codec 0 none, 1 snappy, 2 gzip, 6 zstd. Throws Error::data naming `path` for other codecs,
/// and for contents of another size.
void decompress_page(int64_t codec, std::span<const std::byte> from, std::span<std::byte> to, const std::string& path);

/// Snappy's raw format; false if it is damaged or does not fill `to` exactly. Source: format_description.txt of
/// google/snappy.
bool decompress_snappy(std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace trireme
