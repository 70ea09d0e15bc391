#include "text/models/piece_cache.h"

#include <algorithm>

#include "base/hash.h"

namespace trireme {
namespace {

uint64_t hash_of_long(std::string_view piece) { return xxh3(std::as_bytes(std::span(piece.data(), piece.size()))); }

size_t words_of(size_t bytes) { return (bytes + 3) / 4; }

}  // namespace

PieceCache::PieceCache() { pool_.reserve(kPoolWords); }

void PieceCache::insert(std::string_view piece, std::span<const TokenId> ids) {
  if (piece.empty() || ids.empty() || piece.size() > kLongestPiece) return;
  if (piece.size() <= kInlineBytes)
    insert_short(piece, ids);
  else
    insert_long(piece, ids);
}

void PieceCache::make_room(size_t words) {
  if (pool_.size() + words <= kPoolWords) return;
  pool_.clear();
  ++pools_;
  std::fill(long_.begin(), long_.end(), LongLine());
}

void PieceCache::grow() {
  if (lines_.size() == size_t{1} << kManyBits) return;
  const ZeroTable<Line> old = std::exchange(lines_, ZeroTable<Line>(size_t{1} << kManyBits, TablePages::large));
  line_shift_ = 64 - kManyBits;
  for (const Line& line : old) {
    for (const ShortEntry& entry : line.entries) {
      if (entry.bytes == 0) continue;
      auto& [front, back] = lines_[line_of(hash_of(entry.low, entry.high))].entries;
      (front.bytes == 0 ? front : back) = entry;
    }
  }
}

void PieceCache::insert_short(std::string_view piece, std::span<const TokenId> ids) {
  if (++inserted_ == lines_.size()) grow();
  const Place where = place(piece, piece.size());
  auto& [front, back] = lines_[line_of(where.hash)].entries;
  ShortEntry& entry = front.bytes == 0 || front.is(piece, where) ? front : back;
  entry = {where.low, where.high, {}, static_cast<uint16_t>(piece.size()), 0};
  if (ids.size() <= kInlineIds) {
    entry.count = static_cast<uint16_t>(ids.size());
    std::copy(ids.begin(), ids.end(), entry.ids);
    return;
  }
  make_room(ids.size());
  entry.ids[0] = static_cast<uint32_t>(pool_.size());
  entry.ids[1] = static_cast<uint32_t>(ids.size());
  entry.ids[2] = pools_;
  pool_.insert(pool_.end(), ids.begin(), ids.end());
}

bool PieceCache::append(std::string_view piece, std::vector<TokenId>& out) {
  TokenId ids[kInlineIds];
  const Place where = place(piece, piece.size());
  if (const size_t count = find(piece, where, ids)) {
    out.insert(out.end(), ids, ids + count);
    return true;
  }
  const std::span<const TokenId> found = find_more(piece, where);
  out.insert(out.end(), found.begin(), found.end());
  return !found.empty();
}

std::span<const TokenId> PieceCache::find_more(std::string_view piece, const Place& place) const {
  if (piece.size() > kInlineBytes) return find_long(piece);
  const ShortEntry& entry = lines_[line_of(place.hash)].entries[0];  // find() puts it there
  if (entry.count > 0 || entry.ids[2] != pools_ || !entry.is(piece, place)) return {};
  return {pool_.data() + entry.ids[0], entry.ids[1]};
}

std::span<const TokenId> PieceCache::find_long(std::string_view piece) const {
  if (piece.size() > kLongestPiece) return {};
  const uint64_t hash = hash_of_long(piece);
  for (const LongEntry& entry : long_[hash >> (64 - kLongBits)].entries) {
    if (entry.hash != hash || entry.bytes != piece.size()) continue;
    const uint32_t* words = pool_.data() + entry.offset;
    if (std::memcmp(words, piece.data(), piece.size()) == 0) return {words + words_of(piece.size()), entry.count};
  }
  return {};
}

void PieceCache::insert_long(std::string_view piece, std::span<const TokenId> ids) {
  const size_t words = words_of(piece.size()) + ids.size();
  make_room(words);
  const uint64_t hash = hash_of_long(piece);
  const size_t offset = pool_.size();
  pool_.resize(offset + words_of(piece.size()));
  std::memcpy(pool_.data() + offset, piece.data(), piece.size());
  pool_.insert(pool_.end(), ids.begin(), ids.end());
  auto& entries = long_[hash >> (64 - kLongBits)].entries;
  std::shift_right(std::begin(entries), std::end(entries), 1);
  entries[0] = {hash, static_cast<uint32_t>(offset), static_cast<uint16_t>(piece.size()),
                static_cast<uint16_t>(ids.size())};
}

}  // namespace trireme
