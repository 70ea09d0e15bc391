#include "text/pipeline/piece_delimiter.h"

#include <utility>

#include "base/error.h"

namespace trireme {

DelimiterBehavior read_behavior(const JsonObject& element, std::string_view otherwise) {
  const std::string name = element.string("behavior", otherwise);
  if (name == "Removed") return DelimiterBehavior::removed;
  if (name == "Isolated") return DelimiterBehavior::isolated;
  if (name == "MergedWithPrevious") return DelimiterBehavior::merged_with_previous;
  if (name == "MergedWithNext") return DelimiterBehavior::merged_with_next;
  if (name == "Contiguous") return DelimiterBehavior::contiguous;
  fail(ErrorKind::data, "{}: unsupported behavior \"{}\"", element.place(), name);
}

void DelimiterSplitter::give(size_t begin, size_t end) {
  if (end > begin) sink_.piece(text_.substr(begin, end - begin), at_start_ && begin == 0);
}

void DelimiterSplitter::part(size_t begin, size_t end, bool delimiter) {
  bool join = false;  // with the pending text
  switch (behavior_) {
    case DelimiterBehavior::removed:
      if (!delimiter) give(begin, end);
      return;
    case DelimiterBehavior::isolated:
      return give(begin, end);
    case DelimiterBehavior::contiguous:
      join = held_ && held_->delimiter == delimiter;
      break;
    case DelimiterBehavior::merged_with_previous:
      join = held_ && delimiter && !after_delimiter_;
      after_delimiter_ = delimiter;
      break;
    case DelimiterBehavior::merged_with_next:
      join = held_ && held_->delimiter && !delimiter;
      break;
  }
  if (join) {
    held_->end = end;
    held_->delimiter = delimiter;
    return;
  }
  finish();
  held_ = Range{begin, end, delimiter};
}

void DelimiterSplitter::finish() {
  if (const auto range = std::exchange(held_, std::nullopt)) give(range->begin, range->end);
}

}  // namespace trireme
