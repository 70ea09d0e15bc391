#include "data/token_dataset.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/hash.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

/// Blocks that are read at open without verify: 64 MiB of a large file, all of a small one.
constexpr uint64_t kSampledBlocks = 16;

/// Evenly spaced, the first and the last among them.
std::set<uint64_t> blocks_to_check(uint64_t blocks, bool all) {
  const uint64_t count = all ? blocks : std::min(blocks, kSampledBlocks);
  std::set<uint64_t> chosen;
  for (uint64_t i = 0; i < count; ++i) chosen.insert(count > 1 ? i * (blocks - 1) / (count - 1) : 0);
  return chosen;
}

void check_size(const std::string& path, uint64_t bytes, const std::optional<TokenSidecar>& sidecar) {
  require(bytes > 0, ErrorKind::data, "{} is empty; prepare the data again", path);
  if (sidecar) {
    const std::string beside = sidecar_path(path);
    require(sidecar->dtype == "uint16", ErrorKind::data,
            "{} says that {} holds {} elements; training reads uint16 token files", beside, path, sidecar->dtype);
    require(bytes == sidecar->tokens * sizeof(uint16_t), ErrorKind::data,
            "{} has {} bytes, but {} says {} tokens, which are {} bytes: one of them was cut or replaced; prepare the "
            "data again",
            path, bytes, beside, sidecar->tokens, sidecar->tokens * sizeof(uint16_t));
  }
  require(bytes % sizeof(uint16_t) == 0, ErrorKind::data,
          "{} has {} bytes, an odd number, but tokens have two each: it was cut, or is no token file", path, bytes);
}

void check_hash(const std::string& path, std::span<const uint16_t> tokens, const TokenSidecar& sidecar,
                uint64_t block) {
  const uint64_t found = xxh3(std::as_bytes(tokens)), expected = sidecar.block_hashes[block];
  const uint64_t offset = block * sidecar.block_bytes;
  require(found == expected, ErrorKind::data,
          "{}: bytes {} to {} have checksum {}, but {} says {}: the file was changed or damaged after it was prepared",
          path, offset, offset + tokens.size_bytes(), hex64(found), sidecar_path(path), hex64(expected));
}

uint16_t swapped(uint16_t id) { return static_cast<uint16_t>(id << 8 | id >> 8); }

void check_ids(const std::string& path, std::span<const uint16_t> tokens, uint64_t offset, uint64_t vocabulary) {
  const uint16_t largest = *std::max_element(tokens.begin(), tokens.end());
  if (largest < vocabulary) return;
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](uint16_t id) { return id >= vocabulary; });
  const bool big_endian =
      std::all_of(tokens.begin(), tokens.end(), [&](uint16_t id) { return swapped(id) < vocabulary; });
  fail(ErrorKind::data, "{}: token {} is id {}, but the vocabulary has {} ids (0 to {}): {}", path,
       offset + static_cast<uint64_t>(bad - tokens.begin()), *bad, vocabulary, vocabulary - 1,
       big_endian ? "with bytes swapped all ids would fit, so the file seems to be big-endian; write it little-endian"
                  : "the text was prepared with another tokenizer than the model's, or this is no token file");
}

}  // namespace

TokenDataset::TokenDataset(const std::string& path, uint64_t vocabulary, bool verify)
    : file_(path), sidecar_(read_sidecar(path)) {
  check_size(path, file_.bytes().size(), sidecar_);
  tokens_ = {reinterpret_cast<const uint16_t*>(file_.bytes().data()), file_.bytes().size() / sizeof(uint16_t)};
  if (sidecar_) {
    require(vocabulary == 0 || sidecar_->vocabulary <= vocabulary, ErrorKind::data,
            "{} was prepared with a vocabulary of {} ids, but the model has {}: use the model's tokenizer, or set "
            "--model.vocabulary {} for a new model",
            path, sidecar_->vocabulary, vocabulary, sidecar_->vocabulary);
    vocabulary = vocabulary == 0 ? sidecar_->vocabulary : std::min(vocabulary, sidecar_->vocabulary);
  }
  const uint64_t block_tokens = (sidecar_ ? sidecar_->block_bytes : kSidecarBlockBytes) / sizeof(uint16_t);
  for (const uint64_t block : blocks_to_check((size() - 1) / block_tokens + 1, verify)) {
    const uint64_t first = block * block_tokens;
    const auto part = tokens_.subspan(first, std::min(block_tokens, size() - first));
    if (sidecar_) check_hash(path, part, *sidecar_, block);
    if (vocabulary > 0) check_ids(path, part, first, vocabulary);
  }
}

}  // namespace trireme
