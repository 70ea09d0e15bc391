#pragma once
// Normalizers change the text before it is cut. Built from the "normalizer" element of tokenizer.json.

#include <memory>
#include <string>
#include <string_view>

#include "text/json_node.h"
#include "text/pipeline/origins.h"
#include "text/pipeline/text_limit.h"

namespace trireme {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Throws Error::data if the text would exceed the limit. origins: gets where the bytes of the result come from; may
  /// be null.
  virtual void apply(std::string& text, const TextLimit& limit, Origins* origins) const = 0;
  /// True if apply() would certainly not change the text, which saves its copy.
  virtual bool keeps(std::string_view text) const = 0;
  /// True if text cut between an ASCII letter or digit and the ASCII white space after it normalizes to the same text.
  virtual bool cuts_before_space() const { return false; }
};

/// Throws Error::data naming an unsupported element.
std::unique_ptr<Normalizer> make_normalizer(const JsonObject& element);

}  // namespace trireme
