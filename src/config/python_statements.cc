#include "config/python_statements.h"

#include "base/error.h"
#include "config/python_arithmetic.h"

namespace trireme {

using Kind = PythonObject::Kind;
using TokenKind = PythonToken::Kind;

PythonStatements::PythonStatements(std::string_view text, std::string path, PythonNamespace& names, int line)
    : text_(text), path_(std::move(path)), names_(names), tokens_(python_tokens(text, path_, line)) {
  constexpr int kMostFiles = 100, kMostDepth = 16;
  PythonProgram& program = names_.program;
  if (program.files >= kMostFiles || program.depth >= kMostDepth)
    fail_python(path_, line, "configuration files include each other in an endless loop");
  ++program.files;
  ++program.depth;
}

void PythonStatements::end_statement() {
  require_end();
  at_ += peek().kind != TokenKind::end;
}

void PythonStatements::statement() {
  const PythonToken& first = peek();
  if (first.kind == TokenKind::newline || take(";")) {
    at_ += first.kind == TokenKind::newline;
    return;
  }
  if (first.kind == TokenKind::indent) fail_at(first, fmt::format("unexpected indentation; {}", kPythonStatements));
  if (first.is("if")) return branch();
  if (first.is("def")) return definition();
  if (first.is("import")) return import_modules();
  if (first.is("from")) return import_names();
  simple_statement(first);
  end_statement();
}

void PythonStatements::simple_statement(const PythonToken& first) {
  if (take("pass") || take("...")) return;
  if (take("global")) {
    while (peek().kind == TokenKind::name || peek().is(",")) ++at_;
    return;
  }
  if (first.kind == TokenKind::string && ends_line_after_strings()) return;
  if (first.is("print") && peek(1).is("(")) {
    expressions();
    return;
  }
  if (first.is("exec") && peek(1).is("(")) return execute();
  if (first.is("del")) return remove();
  if (first.is("assert")) return check();
  assignment(first);
}

bool PythonStatements::ends_line_after_strings() {
  size_t end = at_;
  while (tokens_[end].kind == TokenKind::string) ++end;
  const PythonToken& next = tokens_[end];
  if (next.kind != TokenKind::newline && !next.is(";")) return false;
  at_ = end;
  return true;
}

void PythonStatements::assignment(const PythonToken& first) {
  if (!has_assignment() || is_python_keyword(first.text)) refuse(first);
  if (peek().kind == TokenKind::name && is_augmented(peek(1))) return augmented();
  std::vector<Target> targets;
  if (peek().kind == TokenKind::name && peek(1).is(":")) {  // batch_size: int = 4
    targets.push_back({{at_}, false});
    at_ += 2;
    const size_t sign = next_equals();
    if (sign == 0) refuse(first);
    at_ = sign + 1;
  }
  for (size_t sign = next_equals(); sign > 0; sign = next_equals()) {
    targets.push_back(target_list(sign));
    at_ = sign + 1;
  }
  const PythonToken& value_start = peek();
  const PythonObject value = expressions();
  const std::string shown = python_rest_of_line(value_start, text_);
  require_end();
  for (const Target& target : targets) assign_to(target, value, shown);
}

bool PythonStatements::has_assignment() const {
  int open = 0;
  for (size_t i = at_; tokens_[i].kind != TokenKind::newline && tokens_[i].kind != TokenKind::end; ++i) {
    open += tokens_[i].is("(") || tokens_[i].is("[") || tokens_[i].is("{");
    open -= tokens_[i].is(")") || tokens_[i].is("]") || tokens_[i].is("}");
    if (open == 0 && tokens_[i].is(";")) return false;
    if (open == 0 && (tokens_[i].is("=") || is_augmented(tokens_[i]))) return true;
  }
  return false;
}

bool PythonStatements::is_augmented(const PythonToken& token) {
  constexpr std::string_view kSigns[] = {"+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>="};
  return token.kind == TokenKind::sign && std::ranges::find(kSigns, token.text) != std::end(kSigns);
}

size_t PythonStatements::next_equals() const {
  int open = 0;
  for (size_t i = at_; tokens_[i].kind != TokenKind::newline && tokens_[i].kind != TokenKind::end; ++i) {
    open += tokens_[i].is("(") || tokens_[i].is("[") || tokens_[i].is("{");
    open -= tokens_[i].is(")") || tokens_[i].is("]") || tokens_[i].is("}");
    if (open == 0 && (tokens_[i].is(";") || tokens_[i].is("lambda"))) return 0;
    if (open == 0 && tokens_[i].is("=")) return i;
  }
  return 0;
}

PythonStatements::Target PythonStatements::target_list(size_t sign) {
  const PythonToken& first = peek();
  const bool bracket = first.is("(") || first.is("[");
  Target target{{}, first.is("[")};
  at_ += bracket;
  while (at_ < sign && !(bracket && at_ + 1 == sign)) {
    const size_t length = peek().kind == TokenKind::name && !is_python_keyword(peek().text) && is_name_end(peek(1))
                              ? 1
                              : item_target_length(at_);
    if (length == 0) refuse(first);
    target.places.push_back(at_);
    at_ += length;
    if (!take(",")) break;
    target.apart = true;
  }
  if (bracket && !take(first.is("(") ? ")" : "]")) refuse(first);
  if (at_ != sign || target.places.empty()) refuse(first);
  return target;
}

size_t PythonStatements::item_target_length(size_t at) const {
  const auto follows = [&](std::initializer_list<const char*> words) {
    size_t i = at;
    return std::ranges::all_of(words, [&](const char* word) {
      const PythonToken& token = tokens_[std::min(i++, tokens_.size() - 1)];
      return *word == '\0' ? token.kind == TokenKind::string : token.is(word);
    });
  };
  if (follows({"globals", "(", ")", "[", "", "]"})) return 6;
  if (follows({"os", ".", "environ", "[", "", "]"})) return 6;
  return 0;
}

void PythonStatements::assign_to(const Target& target, const PythonObject& value, const std::string& shown) {
  const std::vector<size_t>& places = target.places;
  if (!target.apart) return assign_one(places[0], value, shown);
  if (value.is_value())
    fail_at(tokens_[places[0]], fmt::format("`{}` is a single value and cannot be unpacked", shown));
  if (value.kind != Kind::sequence) {
    for (const size_t place : places) assign_one(place, PythonObject::opaque(), shown);
    return;
  }
  if (value.items->size() != places.size())
    fail_at(tokens_[places[0]],
            fmt::format("{} names on the left, but {} values on the right", places.size(), value.items->size()));
  for (size_t i = 0; i < places.size(); ++i) assign_one(places[i], (*value.items)[i], shown);
}

void PythonStatements::assign_one(size_t place, const PythonObject& value, const std::string& shown) {
  const PythonToken& token = tokens_[place];
  if (tokens_[std::min(place + 1, tokens_.size() - 1)].is("(")) {
    const std::string name = python_string(tokens_[place + 4], path_);
    return assign(name, value, token.line, shown);
  }
  if (tokens_[std::min(place + 1, tokens_.size() - 1)].is(".")) {
    if (value.as_text() == nullptr)
      fail_at(token, fmt::format("an environment variable is set to `{}`, which is not a known string", shown));
    names_.program.environment[python_string(tokens_[place + 4], path_)] = *value.as_text();
    return;
  }
  assign(std::string(token.text), value, token.line, shown);
}

void PythonStatements::augmented() {
  const PythonToken& target = peek();
  const std::string name(target.text);
  std::string sign(peek(1).text);
  sign.pop_back();
  const auto before = names_.scope.names.find(name);
  if (before == names_.scope.names.end())
    fail_at(target, fmt::format("\"{}\" has no value here; assign it first", name));
  const PythonObject old = before->second;
  at_ += 2;
  const PythonToken& value_start = peek();
  const PythonObject change = expressions();
  const std::string shown = fmt::format("{} {}= {}", name, sign, python_rest_of_line(value_start, text_));
  if (!old.is_value() && !old.is_opaque()) refuse(target);
  PythonObject value = PythonObject::opaque();
  if (old.is_value() && change.is_value()) {
    try {
      value = PythonObject::of(python_combine(sign, old.value, change.value));
    } catch (const Error& e) {
      fail_at(target, e.what());
    }
  }
  assign(name, value, target.line, shown);
}

void PythonStatements::assign(const std::string& name, const PythonObject& value, int line, const std::string& shown) {
  static constexpr std::string_view kFixed[] = {"True", "False", "None"};
  if (std::ranges::find(kFixed, name) != std::end(kFixed))
    fail_python(path_, line, fmt::format("cannot assign to {}", name));
  names_.scope.names[name] = value;
  std::erase_if(names_.settings, [&](const Setting& earlier) { return earlier.key == name; });
  const bool is_key = names_.program.keys.count(name) > 0;
  const bool is_tool = value.kind == Kind::module || value.kind == Kind::outside || value.kind == Kind::function;
  if (!is_key && (is_tool || name.starts_with('_'))) return;
  Setting setting{name, {}, "", {path_, line, names_.program.layer}, ""};
  if (value.is_value()) {
    setting.value = value.value;
    setting.text = to_text(value.value);
    if (std::holds_alternative<std::monostate>(value.value)) setting.problem = "None";
  } else {
    setting.problem = value.kind == Kind::sequence ? "a list"
                      : value.kind == Kind::mapping
                          ? "a dictionary"
                          : fmt::format("`{}`, which is not known without executing code", shown);
  }
  names_.settings.push_back(std::move(setting));
}

void PythonStatements::execute() {
  const PythonToken& place = peek();
  at_ += 2;
  const PythonObject text = evaluate_one_python(tokens_, at_, names_.scope, path_);
  if (!take(")")) refuse(place);
  if (text.as_text() == nullptr) refuse(place);
  const bool from_file = !text.text.empty();
  PythonStatements(*text.as_text(), from_file ? text.text : path_, names_, from_file ? 1 : place.line).run();
}

void PythonStatements::remove() {
  const PythonToken& place = peek();
  ++at_;
  do {
    const std::string name(peek().text);
    if (peek().kind != TokenKind::name || names_.scope.names.erase(name) == 0) refuse(place);
    if (names_.program.keys.count(name) > 0 && names_.is_main)
      fail_at(place, fmt::format("{} is a key of nanoGPT and cannot be deleted; remove the line", name));
    ++at_;
    std::erase_if(names_.settings, [&](const Setting& earlier) { return earlier.key == name; });
  } while (take(","));
}

void PythonStatements::check() {
  const PythonToken& place = peek();
  ++at_;
  const std::optional<bool> truth = python_truth(evaluate_one_python(tokens_, at_, names_.scope, path_));
  if (!truth) refuse(place);
  if (!*truth) fail_at(place, fmt::format("`{}` failed", python_rest_of_line(place, text_)));
  if (take(",")) evaluate_one_python(tokens_, at_, names_.scope, path_);
}

void PythonStatements::branch() {
  bool taken = false;
  const PythonToken& place = peek();
  while (peek().is("if") || peek().is("elif") || peek().is("else")) {
    const bool otherwise = peek().is("else");
    ++at_;
    bool chosen = !taken;
    if (!otherwise && taken) {
      skip_condition();
    } else if (!otherwise) {
      const std::optional<bool> truth = python_truth(expressions());
      if (!truth)
        fail_at(place, fmt::format("the condition of `{}` depends on a value that is not known without executing code; "
                                   "write the assignments without the condition",
                                   python_rest_of_line(place, text_)));
      chosen = *truth;
    }
    if (!take(":")) fail_at(peek(), "missing ':'");
    block(chosen);
    taken = taken || chosen;
    if (otherwise) return;
    if (peek().is("if")) return;
  }
}

void PythonStatements::skip_condition() {
  int open = 0;
  for (; peek().kind != TokenKind::newline && peek().kind != TokenKind::end && (open > 0 || !peek().is(":")); ++at_) {
    open += peek().is("(") || peek().is("[") || peek().is("{");
    open -= peek().is(")") || peek().is("]") || peek().is("}");
  }
}

void PythonStatements::block(bool run) {
  if (peek().kind != TokenKind::newline) {  // `if a: b = 1; c = 2`
    while (peek().kind != TokenKind::newline && peek().kind != TokenKind::end) {
      if (!run) {
        ++at_;
      } else {
        const PythonToken& first = peek();
        if (!take(";")) simple_or_import(first);
      }
    }
    if (peek().kind == TokenKind::newline) ++at_;
    return;
  }
  ++at_;
  if (peek().kind != TokenKind::indent) fail_at(peek(), "missing indented block");
  ++at_;
  for (int depth = 1; depth > 0 && peek().kind != TokenKind::end;) {
    if (run && peek().kind != TokenKind::dedent) {
      statement();
      continue;
    }
    depth += peek().kind == TokenKind::indent;
    depth -= peek().kind == TokenKind::dedent;
    ++at_;
  }
}

void PythonStatements::simple_or_import(const PythonToken& first) {
  if (first.is("import") || first.is("from") || first.is("if") || first.is("def")) refuse(first);
  simple_statement(first);
  require_end();
}

void PythonStatements::definition() {
  const PythonToken& place = peek();
  ++at_;
  if (peek().kind != TokenKind::name) refuse(place);
  const std::string name(peek().text);
  ++at_;
  skip_condition();
  if (!take(":")) fail_at(place, "missing ':'");
  block(false);
  assign(name, PythonObject::function(name), place.line, "def " + name);
}

std::string PythonStatements::dotted_name() {
  std::string name;
  while (peek().kind == TokenKind::name) {
    name += peek().text;
    ++at_;
    if (!peek().is(".")) break;
    name += ".";
    ++at_;
  }
  return name;
}

std::string PythonStatements::alias_or(const std::string& name) {
  if (!take("as")) return name;
  const std::string alias(peek().text);
  ++at_;
  return alias;
}

}  // namespace trireme
