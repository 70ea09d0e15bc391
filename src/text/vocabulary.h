#pragma once
// Tokens and their ids, both ways. Ids need not be dense; text is stored once, one token after the other.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/zero_table.h"

namespace trireme {

class Vocabulary {
 public:
  Vocabulary();
  /// Adds a token. Throws Error::data when the token or the id is already taken by another, or the id is above
  /// kLargestId; `where` names the file.
  void add(std::string_view token, TokenId id, std::string_view where);
  void reserve(size_t tokens);
  /// Has the memory that add() or find() will look at come.
  void prefetch(std::string_view token) const;

  std::optional<TokenId> find(std::string_view token) const;
  /// Text of an id, or nothing when no token has it. Valid until the next add().
  std::optional<std::string_view> token(TokenId id) const {
    if (id >= entries_.size() || entries_[id].bytes == kAbsent) return std::nullopt;
    return text_of(id);
  }

  size_t count() const { return count_; }              ///< tokens
  size_t id_limit() const { return entries_.size(); }  ///< largest id + 1
  size_t bytes() const { return text_.size(); }        ///< of all tokens, as they are spelled
  size_t longest() const { return longest_; }          ///< bytes of the longest token

  /// Ids index arrays, so a file that claims a huge one must not make us allocate for it.
  static constexpr TokenId kLargestId = (1u << 22) - 1;

 private:
  static constexpr size_t kMostBytes = size_t{16} << 20;  // eight times the largest in use; trees take 50 times as much
  static constexpr uint32_t kAbsent = UINT32_MAX;
  static constexpr uint64_t kFree = 0;

  struct Entry {
    uint32_t offset = 0, bytes = kAbsent;
  };

  std::string_view text_of(TokenId id) const { return {text_.data() + entries_[id].offset, entries_[id].bytes}; }
  static TokenId id_in(uint64_t slot) { return static_cast<TokenId>(slot) - 1; }
  /// Slot of the token, or the free one where it belongs.
  size_t slot_of(std::string_view token, uint64_t hash) const;
  void resize(size_t slots);

  std::string text_;
  std::vector<Entry> entries_;  // by id
  ZeroTable<uint64_t> slots_;   // the hash's upper half, then the id plus one; 2^n of them, at most half in use
  size_t count_ = 0, longest_ = 0;
};

}  // namespace trireme
