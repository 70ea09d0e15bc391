#include "config/python_expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/python_arithmetic.h"
#include "config/python_lookup.h"

namespace trireme {
namespace {

using Kind = PythonObject::Kind;
using TokenKind = PythonToken::Kind;

/// A place in the tokens, and what lies ahead of it.
class PythonCursor {
 protected:
  PythonCursor(const std::vector<PythonToken>& tokens, size_t at, const std::string& path)
      : tokens_(tokens), at_(at), path_(path) {}

  const PythonToken& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool take(std::string_view word) {
    if (!peek().is(word)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view sign) {
    if (!take(sign)) fail_here(fmt::format("missing '{}'", sign));
  }
  bool ends_expression() const {
    const TokenKind kind = peek().kind;
    return kind == TokenKind::newline || kind == TokenKind::end || peek().is(")") || peek().is("]") || peek().is("}") ||
           peek().is("=") || peek().is(";") || peek().is(":");
  }
  [[noreturn]] void fail_here(const std::string& message) const { fail_python(path_, peek().line, message); }
  /// Place of the `if` of a conditional expression that begins here; the number of tokens without one.
  size_t find_question() const {
    int open = 0;
    for (size_t i = at_; i < tokens_.size(); ++i) {
      const PythonToken& token = tokens_[i];
      if (token.is(")") || token.is("]") || token.is("}")) {
        if (open-- == 0) break;
      }
      open += token.is("(") || token.is("[") || token.is("{");
      if (open > 0) continue;
      if (token.is("if")) return i;
      const bool over = token.is(",") || token.is(":") || token.is(";") || token.is("=") || token.is("else") ||
                        token.is("for") || token.kind == TokenKind::newline;
      if (over) break;
    }
    return tokens_.size();
  }
  /// Whether the brackets that are open at this place contain `for`.
  bool comprehension() const {
    int open = 0;
    for (size_t i = at_; i < tokens_.size(); ++i) {
      if (tokens_[i].is(")") || tokens_[i].is("]") || tokens_[i].is("}")) {
        if (open-- == 0) return false;
      }
      open += tokens_[i].is("(") || tokens_[i].is("[") || tokens_[i].is("{");
      if (open == 0 && tokens_[i].is("for")) return true;
    }
    return false;
  }

  const std::vector<PythonToken>& tokens_;
  size_t at_;
  const std::string& path_;
};

/// Operators by their precedence, down to the operands, which primary() reads. While `idle_` is not 0, nothing is
/// evaluated: this is the branch that is not taken.
class PythonOperators : protected PythonCursor {
 public:
  PythonObject several() {
    PythonObject first = one();
    if (!peek().is(",")) return first;
    std::vector<PythonObject> items{std::move(first)};
    while (take(",")) {
      if (ends_expression()) break;
      items.push_back(one());
    }
    return sequence(std::move(items));
  }

  PythonObject one() {
    const Depth depth(*this);
    if (peek().is("lambda")) return lambda();
    const size_t start = at_, question = find_question();
    if (question == tokens_.size()) return disjunction();
    if (idle_ > 0) {
      disjunction();
      at_ = question + 1;
      disjunction();
      expect("else");
      return one();
    }
    at_ = question + 1;  // `a if condition else b`
    const bool chosen = condition(disjunction());
    expect("else");
    if (!chosen) return one();
    idly([&] { return one(); });
    const size_t end = std::exchange(at_, start);
    PythonObject value = disjunction();
    if (at_ != question) fail_here(fmt::format("found \"{}\" before \"if\"", peek().text));
    at_ = end;
    return value;
  }

 protected:
  using PythonCursor::PythonCursor;
  ~PythonOperators() = default;

  virtual PythonObject primary() = 0;

  struct Depth {
    explicit Depth(PythonOperators& of) : evaluator(of) {
      if (++evaluator.depth_ > kMostPythonDepth)
        evaluator.fail_here(fmt::format("an expression nests deeper than {} levels", kMostPythonDepth));
    }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { --evaluator.depth_; }
    PythonOperators& evaluator;
  };

  template <class F>
  PythonObject idly(F evaluate) {
    ++idle_;
    evaluate();
    --idle_;
    return PythonObject::opaque();
  }
  /// The result of `evaluate`; adds file and line to its errors.
  template <class F>
  PythonObject compute(F evaluate) {
    if (idle_ > 0) return PythonObject::opaque();
    try {
      return evaluate();
    } catch (const Error& e) {
      fail_here(e.what());
    }
  }
  bool condition(const PythonObject& object) const {
    const std::optional<bool> truth = python_truth(object);
    if (!truth)
      fail_here("a condition depends on a value that is not known without executing code; write the value instead");
    return *truth;
  }
  PythonObject sequence(std::vector<PythonObject> items) {
    return compute([&] { return PythonObject::of_items(Kind::sequence, std::move(items)); });
  }

  PythonObject disjunction() {
    return either("or", [this] { return either("and", [this] { return negation(); }); });
  }

  /// `or` and `and` give one of their sides, and evaluate the second side only if the first does not decide.
  template <class F>
  PythonObject either(std::string_view word, F side) {
    PythonObject value = side();
    while (take(word)) {
      const std::optional<bool> truth = idle_ > 0 ? std::nullopt : python_truth(value);
      if (truth && *truth == (word == "and")) {
        value = side();
      } else {
        PythonObject other = idly(side);
        if (!truth) value = std::move(other);
      }
    }
    return value;
  }

  PythonObject negation() {
    bool negated = false, any = false;
    while (take("not")) negated = !negated, any = true;
    PythonObject value = comparison();
    if (!any || idle_ > 0) return value;
    const std::optional<bool> truth = python_truth(value);
    return truth ? PythonObject::of(*truth != negated) : PythonObject::opaque();
  }

  std::string comparison_sign() {
    for (const char* sign : {"==", "!=", "<=", ">=", "<", ">", "in"}) {
      if (take(sign)) return sign;
    }
    if (take("is")) return take("not") ? "is not" : "is";
    if (peek().is("not") && peek(1).is("in")) {
      at_ += 2;
      return "not in";
    }
    return "";
  }

  PythonObject comparison() {
    PythonObject left = bits("|");
    std::optional<PythonObject> result;
    for (std::string sign = comparison_sign(); !sign.empty(); sign = comparison_sign()) {
      PythonObject right = bits("|");
      PythonObject step = compute([&] { return python_compare(sign, left, right); });
      const std::optional<bool> before = result ? python_truth(*result) : std::optional(true);
      if (!result || (before && *before)) result = std::move(step);  // a < b < c
      left = std::move(right);
    }
    return result ? *result : left;
  }

  /// | ^ & << >> of whole numbers, each with a higher precedence than the one before.
  PythonObject bits(std::string_view sign) {
    constexpr std::string_view kSigns[] = {"|", "^", "&", "<<"};
    const auto* const level = std::ranges::find(kSigns, sign);
    const auto operand = [&] { return level + 1 == std::end(kSigns) ? sum() : bits(*(level + 1)); };
    PythonObject value = operand();
    while (true) {
      std::string found;
      if (take(sign)) found = sign;
      if (found.empty() && sign == "<<" && take(">>")) found = ">>";
      if (found.empty()) return value;
      const PythonObject right = operand();
      value = combine(found, value, right);
    }
  }

  PythonObject sum() {
    return row({"+", "-"}, [this] { return product(); });
  }
  PythonObject product() {
    return row({"*", "/", "//", "%"}, [this] { return factor(); });
  }

  template <class F>
  PythonObject row(std::initializer_list<const char*> signs, F operand) {
    PythonObject value = operand();
    while (true) {
      const auto* const sign = std::ranges::find_if(signs, [&](const char* one) { return peek().is(one); });
      if (sign == signs.end()) return value;
      ++at_;
      const PythonObject right = operand();
      value = combine(*sign, value, right);
    }
  }

  PythonObject factor() {
    bool negative = false, signed_value = false;
    while (peek().is("-") || peek().is("+")) {  // a loop, not recursion: signs use no stack
      negative = negative != peek().is("-");
      signed_value = true;
      ++at_;
    }
    PythonObject value = power();
    if (!signed_value) return value;
    if (!value.is_value()) return PythonObject::opaque();
    return compute([&] {
      return PythonObject::of(negative ? python_negate(value.value) : python_combine("+", int64_t{0}, value.value));
    });
  }

  PythonObject power() {
    const PythonObject base = primary();
    if (!take("**")) return base;
    const Depth depth(*this);
    const PythonObject exponent = factor();
    return combine("**", base, exponent);
  }

  PythonObject combine(std::string_view sign, const PythonObject& a, const PythonObject& b) {
    if (!a.is_value() || !b.is_value() || (sign == "%" && a.as_text() != nullptr)) return PythonObject::opaque();
    return compute([&] { return PythonObject::of(python_combine(sign, a.value, b.value)); });
  }

  PythonObject lambda() {
    ++at_;
    while (!peek().is(":") && !ends_expression()) ++at_;
    expect(":");
    idly([&] { return one(); });
    return PythonObject::function("a lambda");
  }

  int depth_ = 0, idle_ = 0;
};

/// Operands: names, literals, brackets, calls and formatted strings.
class PythonEvaluator final : public PythonOperators {
 public:
  PythonEvaluator(const std::vector<PythonToken>& tokens, size_t at, PythonScope& scope, const std::string& path)
      : PythonOperators(tokens, at, path), scope_(scope), lookup_(scope, path) {}

  size_t at() const { return at_; }

 private:
  PythonObject primary() override {
    PythonObject value = atom();
    while (true) {
      if (take(".")) {
        value = attribute_of(value);
      } else if (peek().is("(")) {
        value = call(value);
      } else if (take("[")) {
        const Depth depth(*this);
        const bool sliced = slice();
        const PythonObject index = sliced ? PythonObject::opaque() : several();
        expect("]");
        value = sliced ? PythonObject::opaque() : compute([&] { return lookup_.item(value, index); });
      } else {
        return value;
      }
    }
  }

  /// Whether there is a ':' between the brackets: then their content is skipped.
  bool slice() {
    int open = 0;
    for (size_t i = at_; i < tokens_.size() && (open > 0 || !tokens_[i].is("]")); ++i) {
      open += tokens_[i].is("(") || tokens_[i].is("[") || tokens_[i].is("{");
      open -= tokens_[i].is(")") || tokens_[i].is("]") || tokens_[i].is("}");
      if (open > 0 || !tokens_[i].is(":")) continue;
      skip_to("]");
      return true;
    }
    return false;
  }

  PythonObject attribute_of(const PythonObject& value) {
    if (peek().kind != TokenKind::name) fail_here("missing name after '.'");
    const std::string name(tokens_[at_++].text);
    return idle_ > 0 ? PythonObject::opaque() : lookup_.attribute(value, name, peek().line);
  }

  PythonObject call(const PythonObject& function) {
    const Depth depth(*this);
    const PythonToken& place = peek();
    expect("(");
    if (comprehension()) {
      skip_to(")");
      expect(")");
      if (idle_ == 0) lookup_.require_harmless(function, place.line);
      return PythonObject::opaque();
    }
    std::vector<PythonObject> arguments;
    bool plain = true;  // neither a name nor a star before an argument
    while (!peek().is(")")) {
      if (peek().is("*") || peek().is("**")) plain = false, ++at_;
      if (peek().kind == TokenKind::name && peek(1).is("=")) plain = false, at_ += 2;
      arguments.push_back(one());
      if (!take(",")) break;
    }
    expect(")");
    if (idle_ > 0) return PythonObject::opaque();
    lookup_.require_harmless(function, place.line);
    if (!plain || function.kind != Kind::outside) return PythonObject::opaque();
    return compute([&] { return lookup_.call(function, arguments); });
  }

  PythonObject atom() {
    const PythonToken& token = peek();
    if (token.kind == TokenKind::number) {
      ++at_;
      return idle_ > 0 ? PythonObject::opaque() : PythonObject::of(python_number(token, path_));
    }
    if (token.kind == TokenKind::string) return strings();
    if (token.is("(") || token.is("[") || token.is("{")) return bracketed();
    if (token.kind != TokenKind::name || is_python_keyword(token.text)) {
      if (token.kind == TokenKind::newline || token.kind == TokenKind::end) fail_here("missing value");
      fail_here(fmt::format("missing value before \"{}\"", token.text));
    }
    ++at_;
    return idle_ > 0 ? PythonObject::opaque() : lookup_.name(token);
  }

  /// Skips to the bracket that closes this level; a call that could set names is an error.
  void skip_to(std::string_view closing) {
    int open = 0;
    for (; at_ < tokens_.size() && (open > 0 || !peek().is(closing)); ++at_) {
      open += peek().is("(") || peek().is("[") || peek().is("{");
      open -= peek().is(")") || peek().is("]") || peek().is("}");
      if (idle_ > 0) continue;
      if (peek().is(":=")) fail_here("\":=\" is not supported; assign the name in a separate line");
      if (peek().kind != TokenKind::name || !peek(1).is("(")) continue;
      if (!lookup_.is_harmless(std::string(peek().text), tokens_[at_ - 1].is(".")))
        fail_here(fmt::format("{}() is not supported: calls are not executed; write the result instead", peek().text));
    }
  }

  PythonObject bracketed() {
    const Depth depth(*this);
    const bool list = peek().is("["), mapping = peek().is("{");
    const std::string_view closing = list ? "]" : mapping ? "}" : ")";
    ++at_;
    if (comprehension()) {
      skip_to(closing);
      expect(closing);
      return PythonObject::opaque();
    }
    if (mapping) return dictionary();
    if (!list && !peek().is(")")) {
      PythonObject value = several();
      expect(")");
      return value;
    }
    std::vector<PythonObject> items;
    while (!peek().is(closing)) {
      if (peek().is("*")) fail_here("\"*\" before an item of a list is not supported; write the items");
      items.push_back(one());
      if (!take(",")) break;
    }
    expect(closing);
    return sequence(std::move(items));
  }

  PythonObject dictionary() {
    std::vector<PythonObject> items;
    bool pairs = true;
    while (!peek().is("}")) {
      if (take("**") || peek().is("*")) fail_here("\"*\" in a dictionary is not supported; write the items");
      items.push_back(one());
      if (take(":")) {
        items.push_back(one());
      } else {
        pairs = false;  // a set
      }
      if (!take(",")) break;
    }
    expect("}");
    if (!pairs || idle_ > 0) return PythonObject::opaque();
    return compute([&] { return PythonObject::of_items(Kind::mapping, std::move(items)); });
  }

  PythonObject strings() {
    std::string text;
    bool known = true;
    for (; peek().kind == TokenKind::string; ++at_) {
      const PythonToken& token = peek();
      const std::string_view prefix = token.text.substr(0, token.text.find_first_of("'\""));
      if (idle_ > 0) continue;
      if (prefix.find_first_of("bB") != std::string_view::npos) {
        known = false;
      } else if (prefix.find_first_of("fF") == std::string_view::npos) {
        text += python_string(token, path_);
      } else if (const std::optional<std::string> formatted = format(token)) {
        text += *formatted;
      } else {
        known = false;
      }
    }
    return known && idle_ == 0 ? PythonObject::of(std::move(text)) : PythonObject::opaque();
  }

  /// The value of f"..."; nothing if a part of it is not known.
  std::optional<std::string> format(const PythonToken& token) {
    const std::string body = python_string(token, path_);
    std::string out;
    bool known = true;
    for (size_t i = 0; i < body.size(); ++i) {
      const char c = body[i];
      if ((c == '{' || c == '}') && i + 1 < body.size() && body[i + 1] == c) {
        out += c;
        ++i;
      } else if (c == '{') {
        const size_t end = field_end(body, i + 1, token.line);
        const auto part = field(body.substr(i + 1, end - i - 1), token.line);
        known = known && part;
        out += part.value_or("");
        i = end;
      } else if (c == '}') {
        fail_python(path_, token.line, "unmatched '}' in a formatted string");
      } else {
        out += c;
      }
    }
    return known ? std::optional(out) : std::nullopt;
  }

  size_t field_end(const std::string& body, size_t at, int line) const {
    int open = 0;
    for (; at < body.size(); ++at) {
      if (body[at] == '{') ++open;
      if (body[at] == '}' && open-- == 0) return at;
    }
    fail_python(path_, line, "missing '}' in a formatted string");
  }

  /// EXPRESSION[:SPEC] of a formatted string.
  std::optional<std::string> field(const std::string& text, int line) {
    const Depth depth(*this);
    const std::vector<PythonToken> tokens = python_tokens(text, path_, line);
    PythonEvaluator inner(tokens, 0, scope_, path_);
    inner.depth_ = depth_;
    const PythonObject value = inner.several();
    const PythonToken& next = inner.peek();
    std::string spec;
    if (next.is(":")) {
      spec = text.substr(static_cast<size_t>(next.text.data() - text.data()) + 1);
    } else if (next.kind != TokenKind::newline && next.kind != TokenKind::end) {
      if (next.is("!") || next.is("=")) return std::nullopt;
      fail_python(path_, line, fmt::format("found \"{}\" in a formatted string", next.text));
    }
    return value.is_value() ? python_format(value.value, spec) : std::nullopt;
  }

  PythonScope& scope_;
  const PythonLookup lookup_;
};

}  // namespace

PythonObject evaluate_python(const std::vector<PythonToken>& tokens, size_t& at, PythonScope& scope,
                             const std::string& path) {
  PythonEvaluator evaluator(tokens, at, scope, path);
  PythonObject value = evaluator.several();
  at = evaluator.at();
  return value;
}

PythonObject evaluate_one_python(const std::vector<PythonToken>& tokens, size_t& at, PythonScope& scope,
                                 const std::string& path) {
  PythonEvaluator evaluator(tokens, at, scope, path);
  PythonObject value = evaluator.one();
  at = evaluator.at();
  return value;
}

}  // namespace trireme
