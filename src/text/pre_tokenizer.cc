#include "text/pre_tokenizer.h"

#include <functional>
#include <vector>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/gpt2_scanner.h"
#include "text/metaspace.h"
#include "text/piece_delimiter.h"
#include "text/replacement.h"
#include "text/unicode.h"

namespace trireme {
namespace {

/// A prefix space, GPT-2's pattern, and bytes spelled in its alphabet: each of the three can be off.
class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool prefix_space, bool pattern, bool spell)
      : prefix_space_(prefix_space), pattern_(pattern), spell_(spell) {}

  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    std::string prefixed;
    if (prefix_space_ && !text.starts_with(' ')) {
      prefixed.reserve(text.size() + 1);
      prefixed.append(" ").append(text);
      text = prefixed;
    }
    if (!pattern_) return give(text, at_start, sink);
    for (Gpt2Scanner scanner(text); !scanner.done(); at_start = false) give(scanner.next(), at_start, sink);
  }

  bool cuts_before_space() const override { return pattern_ && !prefix_space_; }
  bool is_plain_gpt2() const override { return pattern_ && !prefix_space_ && !spell_; }

 private:
  void give(std::string_view piece, bool at_start, PieceSink& sink) const {
    if (spell_)
      sink.piece(spell_bytes(piece), at_start);
    else
      sink.piece(piece, at_start);
  }

  bool prefix_space_, pattern_, spell_;
};

/// Characters of some kind are delimiters, each one by itself.
class CharacterSplit final : public PreTokenizer {
 public:
  using IsDelimiter = std::function<bool(char32_t)>;
  CharacterSplit(IsDelimiter is_delimiter, DelimiterBehavior behavior)
      : is_delimiter_(std::move(is_delimiter)), behavior_(behavior) {}

  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    DelimiterSplitter splitter(text, at_start, behavior_, sink);
    size_t plain = 0;
    for (size_t at = 0; at < text.size();) {
      const Decoded next = decode_utf8(text.data() + at, text.data() + text.size());
      if (is_delimiter_(next.code)) {
        splitter.part(plain, at, false);
        splitter.part(at, at + next.length, true);
        plain = at + next.length;
      }
      at += next.length;
    }
    splitter.part(plain, text.size(), false);
    splitter.finish();
  }

 private:
  IsDelimiter is_delimiter_;
  DelimiterBehavior behavior_;
};

/// Matches of a pattern are delimiters, or, inverted, what lies between them.
class PatternSplit final : public PreTokenizer {
 public:
  PatternSplit(TextPattern pattern, DelimiterBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    DelimiterSplitter splitter(text, at_start, behavior_, sink);
    size_t plain = 0;
    const auto match = [&](size_t begin, size_t end) {
      if (begin == end) return;
      splitter.part(plain, begin, invert_);
      splitter.part(begin, end, !invert_);
      plain = end;
    };
    if (pattern_.regex) {
      for_each_valid_run(text, [&](std::string_view run, bool valid) {
        if (valid) matches(run, static_cast<size_t>(run.data() - text.data()), match);
      });
    } else {
      const std::string& literal = pattern_.literal;
      for (size_t at = 0; (at = text.find(literal, at)) != std::string_view::npos; at += literal.size())
        match(at, at + literal.size());
    }
    splitter.part(plain, text.size(), invert_);
    splitter.finish();
  }

 private:
  template <class Match>
  void matches(std::string_view run, size_t offset, Match match) const {
    Regex::Match found{};
    Regex::Search search(*pattern_.regex, run);
    for (size_t at = 0; at < run.size() && search.next(at, found);) {
      match(offset + found.begin, offset + found.end);
      at = found.end;
      if (found.end == found.begin && at < run.size())
        at += decode_utf8(run.data() + at, run.data() + run.size()).length;
    }
  }

  TextPattern pattern_;
  DelimiterBehavior behavior_;
  bool invert_;
};

/// Words and runs of other characters; white space goes away: \w+|[^\w\s]+.
class Whitespace final : public PreTokenizer {
 public:
  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    enum class Kind { space, word, other };
    const auto kind_of = [](char32_t code) {
      const uint8_t bits = char_table()[code];
      return bits & kSpace ? Kind::space : bits & kWord ? Kind::word : Kind::other;
    };
    size_t begin = 0;
    Kind kind = Kind::space;
    const auto give = [&](size_t end) {
      if (kind != Kind::space) sink.piece(text.substr(begin, end - begin), at_start && begin == 0);
    };
    for (size_t at = 0; at < text.size();) {
      const Decoded next = decode_utf8(text.data() + at, text.data() + text.size());
      const Kind found = kind_of(next.code);
      if (found != kind) {
        if (at > begin) give(at);
        begin = at;
        kind = found;
      }
      at += next.length;
    }
    if (text.size() > begin) give(text.size());
  }
  bool cuts_before_space() const override { return true; }
};

/// White space goes away, each punctuation character is a piece of its own.
class BertSplit final : public PreTokenizer {
 public:
  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    const CharTable& table = char_table();
    size_t begin = 0;
    const auto give = [&](size_t from, size_t to) {
      if (to > from) sink.piece(text.substr(from, to - from), at_start && from == 0);
    };
    for (size_t at = 0; at < text.size();) {
      const Decoded next = decode_utf8(text.data() + at, text.data() + text.size());
      const bool space = (table[next.code] & kSpace) != 0;
      if (space || is_punctuation(next.code)) {
        give(begin, at);
        begin = at + next.length;
        if (!space) give(at, begin);
      }
      at += next.length;
    }
    give(begin, text.size());
  }
  bool cuts_before_space() const override { return true; }
};

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}

  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    if (parts_.empty()) return sink.piece(text, at_start);
    Stage(*this, 0, sink).piece(text, at_start);
  }
  /// The first one sees the cut; the others see pieces that it made the same on both sides.
  bool cuts_before_space() const override {
    if (parts_.empty()) return false;
    for (const auto& part : parts_) {
      if (!part->cuts_before_space()) return false;
    }
    return true;
  }
  bool is_plain_gpt2() const override { return parts_.size() == 1 && parts_[0]->is_plain_gpt2(); }

 private:
  /// Takes pieces for part number `index` and gives its pieces to the next one.
  class Stage final : public PieceSink {
   public:
    Stage(const SequencePreTokenizer& owner, size_t index, PieceSink& sink)
        : owner_(owner), index_(index), sink_(sink) {}
    void piece(std::string_view text, bool at_start) override {
      if (index_ == owner_.parts_.size()) return sink_.piece(text, at_start);
      Stage next(owner_, index_ + 1, sink_);
      owner_.parts_[index_]->split(text, at_start, next);
    }

   private:
    const SequencePreTokenizer& owner_;
    size_t index_;
    PieceSink& sink_;
  };

  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

char32_t read_character(const JsonObject& element, std::string_view key) {
  const std::string text = element.string(key);
  const Decoded first = text.empty() ? Decoded{kInvalidCode, 0} : decode_utf8(text.data(), text.data() + text.size());
  require(first.code != kInvalidCode && first.length == text.size(), ErrorKind::data,
          "{}: \"{}\" is \"{}\", one character was expected", element.place(), key, text);
  return first.code;
}

PreTokenizerResult make_sequence(const JsonObject& element, bool raw_bytes_possible) {
  element.allow_only({"type", "pretokenizers"});
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  const auto& items = element.array("pretokenizers");
  bool raw_bytes = false;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool last = i + 1 == items.size();
    PreTokenizerResult part =
        make_pre_tokenizer(JsonObject(items[i], element.place_of("pretokenizers", i)), raw_bytes_possible && last);
    parts.push_back(std::move(part.pre_tokenizer));
    raw_bytes = part.raw_bytes;
  }
  return {std::make_unique<SequencePreTokenizer>(std::move(parts)), raw_bytes};
}

std::unique_ptr<PreTokenizer> make_by_character(const JsonObject& element, const std::string& type) {
  const auto make = [](CharacterSplit::IsDelimiter is_delimiter, DelimiterBehavior behavior) {
    return std::make_unique<CharacterSplit>(std::move(is_delimiter), behavior);
  };
  if (type == "WhitespaceSplit") {
    element.allow_only({"type"});
    return make([](char32_t c) { return (char_table()[c] & kSpace) != 0; }, DelimiterBehavior::removed);
  }
  if (type == "Punctuation") {
    element.allow_only({"type", "behavior"});
    return make(is_punctuation, read_behavior(element, "Isolated"));
  }
  if (type == "Digits") {
    element.allow_only({"type", "individual_digits"});
    return make([](char32_t c) { return (char_table()[c] & kNumber) != 0; },
                element.boolean("individual_digits") ? DelimiterBehavior::isolated : DelimiterBehavior::contiguous);
  }
  if (type == "CharDelimiterSplit") {
    element.allow_only({"type", "delimiter"});
    const char32_t delimiter = read_character(element, "delimiter");
    return make([delimiter](char32_t c) { return c == delimiter; }, DelimiterBehavior::removed);
  }
  return nullptr;
}

}  // namespace

PreTokenizerResult make_pre_tokenizer(const JsonObject& element, bool raw_bytes_possible) {
  const std::string type = element.string("type");
  if (type == "Sequence") return make_sequence(element, raw_bytes_possible);
  if (type == "ByteLevel") {
    element.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {std::make_unique<ByteLevel>(element.boolean("add_prefix_space", true), element.boolean("use_regex", true),
                                        !raw_bytes_possible),
            raw_bytes_possible};
  }
  if (type == "Split") {
    element.allow_only({"type", "pattern", "behavior", "invert"});
    return {std::make_unique<PatternSplit>(read_pattern(element), read_behavior(element, ""),
                                           element.boolean("invert", false)),
            false};
  }
  if (type == "Metaspace") return {make_metaspace(element), false};
  if (type == "BertPreTokenizer" || type == "Whitespace") {
    element.allow_only({"type"});
    if (type == "Whitespace") return {std::make_unique<Whitespace>(), false};
    return {std::make_unique<BertSplit>(), false};
  }
  std::unique_ptr<PreTokenizer> by_character = make_by_character(element, type);
  require(by_character != nullptr, ErrorKind::data, "{}: the pre-tokenizer \"{}\" is not implemented", element.place(),
          type);
  return {std::move(by_character), false};
}

}  // namespace trireme
