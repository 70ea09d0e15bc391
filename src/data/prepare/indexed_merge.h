#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct MergeReport {
  uint64_t documents = 0, tokens = 0;
};

/// Concatenates indexed datasets: PREFIX.bin, .idx and .bin.json are the same as for preparing the joined input. Throws
/// Error::data if their ids have different types or come from different tokenizers, Error::io, Error::usage for an
/// output that is one of the inputs.
MergeReport merge_indexed(const std::vector<std::string>& inputs, const std::string& prefix);

}  // namespace trireme
