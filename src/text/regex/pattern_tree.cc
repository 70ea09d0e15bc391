#include "text/regex/pattern_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

using Kind = PatternTree::Kind;

constexpr unsigned kMostRepeats = 255, kMostDepth = 50;

bool is_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }

CodeSet set_of(std::initializer_list<const char*> categories) {
  CodeSet set;
  for (const char* name : categories) set.add(CodeSet::category(name).value());
  return set;
}

/// Adds the characters that (?i) treats as equal. Supports ASCII letters only, two of which have a third form.
CodeSet without_case(const CodeSet& set) {
  CodeSet result = set;
  for (const CodeSet::Range& range : set.ranges()) {
    if (range.last >= 0x80) throw NotForTables("(?i) over characters beyond ASCII");
    for (char32_t c = range.first; c <= range.last; ++c) {
      if (!is_letter(c)) continue;
      result.add({c ^ 0x20, c ^ 0x20});
      if ((c | 0x20) == 'k') result.add({0x212A, 0x212A});
      if ((c | 0x20) == 's') result.add({0x17F, 0x17F});
    }
  }
  return result;
}

/// Characters with which a match of the tree can begin. The tree must consume at least one.
CodeSet first_of(const PatternTree& tree) {
  switch (tree.kind) {
    case Kind::set:
      return tree.set;
    case Kind::repeat:
      return first_of(tree.parts[0]);
    case Kind::choice: {
      CodeSet set;
      for (const PatternTree& part : tree.parts) set.add(first_of(part));
      return set;
    }
    case Kind::sequence: {
      CodeSet set;
      for (const PatternTree& part : tree.parts) {
        set.add(first_of(part));
        if (!matches_nothing(part)) break;
      }
      return set;
    }
    default:
      return {};
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  PatternTree parse() {
    PatternTree tree = choice(false, true);
    if (!done()) throw NotForTables("a ) without (");
    return tree;
  }

 private:
  bool done() const { return at_ == text_.size(); }
  bool next_is(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool take(std::string_view word) {
    if (!next_is(word)) return false;
    at_ += word.size();
    return true;
  }
  char32_t character() {
    if (done()) throw NotForTables("no end");
    const Decoded next = decode_utf8(text_.data() + at_, text_.data() + text_.size());
    if (next.code == kInvalidCode) throw NotForTables("bytes that are not UTF-8");
    at_ += next.length;
    return next.code;
  }

  /// `last`: it ends the expression.
  PatternTree choice(bool fold, bool last) {
    if (++depth_ > kMostDepth) throw NotForTables("groups nested too deeply");
    PatternTree tree;
    tree.kind = Kind::choice;
    do tree.parts.push_back(sequence(fold, last));
    while (take("|"));
    --depth_;
    if (tree.parts.size() == 1) return std::move(tree.parts[0]);
    return tree;
  }

  PatternTree sequence(bool fold, bool last) {
    PatternTree tree;
    std::vector<size_t> possessive;  // indices of possessive parts
    while (!done() && !next_is("|") && !next_is(")")) {
      if (take("$")) {
        const bool at_end = !possessive.empty() && possessive.back() + 1 == tree.parts.size() &&
                            tree.parts.back().most == PatternTree::kNoLimit &&
                            tree.parts.back().parts[0].set.contains('\n');
        tree.parts.push_back(at_end ? end_of_text(last, "$") : end_of_line());
        continue;
      }
      if (take("\\z")) {
        tree.parts.push_back(end_of_text(last, "\\z"));
        continue;
      }
      PatternTree part = atom(fold);
      if (repetition(part)) possessive.push_back(tree.parts.size());
      tree.parts.push_back(std::move(part));
    }
    for (const size_t i : possessive) check_possessive(tree, i, last);
    return tree;
  }

  /// $ matches before a line break or at the end. After all line breaks only the end is possible.
  static PatternTree end_of_line() {
    PatternTree tree;
    tree.kind = Kind::next_out;
    tree.set = CodeSet('\n', '\n').complement();
    return tree;
  }

  PatternTree end_of_text(bool last, const char* word) const {
    if (!last || !(done() || next_is("|"))) throw NotForTables(fmt::format("a {} with more after it", word));
    PatternTree tree;
    tree.kind = Kind::at_end;
    return tree;
  }

  /// X++ is X+ if the following part cannot match after fewer repetitions: it never fails, or cannot begin with X.
  static void check_possessive(const PatternTree& sequence, size_t index, bool last) {
    const auto refuse = [] { throw NotForTables("a possessive repetition that is not the same as a greedy one"); };
    const PatternTree& part = sequence.parts[index];
    if (part.parts[0].kind != Kind::set) refuse();
    const CodeSet& set = part.parts[0].set;
    bool can_fail = false;
    for (size_t i = index + 1; i < sequence.parts.size(); ++i) {
      const PatternTree& next = sequence.parts[i];
      if (next.kind == Kind::at_end) return;
      if (next.kind == Kind::next_in || next.kind == Kind::next_out) refuse();
      can_fail = can_fail || !matches_nothing(next);
    }
    if (!can_fail && last) return;
    PatternTree rest;
    rest.parts.assign(sequence.parts.begin() + static_cast<ptrdiff_t>(index) + 1, sequence.parts.end());
    if (!can_fail || first_of(rest).intersects(set)) refuse();
  }

  PatternTree atom(bool fold) {
    if (take("(")) return group(fold);
    PatternTree tree;
    tree.kind = Kind::set;
    if (take("[")) {
      tree.set = char_class(fold);
    } else if (take(".")) {
      tree.set = CodeSet('\n', '\n').complement();
    } else if (take("\\")) {
      tree.set = escape(fold, false);
    } else {
      const char32_t c = character();
      if (c == '^') throw NotForTables("a ^");
      if (c == '*' || c == '+' || c == '?') throw NotForTables("a repetition of nothing");
      tree.set = folded({c, c}, fold);
    }
    return tree;
  }

  static CodeSet folded(const CodeSet& set, bool fold) { return fold ? without_case(set) : set; }

  PatternTree group(bool fold) {
    const bool in = take("?="), out = !in && take("?!");
    if (in || out) return look(fold, in);
    if (take("?i:"))
      fold = true;
    else if (next_is("?<=") || next_is("?<!"))
      throw NotForTables("a lookbehind");
    else if (!take("?:") && (next_is("?") || next_is("*")))
      throw NotForTables(fmt::format("a group ({}", text_.substr(at_, 2)));
    PatternTree tree = choice(fold, false);
    if (!take(")")) throw NotForTables("a ( without )");
    return tree;
  }

  PatternTree look(bool fold, bool in) {
    PatternTree tree = choice(fold, false);
    if (!take(")")) throw NotForTables("a ( without )");
    while (tree.kind == Kind::sequence && tree.parts.size() == 1) tree = PatternTree(std::move(tree.parts[0]));
    if (tree.kind != Kind::set) throw NotForTables("a lookahead of more than one character");
    tree.kind = in ? Kind::next_in : Kind::next_out;
    return tree;
  }

  /// Reads ? * + {2,3} after a part; true: it is possessive.
  bool repetition(PatternTree& part) {
    unsigned least = 0, most = PatternTree::kNoLimit;
    if (take("?")) {
      most = 1;
    } else if (take("+")) {
      least = 1;
    } else if (!take("*")) {
      if (!next_is("{") || !bounds(least, most)) return false;
    }
    if (part.kind == Kind::next_in || part.kind == Kind::next_out || matches_nothing(part))
      throw NotForTables("a repetition of a part that can be empty");
    PatternTree tree;
    tree.kind = Kind::repeat;
    tree.least = least;
    tree.most = most;
    tree.lazy = take("?");
    const bool possessive = !tree.lazy && take("+");
    if (next_is("?") || next_is("*") || next_is("+") || next_is("{"))
      throw NotForTables("a repetition of a repetition");
    tree.parts.push_back(std::move(part));
    part = std::move(tree);
    return possessive;
  }

  bool bounds(unsigned& least, unsigned& most) {
    const size_t start = at_;
    ++at_;
    const bool has_least = number(least);
    most = least;
    if (take(",") && !number(most)) most = PatternTree::kNoLimit;
    if (!has_least || !take("}")) {
      // Engines read these literally or by their own rules.
      throw NotForTables(fmt::format("the repetition {}", text_.substr(start, 8)));
    }
    if (least > most || most == 0) throw NotForTables("a repetition of zero times");
    return true;
  }

  bool number(unsigned& value) {
    if (done() || !is_digit(static_cast<uint8_t>(text_[at_]))) return false;
    value = 0;
    while (!done() && is_digit(static_cast<uint8_t>(text_[at_]))) {
      value = value * 10 + static_cast<unsigned>(text_[at_++] - '0');
      if (value > kMostRepeats) throw NotForTables("a repetition of too many times");
    }
    return true;
  }

  /// After the backslash.
  CodeSet escape(bool fold, bool in_class) {
    const char32_t c = character();
    switch (c) {
      case 'r':
        return {'\r', '\r'};
      case 'n':
        return {'\n', '\n'};
      case 't':
        return {'\t', '\t'};
      case 'f':
        return {'\f', '\f'};
      case 's':
        return white_space();
      case 'w':
        return word_characters(!in_class);
      case 'd':
        return set_of({"Nd"});
      case 'D':
        return set_of({"Nd"}).complement();
      case 'S':
      case 'W':
        if (in_class) throw NotForTables(fmt::format("\\{} inside [...]", static_cast<char>(c)));
        return (c == 'S' ? white_space() : word_characters(true)).complement();
      case 'p':
      case 'P':
        if (fold) throw NotForTables("a property under (?i)");
        return property(c == 'P');
      case 'x':
        return folded(hexadecimal(), fold);
      default:
        if (c >= 0x80 || is_letter(c) || is_digit(c)) throw NotForTables("an escape of another kind");
        return {c, c};
    }
  }

  CodeSet property(bool negated) {
    std::string name;
    if (take("{")) {
      negated = take("^") != negated;
      while (!done() && !next_is("}")) name.push_back(text_[at_++]);
      if (!take("}")) throw NotForTables("a { without }");
    } else {
      name.push_back(static_cast<char>(character()));
    }
    std::optional<CodeSet> set = name == "L&" ? set_of({"Lu", "Ll", "Lt"}) : CodeSet::category(name);
    if (!set) throw NotForTables(fmt::format("the property {}", name));
    return negated ? set->complement() : *set;
  }

  /// \x{4e00} or \xe9.
  CodeSet hexadecimal() {
    const bool braces = take("{");
    char32_t value = 0;
    size_t digits = 0;
    for (; !done() && (braces || digits < 2); ++digits, ++at_) {
      const char c = text_[at_], lower = static_cast<char>(c | 0x20);
      if (c >= '0' && c <= '9')
        value = value * 16 + static_cast<char32_t>(c - '0');
      else if (lower >= 'a' && lower <= 'f')
        value = value * 16 + static_cast<char32_t>(lower - 'a' + 10);
      else
        break;
      if (value >= kInvalidCode) throw NotForTables("a code point beyond Unicode");
    }
    if (digits == 0 || (braces && !take("}"))) throw NotForTables("an \\x without digits");
    return {value, value};
  }

  /// After the [. Nested sets are joined to the set.
  CodeSet char_class(bool fold) {
    if (++depth_ > kMostDepth) throw NotForTables("sets nested too deeply");
    const bool negated = take("^");
    CodeSet set;
    for (bool first = true; first || !next_is("]"); first = false) {
      if (next_is("&&") || next_is("[:")) throw NotForTables(fmt::format("{} inside of [...]", text_.substr(at_, 2)));
      if (take("[")) {
        set.add(char_class(fold));
        continue;
      }
      CodeSet item = class_item(fold);
      const bool one = item.ranges().size() == 1 && item.ranges()[0].first == item.ranges()[0].last;
      if (next_is("-") && !next_is("-]")) {
        ++at_;
        const CodeSet end = next_is("[") ? CodeSet() : class_item(fold);
        if (!one || end.ranges().size() != 1 || end.ranges()[0].first != end.ranges()[0].last ||
            end.ranges()[0].first < item.ranges()[0].first)
          throw NotForTables("a - in [...] that is not a range");
        item = CodeSet(item.ranges()[0].first, end.ranges()[0].first);
      }
      set.add(folded(item, fold && item.ranges().size() == 1));
    }
    ++at_;
    --depth_;
    return negated ? set.complement() : set;
  }

  CodeSet class_item(bool fold) {
    if (take("\\")) {
      // The ends of a range are folded with it, after the range.
      const bool plain = next_is("x");
      return escape(fold && !plain, true);
    }
    const char32_t c = character();
    return {c, c};
  }

  std::string_view text_;
  size_t at_ = 0;
  unsigned depth_ = 0;
};

}  // namespace

bool matches_nothing(const PatternTree& tree) {
  const auto nothing = [](const PatternTree& part) { return matches_nothing(part); };
  switch (tree.kind) {
    case Kind::set:
      return false;
    case Kind::sequence:
      return std::all_of(tree.parts.begin(), tree.parts.end(), nothing);
    case Kind::choice:
      return std::any_of(tree.parts.begin(), tree.parts.end(), nothing);
    case Kind::repeat:
      return tree.least == 0 || matches_nothing(tree.parts[0]);
    default:
      return true;
  }
}

PatternTree parse_pattern(std::string_view pattern) { return Parser(pattern).parse(); }

}  // namespace trireme
