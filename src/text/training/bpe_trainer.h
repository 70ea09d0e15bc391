#pragma once
// Training of byte-level BPE: starting from the 256 bytes, the most frequent pair of neighbours repeatedly becomes a
// token. Of equally frequent pairs the one with the lower ids goes first, so the result depends on the counts only. The
// rules are those of Hugging Face's BpeTrainer with the byte-level alphabet: the same vocabulary, id for id. Source:
// Sennrich et al. 2016, algorithm 1; pair counts are updated instead of counted again.

#include <functional>

#include "text/files/tokenizer_writer.h"
#include "text/training/piece_counter.h"

namespace trireme {

struct BpeTraining {
  size_t vocabulary_size = 0;                                ///< including special tokens and the 256 bytes
  uint64_t least_count = 1;                                  ///< rarer pairs are not merged
  std::vector<std::string> special_tokens{"<|endoftext|>"};  ///< ids 0, 1, ...
  /// Called occasionally with the number of tokens so far.
  std::function<void(size_t)> progress;
};

/// The vocabulary may be smaller if no pair is frequent enough. Throws Error::usage for a size below the bytes and the
/// special tokens, Error::data for empty text.
BpeDescription train_bpe(const PieceCounter& counts, const BpeTraining& training);

}  // namespace trireme
