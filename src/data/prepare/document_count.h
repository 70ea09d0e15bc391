#pragma once
// Counts documents before they are encoded, so that each one's output file is known at once.

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/prepare/input_files.h"

namespace trireme {

/// The number that encode_documents() will count if every line that is not blank has a document, up to `most` (0: all).
/// Empty if a file cannot be read twice, or reading costs more than copying ids: pipes, compressed files, archives,
/// Parquet. Throws Error::io, Error::stopped.
std::optional<uint64_t> expected_documents(const std::vector<InputFile>& files, uint64_t most, int threads,
                                           const std::atomic<bool>* stop = nullptr);

}  // namespace trireme
