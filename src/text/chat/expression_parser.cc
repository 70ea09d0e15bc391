#include "text/chat/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat/builtins.h"

namespace trireme::chat {
namespace {

constexpr uint32_t kMostDepth = 100;  // levels of brackets, operators or statements within each other

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "text";
    case TokenKind::variable_begin:
      return "\"{{\"";
    case TokenKind::variable_end:
      return "\"}}\"";
    case TokenKind::block_begin:
      return "\"{%\"";
    case TokenKind::block_end:
      return "\"%}\"";
    case TokenKind::name:
    case TokenKind::sign:
      return fmt::format("\"{}\"", token.text);
    case TokenKind::string:
      return "a string";
    case TokenKind::integer:
    case TokenKind::number:
      return "a number";
    case TokenKind::end:
      return "the end of the template";
  }
  return "?";
}

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (parser_.level_ >= kMostDepth)
    fail(parser_.current().line, fmt::format("expressions or blocks are nested more than {} levels deep", kMostDepth));
  ++parser_.level_;
}

Token ExpressionParser::take() {
  Token token = current();
  if (place_ + 1 < tokens_.size()) ++place_;
  return token;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_sign(std::string_view sign) {
  if (!current().is_sign(sign)) return false;
  take();
  return true;
}

std::string ExpressionParser::expect_name() {
  if (current().kind != TokenKind::name) unexpected("a name");
  return take().text;
}

void ExpressionParser::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) unexpected(fmt::format("\"{}\"", sign));
}

uint32_t ExpressionParser::number_of(const std::string& name) {
  const auto [at, added] = numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (added) names_.push_back(name);
  return at->second;
}

void ExpressionParser::unexpected(std::string_view expected) const {
  fail(current().line, fmt::format("found {}, expected {}", described(current()), expected));
}

ExpressionPtr ExpressionParser::make(Kind kind, uint32_t line) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  return made;
}

/// Sets the depth, which bounds the stack of whatever walks through the expression.
ExpressionPtr ExpressionParser::finish(ExpressionPtr expression) const {
  const auto deepen = [&](const ExpressionPtr& part) {
    if (part != nullptr) expression->depth = std::max(expression->depth, part->depth + 1);
  };
  for (const auto& part : expression->operands) deepen(part);
  for (const auto& part : expression->arguments) deepen(part);
  for (const auto& part : expression->named_arguments) deepen(part.second);
  deepen(expression->more_arguments);
  deepen(expression->more_named);
  if (expression->depth > kMostDepth)
    fail(expression->line, fmt::format("an expression has more than {} levels", kMostDepth));
  return expression;
}

ExpressionPtr ExpressionParser::parse_tuple(bool conditional, bool in_brackets) {
  const Level level(*this);
  const uint32_t line = current().line;
  std::vector<ExpressionPtr> parts;
  bool tuple = false;
  while (true) {
    const TokenKind kind = current().kind;
    if (kind == TokenKind::variable_end || kind == TokenKind::block_end || current().is_sign(")")) break;
    parts.push_back(conditional ? parse_conditional() : parse_or());
    if (!skip_sign(",")) break;
    tuple = true;
  }
  if (!tuple && !parts.empty()) return std::move(parts[0]);
  if (!tuple && !in_brackets) unexpected("an expression");
  ExpressionPtr made = make(Kind::tuple, line);
  made->operands = std::move(parts);
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::parse_expression() {
  const Level level(*this);
  return parse_conditional();
}

ExpressionPtr ExpressionParser::parse_conditional() {
  const Level level(*this);
  const size_t before = unknown_.size();
  ExpressionPtr value = parse_or();
  while (current().is_name("if")) {
    ExpressionPtr made = make(Kind::conditional, take().line);
    made->operands.push_back(parse_or());
    made->operands.push_back(std::move(value));
    made->operands.push_back(skip_name("else") ? parse_conditional() : nullptr);
    value = finish(std::move(made));
    unknown_.resize(before);
  }
  return value;
}

/// operand word operand word ...
ExpressionPtr ExpressionParser::combine(Kind kind, Parse operand, std::string_view word) {
  const uint32_t line = current().line;
  ExpressionPtr first = (this->*operand)();
  const bool sign = kind == Kind::join;
  if (sign ? !current().is_sign(word) : !current().is_name(word)) return first;
  ExpressionPtr made = make(kind, line);
  made->operands.push_back(std::move(first));
  while (sign ? skip_sign(word) : skip_name(word)) made->operands.push_back((this->*operand)());
  return finish(std::move(made));
}

/// operand sign operand sign ..., from left to right.
ExpressionPtr ExpressionParser::fold(Parse operand,
                                     std::initializer_list<std::pair<std::string_view, Operator>> signs) {
  const uint32_t line = current().line;
  ExpressionPtr first = (this->*operand)();
  const auto find = [&] {
    return std::ranges::find_if(signs, [&](const auto& sign) { return current().is_sign(sign.first); });
  };
  if (find() == signs.end()) return first;
  ExpressionPtr made = make(Kind::arithmetic, line);
  made->operands.push_back(std::move(first));
  made->operators.push_back(Operator::none);
  for (auto found = find(); found != signs.end(); found = find()) {
    take();
    made->operators.push_back(found->second);
    made->operands.push_back((this->*operand)());
  }
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::parse_or() { return combine(Kind::logical_or, &ExpressionParser::parse_and, "or"); }
ExpressionPtr ExpressionParser::parse_and() { return combine(Kind::logical_and, &ExpressionParser::parse_not, "and"); }

ExpressionPtr ExpressionParser::parse_not() {
  if (!current().is_name("not")) return parse_comparison();
  const Level level(*this);
  ExpressionPtr made = make(Kind::logical_not, take().line);
  made->operands.push_back(parse_not());
  return finish(std::move(made));
}

/// Takes the comparison here; none: another token.
Operator ExpressionParser::take_comparison() {
  static constexpr std::pair<std::string_view, Operator> kSigns[] = {
      {"==", Operator::equal},      {"!=", Operator::unequal}, {"<", Operator::less},
      {"<=", Operator::less_equal}, {">", Operator::greater},  {">=", Operator::greater_equal}};
  for (const auto& [sign, meaning] : kSigns) {
    if (skip_sign(sign)) return meaning;
  }
  if (skip_name("in")) return Operator::in;
  if (!current().is_name("not") || !next_token().is_name("in")) return Operator::none;
  take();
  take();
  return Operator::not_in;
}

ExpressionPtr ExpressionParser::parse_comparison() {
  const uint32_t line = current().line;
  ExpressionPtr first = parse_sum();
  Operator sign = take_comparison();
  if (sign == Operator::none) return first;
  ExpressionPtr made = make(Kind::comparison, line);
  made->operands.push_back(std::move(first));
  made->operators.push_back(Operator::none);
  for (; sign != Operator::none; sign = take_comparison()) {
    made->operators.push_back(sign);
    made->operands.push_back(parse_sum());
  }
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::parse_sum() {
  return fold(&ExpressionParser::parse_join, {{"+", Operator::add}, {"-", Operator::subtract}});
}
ExpressionPtr ExpressionParser::parse_join() { return combine(Kind::join, &ExpressionParser::parse_product, "~"); }
ExpressionPtr ExpressionParser::parse_product() {
  return fold(
      &ExpressionParser::parse_power,
      {{"*", Operator::multiply}, {"/", Operator::divide}, {"//", Operator::floor_divide}, {"%", Operator::modulo}});
}
ExpressionPtr ExpressionParser::parse_power() {
  return fold(&ExpressionParser::parse_unary, {{"**", Operator::power}});
}

ExpressionPtr ExpressionParser::parse_signed(bool with_filters) {
  const Level level(*this);
  ExpressionPtr value;
  if (current().is_sign("-") || current().is_sign("+")) {
    const Token sign = take();
    value = make(sign.text == "-" ? Kind::negative : Kind::positive, sign.line);
    value->operands.push_back(parse_signed(false));
    value = finish(std::move(value));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_name() {
  const Token token = take();
  ExpressionPtr made = make(Kind::constant, token.line);
  if (token.text == "true" || token.text == "True") {
    made->value = Value::boolean(true);
  } else if (token.text == "false" || token.text == "False") {
    made->value = Value::boolean(false);
  } else if (token.text == "none" || token.text == "None") {
    made->value = Value::none();
  } else {
    made->kind = Kind::name;
    made->name = number_of(token.text);
  }
  return made;
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = current();
  const uint32_t line = token.line;
  if (token.kind == TokenKind::name) return parse_name();
  if (token.kind == TokenKind::string) {
    std::string text;
    while (current().kind == TokenKind::string) text += take().text;
    ExpressionPtr made = make(Kind::constant, line);
    made->value = Value::text(std::move(text));
    return made;
  }
  if (token.kind == TokenKind::integer || token.kind == TokenKind::number) {
    ExpressionPtr made = make(Kind::constant, line);
    made->value = token.kind == TokenKind::integer ? Value::integer(token.integer) : Value::number(token.number);
    take();
    return made;
  }
  if (token.is_sign("[")) return parse_list();
  if (token.is_sign("{")) return parse_dictionary();
  if (!skip_sign("(")) unexpected("an expression");
  ExpressionPtr made = parse_tuple(true, true);
  expect_sign(")");
  return made;
}

ExpressionPtr ExpressionParser::parse_list() {
  ExpressionPtr made = make(Kind::list, take().line);
  while (!current().is_sign("]")) {
    if (!made->operands.empty()) expect_sign(",");
    if (current().is_sign("]")) break;
    made->operands.push_back(parse_expression());
  }
  expect_sign("]");
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::parse_dictionary() {
  constexpr size_t kMostEntries = 1000;  // an entry's key is compared with those of all others
  ExpressionPtr made = make(Kind::dictionary, take().line);
  while (!current().is_sign("}")) {
    if (!made->operands.empty()) expect_sign(",");
    if (current().is_sign("}")) break;
    made->operands.push_back(parse_expression());
    expect_sign(":");
    made->operands.push_back(parse_expression());
    if (made->operands.size() > 2 * kMostEntries)
      fail(made->line, fmt::format("a dictionary has more than {} entries", kMostEntries));
  }
  expect_sign("}");
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr value) {
  while (true) {
    if (current().is_sign(".") || current().is_sign("[")) {
      value = parse_item(std::move(value));
    } else if (current().is_sign("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filters_and_tests(ExpressionPtr value) {
  while (true) {
    if (current().is_sign("|")) {
      value = parse_filters(std::move(value));
    } else if (current().is_name("is")) {
      value = parse_test(std::move(value));
    } else if (current().is_sign("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_item(ExpressionPtr value) {
  const Token opening = take();
  ExpressionPtr made = make(Kind::item, opening.line);
  made->operands.push_back(std::move(value));
  if (opening.text == ".") {
    const Token token = take();
    if (token.kind == TokenKind::name) {
      made->kind = Kind::attribute;
      made->text = token.text;
    } else if (token.kind == TokenKind::integer) {
      made->operands.push_back(make(Kind::constant, token.line));
      made->operands.back()->value = Value::integer(token.integer);
    } else {
      fail(token.line, fmt::format("found {} after a point, expected a name or an integer", described(token)));
    }
    return finish(std::move(made));
  }
  const bool open_begin = current().is_sign(":");
  ExpressionPtr begin = open_begin ? nullptr : parse_expression();
  const bool slice = skip_sign(":");
  made->operands.push_back(std::move(begin));
  if (slice) {
    made->kind = Kind::slice;
    const auto bound = [&] { return current().is_sign(":") || current().is_sign("]") ? nullptr : parse_expression(); };
    made->operands.push_back(bound());
    made->operands.push_back(skip_sign(":") ? bound() : nullptr);
  }
  expect_sign("]");
  return finish(std::move(made));
}

void ExpressionParser::parse_arguments(Expression& call) {
  expect_sign("(");
  bool first = true;
  while (!current().is_sign(")")) {
    if (!std::exchange(first, false)) expect_sign(",");
    if (current().is_sign(")")) break;
    if (current().is_sign("*") || current().is_sign("**")) {
      ExpressionPtr& place = current().is_sign("*") ? call.more_arguments : call.more_named;
      if (place != nullptr || call.more_named != nullptr)
        fail(current().line, "an argument with * or ** follows another one");
      take();
      place = parse_expression();
      continue;
    }
    if (call.more_named != nullptr) fail(current().line, "an argument follows one with **");
    if (current().kind == TokenKind::name && next_token().is_sign("=")) {
      std::string name = take().text;
      take();
      call.named_arguments.emplace_back(std::move(name), parse_expression());
    } else {
      if (!call.named_arguments.empty()) fail(current().line, "an argument without a name follows one with a name");
      call.arguments.push_back(parse_expression());
    }
  }
  expect_sign(")");
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr value) {
  ExpressionPtr made = make(Kind::call, current().line);
  made->operands.push_back(std::move(value));
  parse_arguments(*made);
  return finish(std::move(made));
}

void ExpressionParser::note_unknown(Expression& made, std::string_view what, const std::string& name, bool known) {
  made.text =
      known ? fmt::format("the {} \"{}\" is not supported", what, name) : fmt::format("unknown {} \"{}\"", what, name);
  if (!optional_) unknown_.push_back({made.line, made.text});
}

void ExpressionParser::refuse_unknown() const {
  if (!unknown_.empty()) fail(unknown_.front().line, unknown_.front().message);
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr input) {
  while (skip_sign("|")) {
    ExpressionPtr made = make(Kind::filter, current().line);
    const std::string name = expect_name();
    made->filter = find_filter(name);
    if (made->filter == nullptr) note_unknown(*made, "filter", name, is_known_filter(name));
    made->operands.push_back(std::move(input));
    if (current().is_sign("(")) parse_arguments(*made);
    input = finish(std::move(made));
  }
  return input;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr value) {
  const uint32_t line = take().line;
  const bool negated = skip_name("not");
  ExpressionPtr made = make(Kind::test, line);
  const std::string name = expect_name();
  made->test = find_test(name);
  if (made->test == nullptr) note_unknown(*made, "test", name, is_known_test(name));
  made->operands.push_back(std::move(value));
  const Token& token = current();
  const bool argument =
      token.kind == TokenKind::string || token.kind == TokenKind::integer || token.kind == TokenKind::number ||
      token.is_sign("[") || token.is_sign("{") ||
      (token.kind == TokenKind::name && token.text != "else" && token.text != "or" && token.text != "and");
  if (token.is_sign("(")) {
    parse_arguments(*made);
  } else if (argument) {
    if (token.is_name("is")) fail(token.line, "a test follows a test; use brackets");
    made->arguments.push_back(parse_postfix(parse_primary()));
  }
  made = finish(std::move(made));
  if (!negated) return made;
  ExpressionPtr not_made = make(Kind::logical_not, line);
  not_made->operands.push_back(std::move(made));
  return finish(std::move(not_made));
}

}  // namespace trireme::chat
