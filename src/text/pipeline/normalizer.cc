#include "text/pipeline/normalizer.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/pipeline/replacement.h"
#include "text/regex/regex.h"
#include "text/unicode.h"

namespace trireme {
namespace {

/// Unicode normal forms.
class NormalFormNormalizer final : public Normalizer {
 public:
  NormalFormNormalizer(bool compose, bool compatible) : compose_(compose), compatible_(compatible) {}
  bool keeps(std::string_view text) const override {
    // From U+0300 on (first byte 0xCC) characters can combine; below it NFC changes nothing.
    const uint8_t limit = compose_ && !compatible_ ? 0xCC : 0x80;
    return std::all_of(text.begin(), text.end(), [limit](char c) { return static_cast<uint8_t>(c) < limit; });
  }
  void apply(std::string& text, const TextLimit&, Origins* origins) const override {
    text = normal_form(text, compose_, compatible_, origins);
  }
  bool cuts_before_space() const override { return true; }

 private:
  bool compose_, compatible_;
};

/// A function of single characters, whose results are appended to the output.
class CharacterNormalizer final : public Normalizer {
 public:
  using Map = std::function<void(char32_t, std::string&)>;
  explicit CharacterNormalizer(Map map) : map_(std::move(map)) {}
  bool keeps(std::string_view) const override { return false; }
  void apply(std::string& text, const TextLimit&, Origins* origins) const override {
    text = map_characters(text, origins, [this](char32_t code, std::string& to) { map_(code, to); });
  }
  bool cuts_before_space() const override { return true; }

 private:
  Map map_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  bool keeps(std::string_view) const override { return false; }
  void apply(std::string& text, const TextLimit&, Origins* origins) const override {
    const char* const data = text.data();
    size_t begin = text.size(), end = 0, at = 0;  // of the text without outer white space
    while (at < text.size()) {
      const Decoded next = decode_utf8(data + at, data + text.size());
      if (!(char_table()[next.code] & kSpace)) {
        begin = std::min(begin, at);
        end = at + next.length;
      }
      at += next.length;
    }
    const size_t last = right_ ? end : text.size(), first = left_ ? std::min(begin, last) : 0;
    Rewriting rewriting(text, origins);
    rewriting.took(first);
    rewriting.keep(last - first);
    text = std::move(rewriting.out);
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  bool keeps(std::string_view text) const override { return text.empty(); }
  void apply(std::string& text, const TextLimit&, Origins* origins) const override {
    if (text.empty()) return;
    Rewriting rewriting(text, origins);
    rewriting.out += text_;
    rewriting.took(0);
    rewriting.keep(text.size());
    text = std::move(rewriting.out);
  }

 private:
  std::string text_;
};

class Replace final : public Normalizer {
 public:
  explicit Replace(Replacement replacement) : replacement_(std::move(replacement)) {}
  bool keeps(std::string_view) const override { return false; }
  void apply(std::string& text, const TextLimit& limit, Origins* origins) const override {
    replacement_.apply(text, limit, origins);
  }

 private:
  Replacement replacement_;
};

class SpellBytes final : public Normalizer {
 public:
  bool keeps(std::string_view) const override { return false; }
  void apply(std::string& text, const TextLimit&, Origins* origins) const override {
    text = spell_bytes(text, origins);
  }
};

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  bool keeps(std::string_view text) const override {
    return std::all_of(parts_.begin(), parts_.end(), [&](const auto& part) { return part->keeps(text); });
  }
  void apply(std::string& text, const TextLimit& limit, Origins* origins) const override {
    if (origins != nullptr) origins->keep(text.size(), 0);
    for (const auto& part : parts_) {
      Origins step;
      part->apply(text, limit, origins == nullptr ? nullptr : &step);
      if (origins != nullptr) origins->follow(step);
      limit.check(text.size());  // for a chain of small additions
    }
  }
  bool cuts_before_space() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->cuts_before_space(); });
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

/// The Nmt normalizer: removes control characters, replaces unusual spaces by plain ones.
void map_nmt(char32_t c, std::string& out) {
  const bool control = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  if (control) return;
  const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                     c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  append_utf8(space ? U' ' : c, out);
}

void drop_marks(char32_t c, std::string& out) {
  if (!(char_table()[c] & kMark)) append_utf8(c, out);
}

std::unique_ptr<Normalizer> make_sequence(const JsonObject& element) {
  element.allow_only({"type", "normalizers"});
  std::vector<std::unique_ptr<Normalizer>> parts;
  const auto& items = element.array("normalizers");
  for (size_t i = 0; i < items.size(); ++i)
    parts.push_back(make_normalizer(JsonObject(items[i], element.place_of("normalizers", i))));
  return std::make_unique<SequenceNormalizer>(std::move(parts));
}

std::unique_ptr<Normalizer> make_plain(const JsonObject& element, CharacterNormalizer::Map map) {
  element.allow_only({"type"});
  return std::make_unique<CharacterNormalizer>(std::move(map));
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonObject& element) {
  const std::string type = element.string("type");
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    element.allow_only({"type"});
    return std::make_unique<NormalFormNormalizer>(type.back() == 'C', type.size() == 4);
  }
  if (type == "Sequence") return make_sequence(element);
  if (type == "Lowercase") return make_plain(element, append_lower_case);
  if (type == "Nmt") return make_plain(element, map_nmt);
  if (type == "StripAccents") return make_plain(element, drop_marks);
  if (type == "BertNormalizer") return make_bert_normalizer(element);
  if (type == "Precompiled") return make_precompiled_normalizer(element);
  if (type == "Replace") return std::make_unique<Replace>(Replacement(element));
  if (type == "ByteLevel") {
    element.allow_only({"type"});
    return std::make_unique<SpellBytes>();
  }
  if (type == "Prepend") {
    element.allow_only({"type", "prepend"});
    return std::make_unique<Prepend>(element.string("prepend"));
  }
  if (type == "Strip") {
    element.allow_only({"type", "strip_left", "strip_right"});
    return std::make_unique<Strip>(element.boolean("strip_left"), element.boolean("strip_right"));
  }
  fail(ErrorKind::data, "{}: unsupported normalizer \"{}\"", element.place(), type);
}

}  // namespace trireme
