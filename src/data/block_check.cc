#include "data/block_check.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "data/token_ids.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

/// Blocks read at open without verify: 64 MiB of a large file, all of a small one.
constexpr uint64_t kSampledBlocks = 16;

/// Evenly spaced, including the first and the last.
std::set<uint64_t> blocks_to_check(uint64_t blocks, bool all) {
  const uint64_t count = all ? blocks : std::min(blocks, kSampledBlocks);
  std::set<uint64_t> chosen;
  for (uint64_t i = 0; i < count; ++i) chosen.insert(count > 1 ? i * (blocks - 1) / (count - 1) : 0);
  return chosen;
}

void check_hash(const std::string& path, std::span<const std::byte> part, const TokenSidecar& sidecar, uint64_t block) {
  const uint64_t found = xxh3(part), expected = sidecar.block_hashes[block];
  const uint64_t offset = block * sidecar.block_bytes;
  require(found == expected, ErrorKind::data,
          "{}: bytes {} to {} have checksum {}, but {} has {}: the file was changed or damaged after preparation", path,
          offset, offset + part.size(), hex64(found), sidecar_path(path), hex64(expected));
}

uint16_t swapped(uint16_t id) { return static_cast<uint16_t>(id << 8 | id >> 8); }
uint32_t swapped(uint32_t id) { return __builtin_bswap32(id); }

template <class Id>
void check_ids(const std::string& path, std::span<const std::byte> part, uint64_t offset, uint64_t vocabulary) {
  const std::span<const Id> ids(reinterpret_cast<const Id*>(part.data()), part.size() / sizeof(Id));
  if (ids.empty() || *std::max_element(ids.begin(), ids.end()) < vocabulary) return;
  const auto bad = std::find_if(ids.begin(), ids.end(), [&](Id id) { return id >= vocabulary; });
  const auto outside = std::ranges::count_if(ids, [&](Id id) { return id >= vocabulary; });
  const bool big_endian = std::all_of(ids.begin(), ids.end(), [&](Id id) { return swapped(id) < vocabulary; });
  fail(ErrorKind::data,
       "{}: token {} is id {}, but the vocabulary has {} ids (0 to {}), and {} of the {} ids looked at here are "
       "outside: {}",
       path, offset / sizeof(Id) + static_cast<uint64_t>(bad - ids.begin()), *bad, vocabulary, vocabulary - 1, outside,
       ids.size(),
       big_endian ? "with bytes swapped all ids would fit, so the file seems to be big-endian; write it little-endian"
                  : "the text was prepared with another tokenizer than the model's, or this is not a token file");
}

}  // namespace

uint64_t check_blocks(const std::string& path, std::span<const std::byte> bytes,
                      const std::optional<TokenSidecar>& sidecar, const BlockCheck& check) {
  uint64_t vocabulary = check.vocabulary;
  if (sidecar) {
    require(vocabulary == 0 || sidecar->vocabulary <= vocabulary, ErrorKind::data,
            "{} was prepared with a vocabulary of {} ids, but the model has {}: use the model's tokenizer, or set "
            "--model.vocabulary {} for a new model",
            path, sidecar->vocabulary, vocabulary, sidecar->vocabulary);
    vocabulary = vocabulary == 0 ? sidecar->vocabulary : std::min(vocabulary, sidecar->vocabulary);
  }
  require(
      sidecar || check.trust || check.width > 2 || vocabulary <= kNarrowIds, ErrorKind::data,
      "{} holds 16-bit ids, up to 65535, but the model's vocabulary has {} ids: ids above 65535 would have been cut "
      "when it was written; prepare the text again with the model's tokenizer",
      path, vocabulary);
  if (vocabulary == 0 && check.width > 2) vocabulary = uint64_t{1} << 31;
  if (bytes.empty()) return 0;
  const uint64_t block_bytes = sidecar ? sidecar->block_bytes : kSidecarBlockBytes;
  const std::set<uint64_t> blocks = blocks_to_check((bytes.size() - 1) / block_bytes + 1, check.all);
  for (const uint64_t block : blocks) {
    if (check.before) check.before();
    const uint64_t first = block * block_bytes;
    const auto part = bytes.subspan(first, std::min<uint64_t>(block_bytes, bytes.size() - first));
    if (sidecar) check_hash(path, part, *sidecar, block);
    if (vocabulary == 0) continue;
    if (check.width == sizeof(uint16_t))
      check_ids<uint16_t>(path, part, first, vocabulary);
    else
      check_ids<uint32_t>(path, part, first, vocabulary);
  }
  return blocks.size();
}

}  // namespace trireme
