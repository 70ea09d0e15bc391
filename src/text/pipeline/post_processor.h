#pragma once
// Processes encoded text: templates such as [CLS] A [SEP], truncation and padding.

#include <optional>
#include <vector>

#include "text/json_node.h"
#include "text/tokenizer.h"

namespace trireme {

/// One element of a template: a sequence (0: the first, 1: the second) or fixed special ids.
struct TemplatePart {
  int sequence = -1;  ///< -1: special ids
  std::vector<TokenId> ids;
  uint8_t type = 0;
};

/// Every post-processor of tokenizer.json as templates for one text and for a pair.
struct PostProcessor {
  std::vector<TemplatePart> single{{0, {}, 0}};
  std::vector<TemplatePart> pair{{0, {}, 0}, {1, {}, 1}};

  /// Special ids that the template adds.
  size_t added(bool is_pair) const;
  Encoding apply(const std::vector<TokenId>& first, const std::vector<TokenId>* second, bool special_tokens) const;
};

struct Truncation {
  enum class Strategy {
    longest_first,  ///< tokenizer.json: texts that are both too long share the length, the longer one gets the odd id
    longest_one_by_one,  ///< the longer text loses one id at a time until both fit; the second if they are equal
    only_first,
    only_second
  };
  size_t length = 0;  ///< of the complete result, including special ids
  Strategy strategy = Strategy::longest_first;
  bool left = false;  ///< drops ids at the beginning

  /// Shortens the texts so that they fit with `added` ids. Throws Error::data if the strategy cannot.
  void apply(size_t added, std::vector<TokenId>& first, std::vector<TokenId>* second) const;
};

struct Padding {
  size_t length = 0;  ///< 0: only up to the multiple
  size_t multiple = 1;
  bool left = false;
  TokenId id = 0;
  uint8_t type = 0;

  void apply(Encoding& encoding) const;
};

PostProcessor make_post_processor(const JsonObject& element);
Truncation make_truncation(const JsonObject& element);
Padding make_padding(const JsonObject& element);

}  // namespace trireme
