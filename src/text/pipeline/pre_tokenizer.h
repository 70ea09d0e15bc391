#pragma once
// Pre-tokenizers cut text into pieces that the model encodes one by one. Built from the "pre_tokenizer" element of
// tokenizer.json.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_node.h"
#include "text/pipeline/origins.h"
#include "text/regex/cut_plan.h"

namespace trireme {

/// Receives pieces as they are cut. A piece is valid until the call returns.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  /// at_start: the piece is at the start of the complete input.
  virtual void piece(std::string_view text, bool at_start) = 0;
  /// Whether it wants to know where pieces come from: then the pieces that follow are parts of the text that was split
  /// or of an `after` that rewritten() announced, both still in memory.
  virtual bool wants_origins() const { return false; }
  /// `before`, a part of such a text, became `after`.
  virtual void rewritten([[maybe_unused]] std::string_view before, [[maybe_unused]] std::string_view after,
                         [[maybe_unused]] Origins origins) {}
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(std::string_view text, bool at_start, PieceSink& sink) const = 0;
  /// True if text that is cut between an ASCII letter or digit and the ASCII white space after it gives the same pieces
  /// on both sides as uncut text.
  virtual bool cuts_before_space() const { return false; }
  /// Appends its work to a plan of tables; false: tables cannot express it, and the plan is unusable.
  virtual bool plan(CutPlan&) const { return false; }
  /// Appends a line for each of its steps.
  virtual void describe(std::vector<std::string>& lines) const = 0;
};

/// The pre-tokenizer and its requirements for the model.
struct PreTokenizerResult {
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  bool raw_bytes = false;  ///< it ends with ByteLevel: pieces are raw bytes and the model reads GPT-2's byte alphabet
};

/// raw_bytes_possible: the model supports raw bytes (BPE); otherwise ByteLevel spells them. Throws Error::data naming
/// an unsupported element.
PreTokenizerResult make_pre_tokenizer(const JsonObject& element, bool raw_bytes_possible);

}  // namespace trireme
