#pragma once
// What happens to the delimiters between pieces: the "behavior" of tokenizer.json.

#include <optional>
#include <string_view>

#include "text/json_node.h"
#include "text/pre_tokenizer.h"

namespace trireme {

enum class DelimiterBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Reads "behavior". Throws Error::data for one that is not known.
DelimiterBehavior read_behavior(const JsonObject& element, std::string_view otherwise);

/// Takes the parts of one text in order, each a delimiter or not, and gives pieces on.
class DelimiterSplitter {
 public:
  DelimiterSplitter(std::string_view text, bool at_start, DelimiterBehavior behavior, PieceSink& sink)
      : text_(text), at_start_(at_start), behavior_(behavior), sink_(sink) {}

  /// An empty delimiter still cuts.
  void part(size_t begin, size_t end, bool delimiter);
  /// Gives on what is still held back.
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
