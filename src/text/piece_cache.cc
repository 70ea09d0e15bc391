#include "text/piece_cache.h"

#include <algorithm>

#include "base/hash.h"

namespace trireme {
namespace {

uint64_t hash_of(std::string_view piece) { return xxh3(std::as_bytes(std::span(piece.data(), piece.size()))); }

size_t words_of(size_t bytes) { return (bytes + 3) / 4; }

}  // namespace

PieceCache::PieceCache() : lines_(size_t{1} << kShortBits), long_(size_t{1} << kLongBits) { pool_.reserve(kPoolWords); }

void PieceCache::insert(std::string_view piece, std::span<const TokenId> ids) {
  if (piece.empty() || ids.empty() || piece.size() > kLongestPiece) return;
  if (piece.size() > kInlineBytes || ids.size() > kInlineIds) return insert_long(piece, ids);
  const Place where = place(piece, piece.size());
  Line& line = lines_[where.line];
  if (line.entries[0].bytes != 0) line.entries[1] = line.entries[0];
  ShortEntry& entry = line.entries[0];
  entry.low = where.low;
  entry.high = where.high;
  entry.bytes = static_cast<uint16_t>(piece.size());
  entry.count = static_cast<uint16_t>(ids.size());
  std::copy(ids.begin(), ids.end(), entry.ids);
}

bool PieceCache::append(std::string_view piece, std::vector<TokenId>& out) const {
  TokenId ids[kInlineIds];
  if (const size_t count = find(piece, place(piece, piece.size()), ids)) {
    out.insert(out.end(), ids, ids + count);
    return true;
  }
  const std::span<const TokenId> found = find_long(piece);
  out.insert(out.end(), found.begin(), found.end());
  return !found.empty();
}

std::span<const TokenId> PieceCache::find_long(std::string_view piece) const {
  if (piece.size() > kLongestPiece) return {};
  const uint64_t hash = hash_of(piece);
  const LongEntry& entry = long_[hash >> (64 - kLongBits)];
  if (entry.hash != hash || entry.bytes != piece.size()) return {};
  const uint32_t* words = pool_.data() + entry.offset;
  if (std::memcmp(words, piece.data(), piece.size()) != 0) return {};
  return {words + words_of(piece.size()), entry.count};
}

void PieceCache::insert_long(std::string_view piece, std::span<const TokenId> ids) {
  const size_t words = words_of(piece.size()) + ids.size();
  if (pool_.size() + words > kPoolWords) {
    pool_.clear();
    std::fill(long_.begin(), long_.end(), LongEntry());
  }
  const uint64_t hash = hash_of(piece);
  const size_t offset = pool_.size();
  pool_.resize(offset + words_of(piece.size()));
  std::memcpy(pool_.data() + offset, piece.data(), piece.size());
  pool_.insert(pool_.end(), ids.begin(), ids.end());
  long_[hash >> (64 - kLongBits)] = {hash, static_cast<uint32_t>(offset), static_cast<uint16_t>(piece.size()),
                                     static_cast<uint16_t>(ids.size())};
}

}  // namespace trireme
