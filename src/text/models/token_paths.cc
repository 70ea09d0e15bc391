#include "text/models/token_paths.h"

#include <string>

#include "text/byte_alphabet.h"

namespace trireme {
namespace {

constexpr int kJudgedBits = 16;
constexpr size_t kWordBits = 64;

uint32_t rank_of(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

TokenPaths::Memory::Memory(const TokenPaths& paths)
    : splits(paths.vocabulary_.id_limit(), TablePages::small), judged(size_t{1} << kJudgedBits, TablePages::small) {}

TokenPaths::TokenPaths(const Vocabulary& vocabulary, const MergeTable& merges, const std::array<TokenId, 256>& byte_ids)
    : vocabulary_(vocabulary), merges_(merges), byte_ids_(byte_ids), prefixes_(vocabulary) {
  for (size_t byte = 0; byte < letters_.size(); ++byte) letters_[byte] = *vocabulary.token(byte_ids[byte]);
}

bool TokenPaths::append(std::string_view word, Memory& memory, std::vector<TokenId>& out) const {
  const size_t before = out.size();
  memory.dead.assign(word.size() / kWordBits + 1, 0);
  size_t place = 0, below = SIZE_MAX;  // only tries tokens of fewer bytes
  while (place < word.size() && !memory.disordered) {
    if (append_one(word.substr(place), place, below, memory, out, out.size() == before)) {
      place += memory.splits[out.back()].bytes;
      below = SIZE_MAX;
    } else if (out.size() > before) {
      memory.dead[place / kWordBits] |= uint64_t{1} << (place % kWordBits);
      below = memory.splits[out.back()].bytes;
      place -= below;
      out.pop_back();
    } else {
      memory.disordered = true;  // every word has tokens
    }
  }
  if (memory.disordered) out.resize(before);
  return !memory.disordered;
}

/// The next token, of fewer than `below` bytes; `rest` of the word begins at `place`. False: none.
bool TokenPaths::append_one(std::string_view rest, size_t place, size_t below, Memory& memory,
                            std::vector<TokenId>& out, bool first) const {
  std::vector<Memory::Candidate>& candidates = memory.candidates;
  candidates.clear();
  if (below > 1) candidates.push_back({byte_ids_[static_cast<uint8_t>(rest[0])], 1});
  prefixes_.find(rest.substr(0, below - 1), [&](TokenId token, size_t bytes) { candidates.push_back({token, bytes}); });
  for (; !candidates.empty(); candidates.pop_back()) {
    const auto [token, bytes] = candidates.back();
    const size_t end = place + bytes;
    if ((memory.dead[end / kWordBits] >> (end % kWordBits) & 1) != 0) continue;
    const Split& split = split_of(token, memory);
    if (split.order == kNever || split.bytes != bytes || memory.disordered) continue;
    if (bytes > TokenPrefixes::kExact && !is(token, rest.substr(0, bytes))) continue;
    if (!first && !may_follow(out.back(), token, memory)) continue;
    out.push_back(token);
    return true;
  }
  return false;
}

bool TokenPaths::is(TokenId token, std::string_view bytes) const {
  std::string_view spelling = *vocabulary_.token(token);
  for (const char byte : bytes) {
    const std::string_view letter = letters_[static_cast<uint8_t>(byte)];
    if (!spelling.starts_with(letter)) return false;
    spelling.remove_prefix(letter.size());
  }
  return spelling.empty();
}

const TokenPaths::Split& TokenPaths::split_of(TokenId token, Memory& memory) const {
  Split& split = memory.splits[token];
  if (split.order == 0) split = find_split(token, memory);
  return split;
}

TokenPaths::Split TokenPaths::find_split(TokenId token, Memory& memory) const {
  std::string bytes;
  read_spelling(*vocabulary_.token(token), bytes);
  const auto size = static_cast<uint32_t>(bytes.size());
  if (size == 1) return {0, 0, kByteOrder, size};
  std::vector<TokenId> parts;
  for (const char byte : bytes) parts.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
  merge_symbols(merges_, parts, memory.merge, 2);
  if (parts.size() != 2) return {0, 0, kNever, size};
  const uint64_t last = merges_.find(parts[0], parts[1]);
  if (last == MergeTable::kNone || static_cast<TokenId>(last) != token) return {0, 0, kNever, size};
  const uint32_t order = rank_of(last) + kFirstOrder;
  for (const TokenId part : parts) memory.disordered |= split_of(part, memory).order >= order;
  return {parts[0], parts[1], order, size};
}

bool TokenPaths::may_follow(TokenId left, TokenId right, Memory& memory) const {
  static_assert(Vocabulary::kLargestId < TokenId{1} << 22);
  const uint64_t pair = uint64_t{1} << 44 | uint64_t{left} << 22 | right;  // never 0
  uint64_t& judged = memory.judged[(pair * 0x9E3779B97F4A7C15) >> (64 - kJudgedBits)];
  if (judged >> 1 != pair) judged = pair << 1 | uint64_t{judge(left, right, memory)};
  return (judged & 1) != 0;
}

bool TokenPaths::judge(TokenId left, TokenId right, const Memory& memory) const {
  if (merges_.find(left, right) != MergeTable::kNone) return false;
  while (true) {
    const Split &a = memory.splits[left], &b = memory.splits[right];
    const bool undo_left = a.order > b.order;  // the left one of equal merges comes first
    const uint32_t undone = undo_left ? a.order : b.order;
    if (undone == kByteOrder) return true;
    if (undo_left)
      left = a.right;
    else
      right = b.left;
    const uint64_t border = merges_.find(left, right);
    if (border == MergeTable::kNone) continue;
    const uint32_t order = rank_of(border) + kFirstOrder;
    if (order < undone || (order == undone && !undo_left)) return false;
  }
}

}  // namespace trireme
