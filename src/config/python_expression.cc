#include "config/python_values.h"

#include <fmt/format.h>

#include <utility>

namespace trireme {
namespace {

using Kind = PythonObject::Kind;
using TokenKind = PythonToken::Kind;

/// Binary operators, those with the lowest precedence first; all belong to their left side first.
constexpr const char* kOperators[] = {"|", "^", "&", "<< >>", "+ -", "* / // %"};

int precedence(std::string_view sign) {
  const auto* const level =
      std::ranges::find_if(kOperators, [&](const char* signs) { return lists_word(signs, sign); });
  return level == std::end(kOperators) ? -1 : static_cast<int>(level - kOperators);
}

/// While `idle_` is not 0, nothing is evaluated, and all values are opaque: this is the branch that is not taken.
class PythonExpression {
 public:
  PythonExpression(PythonCursor& in, PythonNamespace& names, int depth) : in_(in), names_(names), depth_(depth) {}

  PythonObject several() {
    PythonObject first = one();
    if (!peek().is(",")) return first;
    std::vector<PythonObject> items{std::move(first)};
    while (take(",") && !peek().ends_line() &&
           !(peek().kind == TokenKind::sign && lists_word(") ] } = ; :", peek().text)))
      items.push_back(one());
    return collection(Kind::sequence, std::move(items));
  }

  PythonObject one() {
    return nested([this] { return peek().is("lambda") ? lambda() : conditional(); });
  }

 private:
  const PythonToken& peek(size_t ahead = 0) const { return in_.peek(ahead); }
  bool take(std::string_view word) { return in_.take(word); }

  /// The only recursion: signs before an expression use no stack.
  template <class F>
  PythonObject nested(F evaluate) {
    constexpr int kMostDepth = 64;
    require(++depth_ <= kMostDepth, ErrorKind::config, "an expression nests deeper than {} levels", kMostDepth);
    PythonObject value = evaluate();
    --depth_;
    return value;
  }
  template <class F>
  void idly(F evaluate) {
    ++idle_;
    evaluate();
    --idle_;
  }
  PythonObject collection(Kind kind, std::vector<PythonObject> items) const {
    return idle_ > 0 ? PythonObject::opaque() : PythonObject::of_items(kind, std::move(items));
  }

  PythonObject lambda() {
    in_.at = in_.find({":"});
    in_.expect(":");
    idly([this] { one(); });
    return PythonObject::function("a lambda");
  }

  PythonObject conditional() {
    const size_t start = in_.at, question = in_.find({"if", ",", ":", ";", "=", "else", "for"});
    if (!in_.tokens[question].is("if")) return disjunction();
    in_.at = question + 1;  // `a if condition else b`
    const std::optional<bool> chosen = python_truth(disjunction());
    require(idle_ > 0 || chosen, ErrorKind::config,
            "a condition depends on a value that is not known without executing code; write the value instead");
    in_.expect("else");
    if (!chosen.value_or(false)) return one();
    idly([this] { one(); });
    const size_t end = std::exchange(in_.at, start);
    PythonObject value = disjunction();
    require(in_.at == question, ErrorKind::config, "found \"{}\" before \"if\"", peek().text);
    in_.at = end;
    return value;
  }

  PythonObject disjunction() {
    return either("or", [this] { return either("and", [this] { return negation(); }); });
  }

  /// `or` and `and` give one of their sides, and evaluate the second side only if the first does not decide.
  template <class F>
  PythonObject either(std::string_view word, F side) {
    PythonObject value = side();
    while (take(word)) {
      const std::optional<bool> truth = python_truth(value);
      if (truth && *truth == (word == "and"))
        value = side();
      else
        idly(side);
    }
    return value;
  }

  PythonObject negation() {
    int count = 0;
    while (take("not")) ++count;
    PythonObject value = comparison();
    const std::optional<bool> truth = python_truth(value);
    return count == 0 || !truth ? value : PythonObject::of(*truth == (count % 2 == 0));
  }

  std::string comparison_sign() {
    for (const char* sign : {"==", "!=", "<=", ">=", "<", ">", "in"}) {
      if (take(sign)) return sign;
    }
    if (take("is")) return take("not") ? "is not" : "is";
    if (!peek().is("not") || !peek(1).is("in")) return "";
    in_.at += 2;
    return "not in";
  }

  PythonObject comparison() {
    PythonObject left = binary(0);
    std::optional<PythonObject> result;
    for (std::string sign = comparison_sign(); !sign.empty(); sign = comparison_sign()) {
      PythonObject right = binary(0);
      PythonObject step = python_compare(sign, left, right);
      if (!result || python_truth(*result).value_or(false)) result = std::move(step);  // a < b < c
      left = std::move(right);
    }
    return result.value_or(left);
  }

  /// Operators of at least this precedence.
  PythonObject binary(int lowest) {
    PythonObject value = factor();
    while (true) {
      const std::string_view sign = peek().kind == TokenKind::sign ? peek().text : "";
      const int level = precedence(sign);
      if (level < lowest) return value;
      ++in_.at;
      const PythonObject right = binary(level + 1);
      value = python_combine(sign, value, right);
    }
  }

  PythonObject factor() {
    bool negative = false, any = false;
    for (; peek().is("-") || peek().is("+"); ++in_.at, any = true) negative = negative != peek().is("-");
    const PythonObject value = power();
    if (!any) return value;
    const PythonObject zero = PythonObject::of(value.as_whole() ? Value(int64_t{0}) : Value(-0.0));
    return python_combine(negative ? "-" : "+", zero, value);
  }

  PythonObject power() {
    const PythonObject base = primary();
    if (!take("**")) return base;
    const PythonObject exponent = nested([this] { return factor(); });
    return python_combine("**", base, exponent);
  }

  PythonObject primary() {
    PythonObject value = atom();
    while (true) {
      if (take(".")) {
        require(peek().kind == TokenKind::name, ErrorKind::config, "missing name after '.'");
        const std::string name(in_.tokens[in_.at++].text);
        if (idle_ == 0) value = python_attribute(value, name);
      } else if (peek().is("(")) {
        value = call(value);
      } else if (take("[")) {
        if (in_.tokens[in_.find({":"})].is(":")) {  // a slice
          value = skip_brackets("]");
          continue;
        }
        const PythonObject index = several();
        in_.expect("]");
        value = python_item(value, index, names_.program.environment);
      } else {
        return value;
      }
    }
  }

  PythonObject call(const PythonObject& function) {
    const bool harmless = idle_ > 0 || function.kind == Kind::outside || function.is_opaque();
    if (!harmless) refuse_call(function.text.empty() ? "this call" : function.text);
    ++in_.at;
    if (is_comprehension()) return skip_brackets(")");
    std::vector<PythonObject> arguments;
    bool plain = function.kind == Kind::outside;  // and neither a name nor a star before an argument
    while (!peek().is(")")) {
      if (peek().is("*") || peek().is("**")) plain = false, ++in_.at;
      if (peek().kind == TokenKind::name && peek(1).is("=")) plain = false, in_.at += 2;
      arguments.push_back(one());
      if (!take(",")) break;
    }
    in_.expect(")");
    return plain && idle_ == 0 ? python_call(function, arguments, names_.program.environment) : PythonObject::opaque();
  }

  [[noreturn]] static void refuse_call(std::string_view function) {
    fail(ErrorKind::config, "{}() is not supported: calls are not executed; write the result instead", function);
  }

  PythonObject atom() {
    const PythonToken& token = peek();
    if (token.kind == TokenKind::string) return strings();
    if (token.is("(") || token.is("[") || token.is("{")) return bracketed();
    require(!token.ends_line(), ErrorKind::config, "missing value");
    const bool name = token.kind == TokenKind::name && !is_python_keyword(token.text);
    require(name || token.kind == TokenKind::number, ErrorKind::config, "missing value before \"{}\"", token.text);
    PythonObject value = idle_ > 0 ? PythonObject::opaque()
                         : name    ? look_up(std::string(token.text))
                                   : PythonObject::of(python_number(token.text));
    ++in_.at;
    return value;
  }

  PythonObject look_up(const std::string& name) {
    if (name == "True" || name == "False") return PythonObject::of(name == "True");
    if (name == "None") return {};
    if (const auto found = names_.names.find(name); found != names_.names.end()) {
      names_.read.insert(name);
      return found->second;
    }
    if (is_python_builtin(name)) return PythonObject::outside(name);
    require(!lists_word("globals locals vars exec eval setattr __import__ dir __builtins__ delattr", name),
            ErrorKind::config, "{} is not supported: it may set any name", name);
    fail(ErrorKind::config, "\"{}\" has no value here; assign it first", name);
  }

  bool is_comprehension() const { return in_.tokens[in_.find({"for"})].is("for"); }

  /// Skips the rest of these brackets; a call in them that could set names is an error.
  PythonObject skip_brackets(std::string_view closing) {
    for (const size_t end = in_.find({}); in_.at < end; ++in_.at) {
      const PythonToken& token = peek();
      require(!token.is(":="), ErrorKind::config, "\":=\" is not supported; assign the name in a separate line");
      if (token.kind != TokenKind::name || !peek(1).is("(")) continue;
      const auto found = names_.names.find(std::string(token.text));
      const bool harmless =
          found != names_.names.end()
              ? found->second.kind == Kind::outside
              : in_.tokens[in_.at - 1].is(".") || is_python_builtin(token.text) || is_python_keyword(token.text);
      if (!harmless) refuse_call(token.text);
    }
    in_.expect(closing);
    return PythonObject::opaque();
  }

  /// A list, a dictionary, or an expression or a sequence in parentheses.
  PythonObject bracketed() {
    const std::string_view closing = take("[") ? "]" : take("{") ? "}" : ")";
    if (closing == ")") ++in_.at;
    if (is_comprehension()) return skip_brackets(closing);
    if (closing == ")" && !peek().is(")")) {
      PythonObject value = several();
      in_.expect(")");
      return value;
    }
    std::vector<PythonObject> items;
    size_t pairs = 0;
    while (!peek().is(closing)) {
      require(!peek().is("*") && !peek().is("**"), ErrorKind::config, "\"*\" {} is not supported; write the items",
              closing == "]" ? "before an item of a list" : "in a dictionary");
      items.push_back(one());
      if (closing == "}" && take(":")) items.push_back(one()), ++pairs;
      if (!take(",")) break;
    }
    in_.expect(closing);
    if (closing == "}" && items.size() != 2 * pairs) return PythonObject::opaque();  // a set
    return collection(closing == "}" ? Kind::mapping : Kind::sequence, std::move(items));
  }

  PythonObject strings() {
    std::string text;
    bool known = idle_ == 0;
    for (; peek().kind == TokenKind::string; ++in_.at) {
      const std::string_view token = peek().text, prefix = token.substr(0, token.find_first_of("'\""));
      if (idle_ > 0) continue;
      if (prefix.find_first_of("bB") != std::string_view::npos)
        known = false;
      else if (prefix.find_first_of("fF") == std::string_view::npos)
        text += python_string(token);
      else
        known = format(python_string(token), text) && known;
    }
    return known ? PythonObject::of(std::move(text)) : PythonObject::opaque();
  }

  /// Appends the value of f"BODY"; false if a part of it is not known.
  bool format(const std::string& body, std::string& out) {
    bool known = true;
    for (size_t i = 0; i < body.size(); ++i) {
      const char c = body[i];
      if ((c != '{' && c != '}') || (i + 1 < body.size() && body[i + 1] == c)) {
        out += c;
        i += c == '{' || c == '}' ? 1 : 0;
        continue;
      }
      require(c == '{', ErrorKind::config, "unmatched '}}' in a formatted string");
      const size_t start = i + 1;
      for (int open = 1; open > 0;) {
        require(++i < body.size(), ErrorKind::config, "missing '}}' in a formatted string");
        open += body[i] == '{' ? 1 : body[i] == '}' ? -1 : 0;
      }
      const std::optional<std::string> part = field(body.substr(start, i - start));
      out += part.value_or("");
      known = known && part;
    }
    return known;
  }

  /// EXPRESSION[:SPEC] of a formatted string.
  std::optional<std::string> field(const std::string& text) {
    PythonCursor inner(text, in_.path, peek().line);
    const PythonObject value = evaluate_python(inner, names_, true, depth_);
    const PythonToken& next = inner.peek();
    std::string spec;
    if (next.is(":")) {
      spec = text.substr(static_cast<size_t>(next.text.data() - text.data()) + 1);
    } else if (!next.ends_line()) {
      require(next.is("!") || next.is("="), ErrorKind::config, "found \"{}\" in a formatted string", next.text);
      return std::nullopt;
    }
    return value.is_value() ? python_format(value.value, spec) : std::nullopt;
  }

  PythonCursor& in_;
  PythonNamespace& names_;
  int depth_, idle_ = 0;
};

}  // namespace

PythonObject evaluate_python(PythonCursor& in, PythonNamespace& names, bool several, int depth) {
  try {
    PythonExpression expression(in, names, depth);
    return several ? expression.several() : expression.one();
  } catch (const PythonError&) {
    throw;
  } catch (const Error& e) {
    in.fail_here(e.what());
  }
}

bool is_python_operator(std::string_view sign) { return sign == "**" || precedence(sign) >= 0; }

}  // namespace trireme
