#pragma once
// How many documents there are, before they are encoded: then it is known at once to which file each of them belongs.

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/prepare/input_files.h"

namespace trireme {

/// What encode_documents() will count where every line that is not blank holds a document, up to `most` (0: all).
/// Nothing where a file cannot be read twice, or costs more to read than ids do to copy: pipes, compressed files,
/// archives, Parquet. Throws Error::io, Error::stopped.
std::optional<uint64_t> expected_documents(const std::vector<InputFile>& files, uint64_t most, int threads,
                                           const std::atomic<bool>* stop = nullptr);

}  // namespace trireme
