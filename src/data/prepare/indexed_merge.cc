#include "data/prepare/indexed_merge.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "data/indexed_dataset.h"
#include "data/sidecar.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCopyBytes = size_t{4} << 20;

void append_layout(const IndexedDataset& dataset, IndexedLayout& layout) {
  const auto before = static_cast<int64_t>(layout.lengths.size());
  layout.lengths.insert(layout.lengths.end(), dataset.lengths().begin(), dataset.lengths().end());
  for (const int64_t border : dataset.document_index().subspan(1)) layout.documents.push_back(before + border);
}

/// The tokenizers of two datasets must be equal if both are known.
void join_tokenizers(const IndexedDataset& dataset, TokenSidecar& sidecar, bool& known) {
  if (!dataset.sidecar()) {
    known = false;
    return;
  }
  const TokenSidecar& other = *dataset.sidecar();
  require(sidecar.tokenizer_hash.empty() || sidecar.tokenizer_hash == other.tokenizer_hash, ErrorKind::data,
          "{} was prepared with another tokenizer (hash {}) than the datasets before it (hash {})", dataset.path(),
          other.tokenizer_hash, sidecar.tokenizer_hash);
  sidecar.tokenizer_hash = other.tokenizer_hash;
  sidecar.vocabulary = std::max(sidecar.vocabulary, other.vocabulary);
}

}  // namespace

MergeReport merge_indexed(const std::vector<std::string>& inputs, const std::string& prefix) {
  require(inputs.size() > 1, ErrorKind::usage, "{} dataset given; merging needs at least two", inputs.size());
  if (const fs::path folder = fs::path(prefix).parent_path(); !folder.empty()) fs::create_directories(folder);
  IndexedLayout layout;
  TokenSidecar sidecar;
  bool tokenizer_known = true;
  BlockHasher hasher;
  AtomicFile bin(prefix + ".bin");
  for (size_t i = 0; i < inputs.size(); ++i) {
    require(fs::weakly_canonical(inputs[i]) != fs::weakly_canonical(prefix), ErrorKind::usage,
            "{} is both an input and the output", prefix);
    const IndexedDataset dataset(inputs[i]);
    if (i == 0) layout.type = dataset.type();
    require(dataset.type() == layout.type, ErrorKind::data,
            "{} has ids of {} bytes, but the datasets before it have {}; prepare them with the same tokenizer",
            dataset.path(), width_of(dataset.type()), width_of(layout.type));
    append_layout(dataset, layout);
    join_tokenizers(dataset, sidecar, tokenizer_known);
    sidecar.tokens += dataset.tokens();
    for (auto bytes = dataset.bytes(); !bytes.empty(); bytes = bytes.subspan(std::min(kCopyBytes, bytes.size()))) {
      const auto part = bytes.first(std::min(kCopyBytes, bytes.size()));
      bin.write(part);
      hasher.append(part);
    }
  }
  sidecar.documents = layout.documents.size() - 1;
  sidecar.dtype = dtype_of(width_of(layout.type));
  sidecar.split = "all documents; they are split when they are read";
  sidecar.block_hashes = hasher.finish();
  bin.commit();
  write_index(prefix + ".idx", layout);
  if (tokenizer_known)
    write_sidecar(prefix + ".bin", sidecar);
  else
    fs::remove(sidecar_path(prefix + ".bin"));  // of an earlier file
  return {sidecar.documents, sidecar.tokens};
}

}  // namespace trireme
