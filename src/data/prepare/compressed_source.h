#pragma once
// gzip and zstd, recognized by name: NAME.gz, NAME.zst, for tar archives also .tgz and .tzst. Several members or frames
// may follow each other, with zeros after the last one; zstd may have any window.

#include <memory>
#include <string>

#include "data/prepare/byte_source.h"

namespace trireme {

enum class Compression { none, gzip, zstd };
Compression compression_of(const std::string& path);

/// The name without a compression suffix, in lower case, which identifies the format.
std::string uncompressed_name(const std::string& path);

/// Decompresses `from` if `path` has a compression suffix. Reading throws Error::data naming `path` if the data is
/// damaged or truncated.
std::unique_ptr<ByteSource> decompressed(std::unique_ptr<ByteSource> from, const std::string& path);

}  // namespace trireme
