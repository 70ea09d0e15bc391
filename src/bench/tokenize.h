#pragma once
// How fast a tokenizer encodes, plain text as prepare does it, and decodes.

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace trireme {

/// Parts of about `bytes` each that can be encoded apart from each other without a change of the ids; one part where
/// the tokenizer cannot be cut.
std::vector<std::string_view> cut_text(const Tokenizer& tokenizer, std::string_view text, size_t bytes);

struct EncodeTiming {
  double seconds = 0;
  uint64_t tokens = 0;
};

/// Encodes all parts `rounds` times without a pause, shared by `threads` threads: seconds and tokens of one round, on
/// average. Throws as encoding does.
EncodeTiming time_encode(const Tokenizer& tokenizer, const std::vector<std::string_view>& parts, int threads,
                         size_t rounds = 1);

struct DecodeTiming {
  double seconds = 0;
  uint64_t bytes = 0;
};

/// Decodes all lists of ids `rounds` times without a pause, on the calling thread: seconds and bytes of one round, on
/// average. Throws as decoding does.
DecodeTiming time_decode(const Tokenizer& tokenizer, const std::vector<std::vector<TokenId>>& parts, size_t rounds = 1);

}  // namespace trireme
