#pragma once
// Finds the tokens of a word of bytes without applying its merges one by one. Tries the longest token at the next place
// first and checks only whether it may follow the previous token: if all adjacent pairs are valid, the sequence is
// (bpe_merges.cc explains why). Each prefix of a word has at most one such sequence, so a place from which no token
// fits is not tried again. Time is linear in the word. A pair is valid if no merge crosses its border while the two are
// built from their bytes. This is checked backwards: undo the last merge of the two; if the pair at the border until
// then has a lower rank, it would have been merged first; repeat until two bytes are left. This requires every merge to
// come after those of its parts, as training makes them; otherwise append() returns false.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/models/bpe_merges.h"
#include "text/models/token_prefixes.h"
#include "text/models/vocabulary.h"
#include "text/models/zero_table.h"

namespace trireme {

class TokenPaths {
  /// The last merge that builds a token from its bytes.
  struct Split {
    TokenId left, right;
    uint32_t order;  ///< of merges; kByteOrder: a single byte, kNever: its bytes become other tokens; 0: not known yet
    uint32_t bytes;
  };

 public:
  /// Working memory of one thread for one object.
  class Memory {
   public:
    explicit Memory(const TokenPaths& paths);

   private:
    friend TokenPaths;
    struct Candidate {
      TokenId token;
      size_t bytes;
    };
    ZeroTable<Split> splits;     // by token
    ZeroTable<uint64_t> judged;  // pairs and their validity
    bool disordered = false;     // a merge precedes one of its parts' merges
    MergeScratch merge;
    std::vector<Candidate> candidates;
    std::vector<uint64_t> dead;  // one bit per place of a word
  };

  /// byte_ids: ids of all bytes, whose tokens the vocabulary spells in the byte alphabet. Borrows all three.
  TokenPaths(const Vocabulary& vocabulary, const MergeTable& merges, const std::array<TokenId, 256>& byte_ids);

  /// Appends the result of merge_symbols() for the word's bytes to `out`. False, with `out` unchanged: the merges are
  /// out of order.
  bool append(std::string_view word, Memory& memory, std::vector<TokenId>& out) const;

 private:
  bool append_one(std::string_view rest, size_t place, size_t below, Memory& memory, std::vector<TokenId>& out,
                  bool first) const;
  bool is(TokenId token, std::string_view bytes) const;
  const Split& split_of(TokenId token, Memory& memory) const;
  Split find_split(TokenId token, Memory& memory) const;
  bool may_follow(TokenId left, TokenId right, Memory& memory) const;
  bool judge(TokenId left, TokenId right, const Memory& memory) const;

  static constexpr uint32_t kByteOrder = 1, kFirstOrder = 2, kNever = UINT32_MAX;

  const Vocabulary& vocabulary_;
  const MergeTable& merges_;
  const std::array<TokenId, 256>& byte_ids_;
  TokenPrefixes prefixes_;
  std::array<std::string_view, 256> letters_;  // the vocabulary's spelling of each byte
};

}  // namespace trireme
