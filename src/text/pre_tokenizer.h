#pragma once
// Pre-tokenizers cut text into pieces that the model encodes one by one. Built from the "pre_tokenizer" element of
// tokenizer.json.

#include <memory>
#include <string_view>

#include "text/json_node.h"

namespace trireme {

/// Takes pieces as they are cut. A piece may live only until the call returns.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  /// at_start: the piece begins where the whole input begins.
  virtual void piece(std::string_view text, bool at_start) = 0;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(std::string_view text, bool at_start, PieceSink& sink) const = 0;
  /// True if text that is cut between an ASCII letter or digit and the ASCII white space after it gives the same pieces
  /// on both sides as uncut text.
  virtual bool cuts_before_space() const { return false; }
  /// True for GPT-2's pattern on unchanged bytes: the model then scans by itself.
  virtual bool is_plain_gpt2() const { return false; }
};

/// What the pre-tokenizer asks of the model.
struct PreTokenizerResult {
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  bool raw_bytes = false;  ///< it ends with ByteLevel: pieces are raw bytes and the model reads GPT-2's byte alphabet
};

/// raw_bytes_possible: the model can take raw bytes (BPE); otherwise ByteLevel spells them out. Throws Error::data,
/// naming it, for an element that is not implemented.
PreTokenizerResult make_pre_tokenizer(const JsonObject& element, bool raw_bytes_possible);

}  // namespace trireme
