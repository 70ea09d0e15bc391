#pragma once
// Finds the tokens that a text begins with.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "text/models/vocabulary.h"
#include "text/models/zero_table.h"

namespace trireme {

/// Stores all prefixes of tokens by their bytes, not as nodes of a tree: the place of a longer one is known before the
/// shorter one is found, so that the processor can load all of them at once.
class TokenPrefixes {
 public:
  /// From the tokens spelled in the byte alphabet, as tokens of their bytes.
  explicit TokenPrefixes(const Vocabulary& vocabulary);
  static constexpr size_t kMostBytes = size_t{4} << 20;  // of a vocabulary; 200,000 tokens have 1.5 million

  /// Calls found(token, bytes) for each token of two bytes or more that the text begins with, the shortest first. For
  /// more than kExact bytes it may be another token, so the caller must compare. The same holds if the number of bytes
  /// differs from the token's.
  template <class Found>
  void find(std::string_view text, Found found) const {
    Key key;
    for (size_t at = 0; at < text.size(); ++at) {
      key.add(text[at], at);
      if (at == 0) continue;
      const size_t slot = slot_of(key.value);
      if (keys_[slot] == kFree) return;
      if (tokens_[slot] != 0) found(static_cast<TokenId>(tokens_[slot] - 1), at + 1);
    }
  }
  static constexpr size_t kExact = 8;

 private:
  static constexpr uint64_t kFree = 0;
  /// Key of a prefix: its bytes and their number; for a longer one a hash.
  struct Key {
    uint64_t value = 0, bytes = 0;
    void add(char byte, size_t at) {
      constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
      const uint64_t number = static_cast<uint8_t>(byte);
      if (at < kExact) {
        bytes |= number << (8 * at);
        value = bytes ^ (kOdd * (at + 1));
      } else {
        value = ((value ^ number) * kOdd) ^ (value >> 29);
      }
      value += value == kFree;
    }
  };

  /// Slot of the key, or the free one for it.
  size_t slot_of(uint64_t key) const {
    size_t slot = (key ^ key >> 32) * 0xD6E8FEB86659FD93 >> shift_;
    while (keys_[slot] != key && keys_[slot] != kFree) slot = (slot + 1) & (keys_.size() - 1);
    return slot;
  }
  void add(std::string_view bytes, TokenId token);
  void grow();

  ZeroTable<uint64_t> keys_;
  ZeroTable<uint32_t> tokens_;  // by slot: the token plus one; 0: only a prefix
  int shift_;
  size_t used_ = 0;
};

}  // namespace trireme
