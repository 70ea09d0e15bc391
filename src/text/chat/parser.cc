#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "text/chat/expression_parser.h"

namespace trireme::chat {
namespace {

class Parser : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  ParsedTemplate run() {
    ParsedTemplate parsed;
    parsed.body = parse_body({}, 1, "");
    refuse_unknown();
    parsed.names = take_names();
    parsed.marks_generation = marks_generation_;
    return parsed;
  }

 private:
  using Kind = Statement::Kind;

  /// What surrounds a statement, as far as that decides what it may be.
  struct Place {
    bool loop = false;      ///< break and continue have a target
    bool captured = false;  ///< its text is kept in a value
    bool generation = false;
  };

  /// Whether unknown filters are errors only where they are applied, until the end of its scope.
  class Unknown {
   public:
    Unknown(Parser& parser, bool optional) : parser_(parser), outside_(std::exchange(parser.optional_, optional)) {}
    Unknown(const Unknown&) = delete;
    Unknown& operator=(const Unknown&) = delete;
    ~Unknown() { parser_.optional_ = outside_; }

   private:
    Parser& parser_;
    bool outside_;
  };

  /// Statements up to one of the tags `ends`, which is current then; up to the template's end without any.
  std::vector<Statement> parse_body(std::initializer_list<std::string_view> ends, uint32_t opened_at,
                                    std::string_view opened_by) {
    const Level level(*this);
    std::vector<Statement> body;
    while (true) {
      const Token& token = current();
      const uint32_t line = token.line;
      if (token.kind == TokenKind::end) {
        if (ends.size() > 0)
          fail(opened_at, fmt::format("{} does not end: {{% {} %}} is missing", opened_by, *(ends.end() - 1)));
        return body;
      }
      if (token.kind == TokenKind::data) {
        body.push_back({Kind::text, line, take().text});
      } else if (token.kind == TokenKind::variable_begin) {
        take();
        body.push_back({Kind::output, line});
        body.back().value = parse_tuple();
        if (current().kind != TokenKind::variable_end) unexpected("\"}}\"");
        take();
      } else {
        take();
        if (std::ranges::any_of(ends, [&](std::string_view end) { return current().is_name(end); })) return body;
        body.push_back(parse_statement());
        end_tag();
      }
    }
  }

  void end_tag() {
    if (current().kind != TokenKind::block_end) unexpected("\"%}\"");
    take();
  }

  Statement parse_statement() {
    const uint32_t line = current().line;
    const std::string tag = expect_name();
    if (tag == "if") return parse_if(line);
    if (tag == "for") return parse_for(line);
    if (tag == "set") return parse_set(line);
    if (tag == "macro") return parse_macro(line);
    if (tag == "generation") return parse_generation(line);
    if (tag == "break" || tag == "continue") {
      if (!place_.loop) fail(line, fmt::format("{{% {} %}} is outside of a loop", tag));
      return {tag == "break" ? Kind::break_loop : Kind::continue_loop, line};
    }
    static constexpr std::string_view kKnown[] = {"autoescape", "block",  "call",    "extends", "filter",
                                                  "from",       "import", "include", "print",   "with"};
    if (std::ranges::find(kKnown, tag) != std::end(kKnown))
      fail(line, fmt::format("the tag \"{}\" is not supported", tag));
    fail(line, fmt::format("unknown tag \"{}\"", tag));
  }

  Statement parse_if(uint32_t line) {
    Statement made{Kind::branches, line};
    const Unknown unknown(*this, true);
    while (true) {
      Statement branch{Kind::branch, current().line};
      branch.condition = parse_tuple(false);
      end_tag();
      branch.body = parse_body({"elif", "else", "endif"}, line, "{% if %}");
      made.branches.push_back(std::move(branch));
      const std::string tag = take().text;
      if (tag == "elif") continue;
      if (tag == "else") {
        end_tag();
        made.otherwise = parse_body({"endif"}, line, "{% if %}");
        take();
      }
      return made;
    }
  }

  Statement parse_for(uint32_t line) {
    Statement made{Kind::loop, line};
    made.targets.push_back(parse_target(false));
    if (!skip_name("in")) unexpected("\"in\"");
    made.value = parse_tuple(false);
    const Unknown unknown(*this, false);
    if (skip_name("if")) made.condition = parse_expression();
    if (current().is_name("recursive")) fail(line, "recursive loops are not supported");
    end_tag();
    const Place outside = place_;
    place_.loop = true;
    made.body = parse_body({"else", "endfor"}, line, "{% for %}");
    place_ = outside;
    if (take().text == "else") {
      end_tag();
      made.otherwise = parse_body({"endfor"}, line, "{% for %}");
      take();
    }
    return made;
  }

  Statement parse_set(uint32_t line) {
    Statement made{Kind::set, line};
    made.targets.push_back(parse_target(true));
    if (skip_sign("=")) {
      made.value = parse_tuple();
      return made;
    }
    const Unknown unknown(*this, false);
    made.value = parse_filters(nullptr);
    made.block = true;
    end_tag();
    made.body = parse_captured({"endset"}, line, "{% set %}");
    take();
    return made;
  }

  /// The body of a block whose text is kept.
  std::vector<Statement> parse_captured(std::initializer_list<std::string_view> ends, uint32_t line,
                                        std::string_view opened_by) {
    const Place outside = place_;
    place_ = {.captured = true};
    std::vector<Statement> body = parse_body(ends, line, opened_by);
    place_ = outside;
    return body;
  }

  Statement parse_macro(uint32_t line) {
    Statement made{Kind::macro, line};
    made.text = expect_name();
    made.name = number_of(made.text);
    const Unknown unknown(*this, false);
    expect_sign("(");
    while (!current().is_sign(")")) {
      if (!made.parameters.empty()) expect_sign(",");
      const std::string name = expect_name();
      Parameter parameter{number_of(name), name, nullptr};
      if (skip_sign("=")) {
        parameter.otherwise = parse_expression();
      } else if (!made.parameters.empty() && made.parameters.back().otherwise != nullptr) {
        fail(current().line, "a parameter without a default follows one with a default");
      }
      made.parameters.push_back(std::move(parameter));
    }
    expect_sign(")");
    end_tag();
    made.body = parse_captured({"endmacro"}, line, "{% macro %}");
    take();
    return made;
  }

  Statement parse_generation(uint32_t line) {
    if (place_.captured)
      fail(line, "{% generation %} in a macro or a {% set %} block is not supported: where its text goes is not known");
    if (place_.generation) fail(line, "{% generation %} within another one is not supported");
    marks_generation_ = true;
    end_tag();
    Statement made{Kind::generation, line};
    const Unknown unknown(*this, false);
    const Place outside = place_;
    place_ = {.generation = true};
    made.body = parse_body({"endgeneration"}, line, "{% generation %}");
    place_ = outside;
    take();
    return made;
  }

  Target parse_one_target(bool with_attribute) {
    const Level level(*this);
    if (skip_sign("(")) {
      Target target = parse_target(with_attribute);
      expect_sign(")");
      return target;
    }
    static constexpr std::string_view kConstants[] = {"true", "True", "false", "False", "none", "None"};
    const uint32_t line = current().line;
    const std::string name = expect_name();
    if (std::ranges::find(kConstants, name) != std::end(kConstants))
      fail(line, fmt::format("\"{}\" cannot be assigned to", name));
    Target target{.name = number_of(name)};
    if (with_attribute && skip_sign(".")) target.attribute = expect_name();
    return target;
  }

  Target parse_target(bool with_attribute) {
    Target first = parse_one_target(with_attribute);
    if (!current().is_sign(",")) return first;
    Target tuple{.tuple = true};
    tuple.parts.push_back(std::move(first));
    while (skip_sign(",")) {
      if (current().kind != TokenKind::name && !current().is_sign("(")) break;
      if (current().is_name("in")) break;
      tuple.parts.push_back(parse_one_target(with_attribute));
    }
    return tuple;
  }

  Place place_;
  bool marks_generation_ = false;
};

}  // namespace

ParsedTemplate parse_template(std::string_view source) { return Parser(cut_template(source)).run(); }

}  // namespace trireme::chat
