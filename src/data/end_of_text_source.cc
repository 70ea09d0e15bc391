#include "data/end_of_text_source.h"

namespace trireme {

void EndOfTextSource::fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens,
                           std::span<int32_t> targets) const {
  text_->fill(stream, index, tokens, targets);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == end_) targets[i] = -1;
  }
}

}  // namespace trireme
