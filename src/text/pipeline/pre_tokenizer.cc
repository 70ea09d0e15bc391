#include "text/pipeline/pre_tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/pipeline/metaspace.h"
#include "text/pipeline/piece_delimiter.h"
#include "text/regex/intervals.h"
#include "text/regex/pattern_tree.h"
#include "text/regex/regex.h"
#include "text/unicode.h"

namespace trireme {
namespace {

std::string describe_tables(std::string_view pattern, const Cutter& cutter) {
  return fmt::format("{}: tables of {} states", pattern, cutter.states());
}

/// A prefix space, GPT-2's pattern, and bytes spelled in its alphabet; each can be off.
class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool prefix_space, bool pattern, bool spell)
      : prefix_space_(prefix_space), spell_(spell), cutter_(pattern ? gpt2_cutter() : nullptr) {}

  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    std::string prefixed;
    if (prefix_space_ && !text.starts_with(' ')) {
      Origins origins;
      Rewriting rewriting(text, sink.wants_origins() ? &origins : nullptr);
      rewriting.out += ' ';
      rewriting.took(0);
      rewriting.keep(text.size());
      prefixed = std::move(rewriting.out);
      sink.rewritten(text, prefixed, std::move(origins));
      text = prefixed;
    }
    if (!cutter_) return give(text, at_start, sink);
    const char* const end = text.data() + text.size();
    for (const char* p = text.data(); p < end; at_start = false) {
      const char* const stop = cutter_->next(p, end).end;
      give({p, static_cast<size_t>(stop - p)}, at_start, sink);
      p = stop;
    }
  }

  bool cuts_before_space() const override { return cutter_ && !prefix_space_; }
  bool plan(CutPlan& plan) const override {
    if (prefix_space_ || plan.spelled()) return false;
    if (cutter_) plan.add({cutter_});
    plan.spell();
    return true;
  }
  void describe(std::vector<std::string>& lines) const override {
    if (prefix_space_) lines.emplace_back("a space before the text");
    if (cutter_) lines.push_back(describe_tables("GPT-2's pattern", *cutter_));
    lines.emplace_back("bytes in GPT-2's alphabet");
  }

 private:
  void give(std::string_view piece, bool at_start, PieceSink& sink) const {
    if (!spell_) return sink.piece(piece, at_start);
    Origins origins;
    const std::string spelled = spell_bytes(piece, sink.wants_origins() ? &origins : nullptr);
    sink.rewritten(piece, spelled, std::move(origins));
    sink.piece(spelled, at_start);
  }

  bool prefix_space_, spell_;
  std::shared_ptr<const Cutter> cutter_;  // null: the text is one piece
};

/// A regular expression, by tables if possible, otherwise by PCRE2; or a string.
struct SplitPattern {
  std::string expression, literal;  // one of them is empty
  std::shared_ptr<const Cutter> cutter;
  std::optional<Regex> regex;
  std::string refusal;  // why tables cannot express it
};

SplitPattern compile_pattern(std::string expression, const std::string& place) {
  SplitPattern pattern;
  pattern.expression = std::move(expression);
  try {
    pattern.cutter = std::make_shared<const Cutter>(pattern.expression, Cutter::Text::utf8);
  } catch (const NotForTables& error) {
    pattern.refusal = error.what();
    pattern.regex.emplace(pattern.expression, place);
  }
  return pattern;
}

SplitPattern read_split_pattern(const JsonObject& element) {
  const JsonObject body = element.object("pattern");
  body.allow_only({"String", "Regex"});
  if (body.has("Regex"))
    return compile_pattern(without_repeated_intervals(body.string("Regex"), body.place()), body.place());
  SplitPattern pattern;
  pattern.literal = body.string("String");
  require(!pattern.literal.empty(), ErrorKind::data, "{}: the pattern is empty", body.place());
  return pattern;
}

/// Matches of a pattern are delimiters or, if inverted, the text between them is.
class PatternSplit final : public PreTokenizer {
 public:
  PatternSplit(SplitPattern pattern, DelimiterBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    DelimiterSplitter splitter(text, at_start, behavior_, sink);
    size_t plain = 0;
    const auto match = [&](size_t begin, size_t end) {
      if (begin > plain) splitter.part(plain, begin, invert_);
      splitter.part(begin, end, !invert_);
      plain = end;
    };
    if (pattern_.cutter) {
      const char* const end = text.data() + text.size();
      for (const char* p = text.data(); p < end;) {
        const Cutter::Part part = pattern_.cutter->next(p, end);
        const auto offset = [&](const char* at) { return static_cast<size_t>(at - text.data()); };
        if (part.matched) match(offset(p), offset(part.end));
        p = part.end;
      }
    } else if (pattern_.regex) {
      for_each_valid_run(text, [&](std::string_view run, bool valid) {
        const auto offset = static_cast<size_t>(run.data() - text.data());
        if (valid)
          for_each_match(*pattern_.regex, run, [&](size_t from, size_t to) { match(offset + from, offset + to); });
      });
    } else {
      const std::string& literal = pattern_.literal;
      for (size_t at = 0; (at = text.find(literal, at)) != std::string_view::npos; at += literal.size())
        match(at, at + literal.size());
    }
    if (plain < text.size()) splitter.part(plain, text.size(), invert_);
    splitter.finish();
  }

  bool plan(CutPlan& plan) const override {
    const bool isolated = behavior_ == DelimiterBehavior::isolated;
    if (!pattern_.cutter || (!isolated && behavior_ != DelimiterBehavior::removed)) return false;
    const auto cutter =
        plan.spelled() ? std::make_shared<const Cutter>(pattern_.expression, plan.text()) : pattern_.cutter;
    plan.add({cutter, isolated || invert_, isolated || !invert_});
    return true;
  }
  void describe(std::vector<std::string>& lines) const override {
    if (pattern_.cutter)
      lines.push_back(describe_tables(pattern_.expression, *pattern_.cutter));
    else if (pattern_.regex)
      lines.push_back(fmt::format("{}: PCRE2, because it has {}", pattern_.expression, pattern_.refusal));
    else
      lines.push_back(fmt::format("the string \"{}\"", pattern_.literal));
  }

 private:
  SplitPattern pattern_;
  DelimiterBehavior behavior_;
  bool invert_;
};

/// Words and runs of other characters, without white space: \w+|[^\w\s]+.
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
  void describe(std::vector<std::string>& lines) const override {
    lines.emplace_back("words and runs of other characters, without white space");
  }
};

/// Removes white space; each punctuation character is a separate piece.
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
  void describe(std::vector<std::string>& lines) const override {
    lines.emplace_back("words and single punctuation characters, without white space");
  }
};

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}

  void split(std::string_view text, bool at_start, PieceSink& sink) const override {
    if (parts_.empty()) return sink.piece(text, at_start);
    Stage(*this, 0, sink).piece(text, at_start);
  }
  /// The first one sees the cut; the others see its pieces, which are the same on both sides.
  bool cuts_before_space() const override {
    if (parts_.empty()) return false;
    for (const auto& part : parts_) {
      if (!part->cuts_before_space()) return false;
    }
    return true;
  }
  bool plan(CutPlan& plan) const override {
    return std::all_of(parts_.begin(), parts_.end(), [&](const auto& part) { return part->plan(plan); });
  }
  void describe(std::vector<std::string>& lines) const override {
    for (const auto& part : parts_) part->describe(lines);
  }

 private:
  /// Receives pieces for part number `index` and passes its pieces to the next one.
  class Stage final : public PieceSink {
   public:
    Stage(const SequencePreTokenizer& owner, size_t index, PieceSink& sink)
        : owner_(owner), index_(index), sink_(sink) {}
    void piece(std::string_view text, bool at_start) override {
      if (index_ == owner_.parts_.size()) return sink_.piece(text, at_start);
      Stage next(owner_, index_ + 1, sink_);
      owner_.parts_[index_]->split(text, at_start, next);
    }
    bool wants_origins() const override { return sink_.wants_origins(); }
    void rewritten(std::string_view before, std::string_view after, Origins origins) override {
      sink_.rewritten(before, after, std::move(origins));
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
          "{}: \"{}\" is \"{}\", expected one character", element.place(), key, text);
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

/// Characters of a kind are delimiters: elements equal to a pattern of one set.
std::unique_ptr<PreTokenizer> make_by_character(const JsonObject& element, const std::string& type) {
  const auto make = [&](std::string set, DelimiterBehavior behavior) {
    if (behavior == DelimiterBehavior::contiguous) {  // runs of them, each run one delimiter
      set += '+';
      behavior = DelimiterBehavior::isolated;
    }
    return std::make_unique<PatternSplit>(compile_pattern(std::move(set), element.place()), behavior, false);
  };
  if (type == "WhitespaceSplit") {
    element.allow_only({"type"});
    return make(R"(\s)", DelimiterBehavior::removed);
  }
  if (type == "Punctuation") {
    element.allow_only({"type", "behavior"});
    return make(R"([!-\/:-@\[-`{-~\p{P}])", read_behavior(element, "Isolated"));
  }
  if (type == "Digits") {
    element.allow_only({"type", "individual_digits"});
    return make(R"(\p{N})",
                element.boolean("individual_digits") ? DelimiterBehavior::isolated : DelimiterBehavior::contiguous);
  }
  if (type == "CharDelimiterSplit") {
    element.allow_only({"type", "delimiter"});
    return make(fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(read_character(element, "delimiter"))),
                DelimiterBehavior::removed);
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
    return {std::make_unique<PatternSplit>(read_split_pattern(element), read_behavior(element, ""),
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
  require(by_character != nullptr, ErrorKind::data, "{}: unsupported pre-tokenizer \"{}\"", element.place(), type);
  return {std::move(by_character), false};
}

}  // namespace trireme
