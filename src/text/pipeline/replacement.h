#pragma once
// {"pattern": {"String": ...} or {"Regex": ...}, "content": ...}: shared by a normalizer and a decoder.

#include <optional>
#include <string>

#include "text/json_node.h"
#include "text/pipeline/origins.h"
#include "text/pipeline/text_limit.h"
#include "text/regex/regex.h"

namespace trireme {

/// Pattern of an element: a literal string or a regular expression. Throws Error::data.
struct TextPattern {
  std::string literal;
  std::optional<Regex> regex;  ///< set: the literal is not used
};
TextPattern read_pattern(const JsonObject& element);

class Replacement {
 public:
  /// Reads "pattern" and "content" of the element; other members are errors.
  explicit Replacement(const JsonObject& element);
  /// Replaces every match. Throws Error::data if the text would exceed the limit. origins: gets where the bytes of the
  /// result come from; may be null.
  void apply(std::string& text, const TextLimit& limit, Origins* origins = nullptr) const;
  /// The literal to replace; null: a regular expression is replaced.
  const std::string* literal() const { return pattern_.regex ? nullptr : &pattern_.literal; }
  const std::string& content() const { return content_; }

 private:
  TextPattern pattern_;
  std::string content_;
};

}  // namespace trireme
