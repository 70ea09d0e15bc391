#pragma once
// Reads uncompressed files with all threads.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/prepare/byte_source.h"

namespace trireme {

/// Part of a file: bytes [begin, begin + bytes). The source is at its beginning and continues after its end.
struct FilePart {
  ByteSource& source;
  uint64_t begin, bytes;
};

/// The sum of `count` over all parts of the files, called by several threads. Throws Error::io and exceptions of
/// `count`.
uint64_t sum_over_parts(const std::vector<std::string>& paths, int threads,
                        const std::function<uint64_t(FilePart)>& count);

}  // namespace trireme
