#include "text/pipeline/normalizer.h"

#include <array>

#include "text/unicode.h"

namespace trireme {
namespace {

struct BertOptions {
  bool clean, chinese, strip_accents, lower_case;
};

/// The blocks that BERT treats as Chinese: CJK ideographs and their extensions, compatibility forms.
bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

constexpr char kDropped = '\x7F';  // in the table: itself a control character, so never kept when cleaning

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const BertOptions& options) : options_(options) {
    for (unsigned c = 0; c < ascii_.size(); ++c) {
      const bool space = c == '\t' || c == '\n' || c == '\r' || (options.clean && c == ' ');
      char to = static_cast<char>(c);
      if (options.clean && (c < 0x20 || c == 0x7F)) to = space ? ' ' : kDropped;
      if (options.lower_case && c >= 'A' && c <= 'Z') to = static_cast<char>(c | 0x20);
      ascii_[c] = to;
    }
  }

  bool keeps(std::string_view) const override { return false; }
  bool cuts_before_space() const override { return true; }

  void apply(std::string& text, const TextLimit&, Origins* origins) const override {
    if (origins != nullptr) {
      const auto ascii = [this](char32_t code, std::string& to) {
        if (code >= 0x80) return clean(code, to);
        if (ascii_[code] != kDropped || !options_.clean) to.push_back(ascii_[code]);
      };
      text = rewritten(text, ascii, origins);
      return;
    }
    std::string out;
    out.reserve(text.size() + text.size() / 8);
    const char* const end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const auto byte = static_cast<uint8_t>(*p);
      if (byte < 0x80) {
        if (ascii_[byte] != kDropped || !options_.clean) out.push_back(ascii_[byte]);
        ++p;
        continue;
      }
      const char* stop = p;  // a run of other characters, independent of their context
      while (stop < end && static_cast<uint8_t>(*stop) >= 0x80) ++stop;
      out += rewritten(
          std::string_view(p, static_cast<size_t>(stop - p)),
          [this](char32_t code, std::string& to) { clean(code, to); }, nullptr);
      p = stop;
    }
    text = std::move(out);
  }

 private:
  /// clean: what becomes of a character before accents and case.
  template <class Clean>
  std::string rewritten(std::string_view text, Clean clean, Origins* origins) const {
    std::string out = map_characters(text, origins, clean);
    const auto then = [&](auto step) {
      Origins later;
      out = step(origins == nullptr ? nullptr : &later);
      if (origins != nullptr) origins->follow(later);
    };
    if (options_.strip_accents) {
      then([&](Origins* later) { return normal_form(out, false, false, later); });
      then([&](Origins* later) {
        return map_characters(out, later, [](char32_t code, std::string& to) {
          if (!(char_table()[code] & kNonspacing)) append_utf8(code, to);
        });
      });
    }
    if (options_.lower_case) then([&](Origins* later) { return map_characters(out, later, append_lower_case); });
    return out;
  }

  void clean(char32_t code, std::string& out) const {
    if (options_.clean) {
      if (code == 0xFFFD || (char_table()[code] & kOther)) {
        // U+0085 is white space and a control character; control wins.
        return;
      }
      if (char_table()[code] & kSpace) code = U' ';
    }
    const bool spaced = options_.chinese && is_chinese(code);
    if (spaced) out.push_back(' ');
    append_utf8(code, out);
    if (spaced) out.push_back(' ');
  }

  BertOptions options_;
  std::array<char, 128> ascii_{};
};

}  // namespace

std::unique_ptr<Normalizer> make_bert_normalizer(const JsonObject& element) {
  element.allow_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  BertOptions options{};
  options.clean = element.boolean("clean_text");
  options.chinese = element.boolean("handle_chinese_chars");
  options.lower_case = element.boolean("lowercase");
  options.strip_accents = element.boolean("strip_accents", options.lower_case);
  return std::make_unique<BertNormalizer>(options);
}

}  // namespace trireme
