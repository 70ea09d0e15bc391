#pragma once
// Files that are not compressed, read by all threads at once.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/prepare/byte_source.h"

namespace trireme {

/// Part of a file: bytes [begin, begin + bytes). The source stands at its beginning and goes on behind its end.
struct FilePart {
  ByteSource& source;
  uint64_t begin, bytes;
};

/// The sum of what `count` says of each part of the files. It is called by several threads. Throws Error::io and what
/// `count` throws.
uint64_t sum_over_parts(const std::vector<std::string>& paths, int threads,
                        const std::function<uint64_t(FilePart)>& count);

}  // namespace trireme
