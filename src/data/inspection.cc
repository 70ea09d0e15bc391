#include "data/inspection.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "data/block_check.h"
#include "data/indexed_dataset.h"
#include "data/token_dataset.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

Inspection inspect_indexed(const std::string& prefix, size_t ends) {
  const IndexedDataset dataset(prefix);
  Inspection found;
  found.path = dataset.path();
  found.format = fmt::format("Megatron and NeoX indexed dataset, {} ids",
                             dataset.type() == IndexedType::u16 ? "16-bit" : "32-bit");
  found.tokens = dataset.tokens();
  found.sequences = dataset.sequences();
  found.sidecar = dataset.sidecar();
  const auto borders = dataset.document_index();
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    uint64_t length = 0;
    for (int64_t s = borders[i]; s < borders[i + 1]; ++s)
      length += static_cast<uint64_t>(dataset.lengths()[static_cast<size_t>(s)]);
    found.lengths.add(length);
  }
  for (uint64_t s = 0; s < dataset.sequences() && found.head.size() < ends; ++s) {
    const std::vector<TokenId> ids = dataset.sequence(s);
    found.head.insert(found.head.end(), ids.begin(), ids.end());
  }
  for (uint64_t s = dataset.sequences(); s-- > 0 && found.tail.size() < ends;) {
    const std::vector<TokenId> ids = dataset.sequence(s);
    found.tail.insert(found.tail.begin(), ids.begin(), ids.end());
  }
  found.head.resize(std::min(found.head.size(), ends));
  found.tail.erase(found.tail.begin(), found.tail.end() - static_cast<ptrdiff_t>(std::min(found.tail.size(), ends)));
  return found;
}

}  // namespace

void LengthHistogram::add(uint64_t length) {
  const auto bucket = static_cast<size_t>(std::bit_width(length));
  if (counts_.size() <= bucket) counts_.resize(bucket + 1);
  ++counts_[bucket];
  ++documents_;
  total_ += length;
  shortest_ = std::min(shortest_, length);
  longest_ = std::max(longest_, length);
}

double LengthHistogram::mean() const {
  return documents_ == 0 ? 0 : static_cast<double>(total_) / static_cast<double>(documents_);
}

std::string indexed_prefix(const std::string& path) {
  std::string prefix = path;
  for (const std::string_view ending : {".bin", ".idx"}) {
    if (path.ends_with(ending)) prefix = path.substr(0, path.size() - ending.size());
  }
  return fs::exists(prefix + ".idx") ? prefix : std::string();
}

std::string tokenizer_beside(const std::string& path) {
  const fs::path beside = fs::path(path).parent_path() / "tokenizer.json";
  return fs::exists(beside) ? beside.string() : std::string();
}

Inspection inspect(const std::string& path, std::optional<TokenId> end_of_text, size_t ends) {
  if (const std::string prefix = indexed_prefix(path); !prefix.empty()) return inspect_indexed(prefix, ends);
  const TokenDataset dataset(path, 0, false);
  const auto ids = dataset.tokens();
  Inspection found;
  found.path = path;
  found.format = dataset.format();
  found.tokens = ids.size();
  found.sidecar = dataset.sidecar();
  const size_t shown = std::min<size_t>(ends, ids.size());
  for (uint64_t i = 0; i < shown; ++i) {
    found.head.push_back(ids[i]);
    found.tail.push_back(ids[ids.size() - shown + i]);
  }
  if (!end_of_text) return found;
  uint64_t begin = 0;
  for (uint64_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != *end_of_text) continue;
    found.lengths.add(i + 1 - begin);
    begin = i + 1;
  }
  if (begin < ids.size() && begin > 0) found.lengths.add(ids.size() - begin);
  return found;
}

std::string verify_tokens(const std::string& path) {
  const auto describe = [](uint64_t ids, const std::optional<TokenSidecar>& sidecar) {
    return sidecar
               ? fmt::format("{} ids in {} blocks match their checksums", ids, sidecar->block_hashes.size())
               : fmt::format("{} ids; without a sidecar only the size and the form of the ids could be checked", ids);
  };
  if (const std::string prefix = indexed_prefix(path); !prefix.empty()) {
    const IndexedDataset dataset(prefix);
    dataset.check_ids(0, true);
    return describe(dataset.tokens(), dataset.sidecar());
  }
  const TokenDataset dataset(path, 0, true);
  return describe(dataset.size(), dataset.sidecar());
}

}  // namespace trireme
