#pragma once
// Treatment of the delimiters between pieces: the "behavior" of tokenizer.json.

#include <optional>
#include <string_view>

#include "text/json_node.h"
#include "text/pipeline/pre_tokenizer.h"

namespace trireme {

enum class DelimiterBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Reads "behavior". Throws Error::data for an unknown one.
DelimiterBehavior read_behavior(const JsonObject& element, std::string_view otherwise);

/// Receives the parts of one text in order, each a delimiter or not, and passes on pieces.
class DelimiterSplitter {
 public:
  DelimiterSplitter(std::string_view text, bool at_start, DelimiterBehavior behavior, PieceSink& sink)
      : text_(text), at_start_(at_start), behavior_(behavior), sink_(sink) {}

  /// An empty delimiter still cuts.
  void part(size_t begin, size_t end, bool delimiter);
  /// Passes on the pending text.
  void finish();

 private:
  struct Range {
    size_t begin, end;
    bool delimiter;
  };
  void give(size_t begin, size_t end);

  std::string_view text_;
  bool at_start_;
  DelimiterBehavior behavior_;
  PieceSink& sink_;
  std::optional<Range> held_;
  bool after_delimiter_ = false;
};

}  // namespace trireme
