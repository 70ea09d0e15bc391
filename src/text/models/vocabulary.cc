#include "text/models/vocabulary.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace trireme {
namespace {

constexpr uint64_t kUpperHalf = 0xFFFFFFFF00000000;

uint64_t hash_of(std::string_view token) { return xxh3(std::as_bytes(std::span(token.data(), token.size()))); }

}  // namespace

Vocabulary::Vocabulary() : slots_(16, TablePages::small) {}

size_t Vocabulary::slot_of(std::string_view token, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const uint64_t slot = slots_[at];
    if (slot == kFree) return at;
    if ((slot & kUpperHalf) == (hash & kUpperHalf) && text_of(id_in(slot)) == token) return at;
  }
}

void Vocabulary::resize(size_t slots) {
  const ZeroTable<uint64_t> old = std::exchange(slots_, ZeroTable<uint64_t>(slots, TablePages::large));
  for (const uint64_t slot : old) {
    if (slot == kFree) continue;
    const uint64_t hash = hash_of(text_of(id_in(slot)));
    size_t at = hash & (slots - 1);
    while (slots_[at] != kFree) at = (at + 1) & (slots - 1);
    slots_[at] = slot;
  }
}

void Vocabulary::add(std::string_view token, TokenId id, std::string_view where) {
  require(id <= kLargestId, ErrorKind::data, "{}: token \"{}\" has id {}, ids up to {} are supported", where, token, id,
          kLargestId);
  require(text_.size() + token.size() <= kMostBytes, ErrorKind::data,
          "{}: its tokens have more than {} bytes, the supported maximum", where, kMostBytes);
  const uint64_t hash = hash_of(token);
  const size_t at = slot_of(token, hash);
  if (slots_[at] != kFree) {
    const TokenId known = id_in(slots_[at]);
    require(known == id, ErrorKind::data, "{}: token \"{}\" has two ids, {} and {}", where, token, known, id);
    return;
  }
  if (id >= entries_.size()) entries_.resize(size_t{id} + 1);
  require(entries_[id].bytes == kAbsent, ErrorKind::data, "{}: id {} belongs to two tokens, \"{}\" and \"{}\"", where,
          id, text_of(id), token);
  entries_[id] = {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(token.size())};
  text_ += token;
  longest_ = std::max(longest_, token.size());
  slots_[at] = (hash & kUpperHalf) | (id + 1);
  if (++count_ * 2 > slots_.size()) resize(slots_.size() * 2);
}

void Vocabulary::reserve(size_t tokens) {
  entries_.reserve(tokens);
  const size_t slots = std::bit_ceil(tokens * 2);
  if (slots > slots_.size()) resize(slots);
}

void Vocabulary::prefetch(std::string_view token) const {
  __builtin_prefetch(&slots_[hash_of(token) & (slots_.size() - 1)]);
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  const uint64_t slot = slots_[slot_of(token, hash_of(token))];
  if (slot == kFree) return std::nullopt;
  return id_in(slot);
}

}  // namespace trireme
