#pragma once
// gzip and zstd, told by the name: NAME.gz, NAME.zst, and of tar archives also .tgz and .tzst.

#include <memory>
#include <string>

#include "data/prepare/byte_source.h"

namespace trireme {

enum class Compression { none, gzip, zstd };
Compression compression_of(const std::string& path);

/// The name without a compression suffix, lower case: what tells the format.
std::string uncompressed_name(const std::string& path);

/// Decompresses `from` where `path` says that it is compressed. Reading throws Error::data naming `path` when the data
/// is damaged or cut off.
std::unique_ptr<ByteSource> decompressed(std::unique_ptr<ByteSource> from, const std::string& path);

}  // namespace trireme
