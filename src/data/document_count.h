#pragma once
// How many documents there are, before they are encoded: then it is known at once to which file each of them belongs.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/input_files.h"

namespace trireme {

struct DocumentCounting {
  std::string json_key = "text";
  uint64_t most_documents = 0;  ///< > 0: counts no further
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
};

/// What encode_documents() will count; it names what is wrong with lines that hold none. Nothing where a file cannot be
/// read twice, or costs more to read than ids do to copy: pipes, compressed files, archives, Parquet. Throws Error::io,
/// Error::stopped.
std::optional<uint64_t> count_documents(const std::vector<InputFile>& files, const DocumentCounting& options);

}  // namespace trireme
