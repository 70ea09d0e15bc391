#pragma once
// Maps tokens to ids and back. Ids need not be dense; the text of all tokens is stored once, concatenated.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/models/zero_table.h"
#include "text/tokenizer.h"

namespace trireme {

class Vocabulary {
 public:
  Vocabulary();
  /// Adds a token. Throws Error::data if the token or the id is already used, or the id is above kLargestId; `where`
  /// names the file.
  void add(std::string_view token, TokenId id, std::string_view where);
  void reserve(size_t tokens);
  /// Prefetches the memory for add() or find().
  void prefetch(std::string_view token) const;

  std::optional<TokenId> find(std::string_view token) const;
  /// Text of an id, or empty if no token has it. Valid until the next add().
  std::optional<std::string_view> token(TokenId id) const {
    if (id >= entries_.size() || entries_[id].bytes == kAbsent) return std::nullopt;
    return text_of(id);
  }

  size_t count() const { return count_; }              ///< tokens
  size_t id_limit() const { return entries_.size(); }  ///< largest id + 1
  size_t bytes() const { return text_.size(); }        ///< of all tokens, as spelled
  size_t longest() const { return longest_; }          ///< bytes of the longest token

  /// Ids are array indices, so a huge id in a file must not cause a huge allocation.
  static constexpr TokenId kLargestId = (1u << 22) - 1;

 private:
  static constexpr size_t kMostBytes = size_t{16}
                                       << 20;  // eight times the largest in use; trees need 50 times as much memory
  static constexpr uint32_t kAbsent = UINT32_MAX;
  static constexpr uint64_t kFree = 0;

  struct Entry {
    uint32_t offset = 0, bytes = kAbsent;
  };

  std::string_view text_of(TokenId id) const { return {text_.data() + entries_[id].offset, entries_[id].bytes}; }
  static TokenId id_in(uint64_t slot) { return static_cast<TokenId>(slot) - 1; }
  /// Slot of the token, or the free one for it.
  size_t slot_of(std::string_view token, uint64_t hash) const;
  void resize(size_t slots);

  std::string text_;
  std::vector<Entry> entries_;  // by id
  ZeroTable<uint64_t> slots_;   // the hash's upper half, then the id plus one; 2^n of them, at most half in use
  size_t count_ = 0, longest_ = 0;
};

}  // namespace trireme
