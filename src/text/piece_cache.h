#pragma once
// A cache from whole pieces to their ids, private to one thread. Text repeats: in English nine pieces of ten are among
// the first thousands, so one probe here replaces all merging. Fixed size; new pieces push old ones out.

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

class PieceCache {
 public:
  PieceCache();

  /// Appends the ids of a known piece to `out` and returns true. `readable`: bytes that may be read from
  /// piece.data() on, at least piece.size(); 16 or more take the fast way.
  bool append(std::string_view piece, size_t readable, std::vector<TokenId>& out) const;
  /// Remembers the ids of a piece. Pieces over kLongestPiece bytes are not kept.
  void insert(std::string_view piece, std::span<const TokenId> ids);

  static constexpr size_t kLongestPiece = 255;

 private:
  // Pieces of up to 16 bytes and 3 ids lie in the table itself, two to a cache line.
  static constexpr size_t kInlineBytes = 16, kInlineIds = 3;
  static constexpr int kShortBits = 15, kLongBits = 14;
  static constexpr size_t kPoolWords = size_t{1} << 20;  // 4 MiB of long pieces and their ids

  struct Key {
    uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  struct ShortEntry {
    Key key;
    TokenId ids[kInlineIds] = {};
    uint8_t bytes = 0, count = 0;  // bytes 0: free
    uint16_t unused = 0;
  };
  struct alignas(64) Line {
    ShortEntry entries[2];
  };
  struct LongEntry {
    uint64_t hash = 0;
    uint32_t offset = 0;  // in pool_: the bytes, padded to words, then the ids
    uint16_t bytes = 0;   // 0: free
    uint16_t count = 0;
  };

  static Key load(std::string_view piece, size_t readable) {
    Key key;
    if (readable >= kInlineBytes) {
      std::memcpy(&key, piece.data(), kInlineBytes);
      const size_t bits = piece.size() * 8;
      if (bits <= 64) {
        key.high = 0;
        key.low &= bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
      } else {
        key.high &= bits == 128 ? UINT64_MAX : (uint64_t{1} << (bits - 64)) - 1;
      }
    } else {
      std::memcpy(&key, piece.data(), piece.size());
    }
    return key;
  }
  static size_t home(const Key& key, size_t bytes) {
    const uint64_t mixed = (key.low ^ (key.high * 0x9E3779B97F4A7C15 + bytes)) * 0xD6E8FEB86659FD93;
    return (mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15 >> (64 - kShortBits);
  }
  bool append_long(std::string_view piece, std::vector<TokenId>& out) const;
  void insert_long(std::string_view piece, std::span<const TokenId> ids);

  std::vector<Line> lines_;
  std::vector<LongEntry> long_;
  std::vector<uint32_t> pool_;
};

inline bool PieceCache::append(std::string_view piece, size_t readable, std::vector<TokenId>& out) const {
  if (piece.size() > kInlineBytes) return append_long(piece, out);
  const Key key = load(piece, readable);
  for (const ShortEntry& entry : lines_[home(key, piece.size())].entries) {
    if (entry.key == key && entry.bytes == piece.size()) {
      out.insert(out.end(), entry.ids, entry.ids + entry.count);
      return true;
    }
  }
  return append_long(piece, out);
}

}  // namespace trireme
