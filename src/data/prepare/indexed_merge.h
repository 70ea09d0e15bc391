#pragma once
#include <string>
#include <vector>

namespace trireme {

struct MergeReport {
  uint64_t documents = 0, tokens = 0;
};

/// Joins indexed datasets, one behind the other: PREFIX.bin, .idx and .bin.json are what preparing the joined input
/// would have written. Throws Error::data when their ids are of different types or come from different tokenizers,
/// Error::io, Error::usage for an output that is one of the inputs.
MergeReport merge_indexed(const std::vector<std::string>& inputs, const std::string& prefix);

}  // namespace trireme
