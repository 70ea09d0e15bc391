#pragma once
// Parses the expressions of a template, with Jinja's grammar (jinja2/parser.py).

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/chat/lexer.h"
#include "text/chat/syntax.h"

namespace trireme::chat {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  /// One expression, or a tuple of several. conditional: `a if b else c` without brackets is part of it.
  ExpressionPtr parse_tuple(bool conditional = true, bool in_brackets = false);
  ExpressionPtr parse_expression();
  /// Filters behind `input`, which is null for those of a block.
  ExpressionPtr parse_filters(ExpressionPtr input);

  const Token& current() const { return tokens_[place_]; }
  const Token& next_token() const { return tokens_[place_ + (place_ + 1 < tokens_.size() ? 1 : 0)]; }
  Token take();
  bool skip_name(std::string_view name);
  bool skip_sign(std::string_view sign);
  std::string expect_name();
  void expect_sign(std::string_view sign);
  uint32_t number_of(const std::string& name);
  std::vector<std::string> take_names() { return std::move(names_); }
  [[noreturn]] static void fail(uint32_t line, std::string message) { throw SyntaxFault{line, std::move(message)}; }
  [[noreturn]] void unexpected(std::string_view expected) const;

  /// A filter or test that is unknown within {% if %} or `a if b else c` is an error only where it is applied, as in
  /// Jinja; elsewhere the template is refused. Inside loops, macros and captured blocks it is false again.
  bool optional_ = false;
  /// Throws for the first such one outside.
  void refuse_unknown() const;

  /// Counts the levels of what is being parsed.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --parser_.level_; }

   private:
    ExpressionParser& parser_;
  };

 private:
  using Kind = Expression::Kind;
  using Parse = ExpressionPtr (ExpressionParser::*)();

  ExpressionPtr make(Kind kind, uint32_t line) const;
  ExpressionPtr finish(ExpressionPtr expression) const;
  ExpressionPtr combine(Kind kind, Parse operand, std::string_view word);
  ExpressionPtr fold(Parse operand, std::initializer_list<std::pair<std::string_view, Operator>> signs);
  Operator take_comparison();
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_join();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary() { return parse_signed(true); }
  ExpressionPtr parse_signed(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dictionary();
  ExpressionPtr parse_postfix(ExpressionPtr value);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr value);
  ExpressionPtr parse_item(ExpressionPtr value);
  ExpressionPtr parse_call(ExpressionPtr value);
  ExpressionPtr parse_test(ExpressionPtr value);
  void parse_arguments(Expression& call);
  void note_unknown(Expression& made, std::string_view what, const std::string& name, bool known);

  std::vector<SyntaxFault> unknown_;
  std::vector<Token> tokens_;
  size_t place_ = 0;
  uint32_t level_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

}  // namespace trireme::chat
