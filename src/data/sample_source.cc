#include "data/sample_source.h"

#include "base/error.h"

#include "data/data_hash.h"

namespace trireme {

void WindowSource::fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens,
                        std::span<int32_t> targets) const {
  gather_windows(ids_, seed_, stream, {index, 1}, static_cast<int64_t>(tokens.size()), tokens, targets);
}

void require_ids(const std::string& path, uint64_t first, std::span<const int32_t> ids, uint64_t vocabulary) {
  for (size_t i = 0; i < ids.size() && vocabulary > 0; ++i)
    require(static_cast<uint32_t>(ids[i]) < vocabulary, ErrorKind::data,
            "{}: token {} is id {}, but the vocabulary has {} ids (0 to {}): the text was prepared with another "
            "tokenizer than the model's, or the file is damaged; --data.verify checks every id before the first step",
            path, first + i, static_cast<uint32_t>(ids[i]), vocabulary, vocabulary - 1);
}

void TokenFileSource::fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens,
                           std::span<int32_t> targets) const {
  windows_.fill(stream, index, tokens, targets);
  const uint64_t first = window_start(seed_, stream, index, dataset_.size(), tokens.size());
  require_ids(dataset_.path(), first, tokens, dataset_.vocabulary());
  require_ids(dataset_.path(), first + tokens.size(), targets.last(1), dataset_.vocabulary());
}

std::vector<SourceFile> TokenFileSource::files(const BeforeBlock& before) const {
  return {{dataset_.path(), dataset_.tokens().bytes().size(), data_hash(dataset_, before)}};
}

}  // namespace trireme
