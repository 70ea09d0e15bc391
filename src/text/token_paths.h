#pragma once
// The tokens of a word of bytes without making its merges one by one. The longest token that the text goes on with is
// tried first, and whether it may follow the one before is asked of these two alone: what every two neighbours may be,
// all may be (bpe_merges.cc says why). Each beginning of a word has one such sequence of tokens at most, so a place
// from which nothing went on is not tried again. Time is linear in the word.
//
// Two neighbours may be if no merge goes over their border while they come to be from their bytes. This is read
// backwards: the last merge of the two is undone, and the pair that was at the border until then would have been merged
// before it if its rank is lower, and so on until two bytes are left. It needs that a merge comes after those of its
// parts, as training makes them; where it does not, append() says so.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/bpe_merges.h"
#include "text/token_prefixes.h"
#include "text/vocabulary.h"
#include "text/zero_table.h"

namespace trireme {

class TokenPaths {
  /// The last merge of a token that its bytes become.
  struct Split {
    TokenId left, right;
    uint32_t
        order;  ///< of merges; kByteOrder: a single byte, kNever: its bytes become something else; 0: not known yet
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
    ZeroTable<uint64_t> judged;  // pairs and what was found of them
    bool disordered = false;     // a merge came before one of its parts'
    MergeScratch merge;
    std::vector<Candidate> candidates;
    std::vector<uint64_t> dead;  // a bit for each place of a word
  };

  /// byte_ids: of every byte, whose tokens the vocabulary spells in the alphabet of bytes. Borrows all three.
  TokenPaths(const Vocabulary& vocabulary, const MergeTable& merges, const std::array<TokenId, 256>& byte_ids);

  /// Appends what merge_symbols() makes of the word's bytes to `out`. False, with `out` as it was: the merges are out
  /// of order.
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
  std::array<std::string_view, 256> letters_;  // how the vocabulary spells each byte
};

}  // namespace trireme
