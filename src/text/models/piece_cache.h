#pragma once
// A cache from pieces to their ids, private to one thread. Text repeats: in English nine of ten pieces are among the
// first thousands, so one probe replaces all merging. Fixed size; new pieces replace those that were seen once. A found
// piece moves to the front of its line, where nearly all later lookups find it, as the processor then predicts.

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "text/models/zero_table.h"
#include "text/tokenizer.h"

namespace trireme {

class PieceCache {
 public:
  PieceCache();

  /// The place of a piece, computed ahead, so that its memory is prefetched when find() needs it.
  struct Place {
    uint64_t low, high;  // the bytes of a piece of up to 16, padded with zeros
    uint64_t hash;       // of these
  };
  /// `readable`: bytes that may be read from piece.data() on, at least piece.size(); 16 or more are faster.
  Place place(std::string_view piece, size_t readable) const;
  void prefetch(const Place& place) const { __builtin_prefetch(&lines_[line_of(place.hash)]); }

  /// Writes the ids of a cached short piece to out[0..kInlineIds) and returns their number; 0: try find_more().
  size_t find(std::string_view piece, const Place& place, TokenId* out);
  /// Ids of a piece that is too long, or has too many ids, for find(); empty: not cached. Valid until the next
  /// insert().
  std::span<const TokenId> find_more(std::string_view piece, const Place& place) const;
  /// Both together: appends the ids of a cached piece to `out` and returns true.
  bool append(std::string_view piece, std::vector<TokenId>& out);

  /// Caches the ids of a piece, unless it has more than kLongestPiece bytes.
  void insert(std::string_view piece, std::span<const TokenId> ids);

  static constexpr size_t kLongestPiece = 255;
  static constexpr size_t kInlineIds = 3;  // ids of a piece stored in the table itself

 private:
  // Pieces of up to 16 bytes are stored in the table itself, two per cache line, with up to 3 ids.
  static constexpr size_t kInlineBytes = 16;
  static constexpr int kFewBits = 11, kManyBits = 17, kLongBits = 14;
  static constexpr size_t kPoolWords = size_t{1} << 20;  // 4 MiB of long pieces and their ids

  struct ShortEntry {
    uint64_t low, high;
    TokenId ids[kInlineIds];  // if more: their start in pool_, their number and pools_
    uint16_t bytes, count;    // bytes 0: free; count 0: the ids are in pool_
    bool is(std::string_view piece, const Place& place) const {
      return ((low ^ place.low) | (high ^ place.high) | (bytes ^ piece.size())) == 0;
    }
  };
  struct alignas(64) Line {
    ShortEntry entries[2];
  };
  struct LongEntry {
    uint64_t hash;
    uint32_t offset;  // in pool_: the bytes, padded to words, then the ids
    uint16_t bytes;   // 0: free
    uint16_t count;
  };
  struct alignas(64) LongLine {
    LongEntry entries[4];  // the newest first
  };

  void insert_short(std::string_view piece, std::span<const TokenId> ids);
  void insert_long(std::string_view piece, std::span<const TokenId> ids);
  std::span<const TokenId> find_long(std::string_view piece) const;
  void make_room(size_t words);
  void grow();
  static uint64_t hash_of(uint64_t low, uint64_t high) {
    __extension__ using u128 = unsigned __int128;
    const u128 product = static_cast<u128>(low ^ 0x9E3779B97F4A7C15) * (high ^ 0xD6E8FEB86659FD93);
    return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  }
  size_t line_of(uint64_t hash) const { return hash >> line_shift_; }

  // Starts small, because most caches see few pieces, and grows once to its full size.
  ZeroTable<Line> lines_{size_t{1} << kFewBits, TablePages::small};
  int line_shift_ = 64 - kFewBits;
  size_t inserted_ = 0;
  ZeroTable<LongLine> long_{size_t{1} << kLongBits, TablePages::small};
  std::vector<uint32_t> pool_;
  uint32_t pools_ = 0;  // number of times that pool_ was restarted
};

inline PieceCache::Place PieceCache::place(std::string_view piece, size_t readable) const {
  static constexpr auto kMasks = [] {  // [length] keeps the first bytes of 16
    std::array<std::array<uint64_t, 2>, kInlineBytes + 1> masks{};
    for (size_t n = 0; n <= kInlineBytes; ++n) {
      for (size_t byte = 0; byte < n; ++byte) masks[n][byte / 8] |= uint64_t{0xFF} << (byte % 8 * 8);
    }
    return masks;
  }();
  Place place{0, 0, 0};
  if (piece.size() > kInlineBytes) return place;
  uint64_t words[2] = {0, 0};
  if (readable >= kInlineBytes)
    std::memcpy(words, piece.data(), kInlineBytes);
  else
    std::memcpy(words, piece.data(), piece.size());
  place.low = words[0] & kMasks[piece.size()][0];
  place.high = words[1] & kMasks[piece.size()][1];
  place.hash = hash_of(place.low, place.high);
  return place;
}

inline size_t PieceCache::find(std::string_view piece, const Place& place, TokenId* out) {
  if (piece.size() > kInlineBytes) return 0;
  auto& [front, back] = lines_[line_of(place.hash)].entries;
  if (!front.is(piece, place)) {
    if (!back.is(piece, place)) return 0;
    std::swap(front, back);
  }
  std::memcpy(out, front.ids, sizeof front.ids);
  return front.count;
}

}  // namespace trireme
