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

/// The one of BERT: clean text, spaces around CJK characters, accents removed, lower case; each can be off.
std::unique_ptr<Normalizer> make_bert_normalizer(const JsonObject& element);
/// SentencePiece's precompiled normalization table, as in files of T5 and XLM-R.
std::unique_ptr<Normalizer> make_precompiled_normalizer(const JsonObject& element);

/// NFC, NFD, NFKC or NFKD of text, which is UTF-8; invalid bytes stay unchanged. origins: gets where the bytes of the
/// result come from, character by character (as a reader counts them) where that is possible; may be null.
std::string normal_form(std::string_view text, bool compose, bool compatible, Origins* origins = nullptr);

/// Appends the lower-case form of a character: one character, two for U+0130.
void append_lower_case(char32_t code, std::string& out);

}  // namespace trireme
