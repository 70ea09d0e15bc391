#include "data/sample_source.h"

#include "data/data_hash.h"

namespace trireme {

void WindowSource::fill(Stream stream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  gather_windows(ids_, seed_, stream, {index, 1}, static_cast<int64_t>(tokens.size()), tokens, targets);
}

std::vector<SourceFile> TokenFileSource::files(const BeforeBlock& before) const {
  return {{dataset_.path(), dataset_.size() * sizeof(uint16_t), data_hash(dataset_, before)}};
}

}  // namespace trireme
