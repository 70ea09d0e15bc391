#include "text/piece_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <type_traits>

#include "base/hash.h"

namespace trireme {
namespace {

uint64_t hash_of(std::string_view piece) { return xxh3(std::as_bytes(std::span(piece.data(), piece.size()))); }

size_t words_of(size_t bytes) { return (bytes + 3) / 4; }

}  // namespace

void PieceCache::Unmap::operator()(void* pages) const { munmap(pages, bytes); }

template <class Entry>
PieceCache::Table<Entry> PieceCache::make_table(size_t entries) {
  static_assert(std::is_aggregate_v<Entry> && std::is_trivially_destructible_v<Entry>, "zeros are entries");
  const size_t bytes = entries * sizeof(Entry);
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return Table<Entry>(static_cast<Entry*>(pages), Unmap{bytes});
}

PieceCache::PieceCache()
    : lines_(make_table<Line>(size_t{1} << kShortBits)), long_(make_table<LongEntry>(size_t{1} << kLongBits)) {
  pool_.reserve(kPoolWords);
}

void PieceCache::insert(std::string_view piece, std::span<const TokenId> ids) {
  if (piece.empty() || ids.empty() || piece.size() > kLongestPiece) return;
  if (piece.size() > kInlineBytes || ids.size() > kInlineIds) return insert_long(piece, ids);
  const Place where = place(piece, piece.size());
  Line& line = lines_[where.line];
  ShortEntry& entry = line.entries[line.entries[0].bytes == 0 ? 0 : 1];
  entry.low = where.low;
  entry.high = where.high;
  entry.bytes = static_cast<uint16_t>(piece.size());
  entry.count = static_cast<uint16_t>(ids.size());
  std::copy(ids.begin(), ids.end(), entry.ids);
}

bool PieceCache::append(std::string_view piece, std::vector<TokenId>& out) {
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
    std::fill_n(long_.get(), size_t{1} << kLongBits, LongEntry());
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
