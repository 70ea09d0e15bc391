#pragma once
// Limits how much the rules of a tokenizer file may lengthen a text: a chain of replacements multiplies.

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/error.h"

namespace trireme {

class TextLimit {
 public:
  /// `where` names the file in the error and outlives the object.
  explicit TextLimit(size_t text_bytes, std::string_view where = "the tokenizer")
      : given_(text_bytes),
        maximum_(kFree + std::min(kTimes * text_bytes, std::max(kLarge, 4 * text_bytes))),
        where_(where) {}

  /// Throws Error::data if the rules have lengthened the text to `bytes`, beyond the limit.
  void check(size_t bytes) const {
    if (bytes > maximum_) refuse();
  }

 private:
  // A character becomes at most 11 times as long by a normal form, 3 times by the replacements in use.
  static constexpr size_t kTimes = 64, kFree = size_t{1} << 16, kLarge = size_t{128} << 20;

  [[noreturn]] void refuse() const {
    fail(ErrorKind::data,
         "{}: its normalizer or decoder makes more than {} bytes from a text of {}, the limit; its "
         "replacements multiply",
         where_, maximum_, given_);
  }

  size_t given_, maximum_;
  std::string_view where_;
};

}  // namespace trireme
