#pragma once
// A parsed template. Names of variables are numbers: places in ParsedTemplate::names.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/value.h"

namespace trireme::chat {

struct Filter;
struct Test;

enum class Operator : uint8_t {
  none,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  unequal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind : uint8_t {
    constant,
    name,
    list,
    tuple,
    dictionary,  ///< operands: key, value, key, value ...
    negative,
    positive,
    logical_not,
    logical_and,  ///< of all operands
    logical_or,
    arithmetic,   ///< operands from left to right; operators[i] is before operand i, operators[0] unused
    join,         ///< a ~ b ~ c
    comparison,   ///< a < b < c; operators as for arithmetic
    conditional,  ///< operands: condition, value, value otherwise (may be missing)
    attribute,    ///< operands[0].text
    item,         ///< operands[0][operands[1]]
    slice,        ///< operands: value, begin, end, step; the last three may be null
    call,         ///< operands[0] with the arguments
    filter,       ///< operands[0] | filter; null operand: the text of a block
    test          ///< operands[0] is test
  };

  Kind kind;
  uint32_t line;
  uint32_t depth = 1;  ///< levels of expressions in it
  uint32_t name = 0;
  std::string text = {};
  Value value = {};
  const Filter* filter = nullptr;
  const Test* test = nullptr;
  std::vector<ExpressionPtr> operands = {};
  std::vector<Operator> operators = {};
  std::vector<ExpressionPtr> arguments = {};
  std::vector<std::pair<std::string, ExpressionPtr>> named_arguments = {};
  ExpressionPtr more_arguments = {}, more_named = {};  ///< behind * and **; may be null
};

/// What a `set` or a loop assigns to.
struct Target {
  uint32_t name = 0;
  std::string attribute = {};      ///< of a namespace; empty: the variable itself
  std::vector<Target> parts = {};  ///< of a tuple, which then has no name
  bool tuple = false;
};

struct Parameter {
  uint32_t name;
  std::string text;
  ExpressionPtr otherwise;  ///< null: none
};

struct Statement;

struct Statement {
  enum class Kind : uint8_t {
    text,      ///< `text` as it is
    output,    ///< `value`
    branches,  ///< the body of the first branch whose condition holds, else `otherwise`
    branch,    ///< one of them
    loop,      ///< `body` for each of `value` that fulfils `condition`; without any `otherwise`
    set,       ///< targets[0] = value, or, with a body, its text, through `value`'s filters if there are any
    macro,
    generation,  ///< `body`, whose place in the output is recorded
    break_loop,
    continue_loop
  };

  Kind kind;
  uint32_t line;
  std::string text = {};
  ExpressionPtr value = {}, condition = {};
  std::vector<Target> targets = {};
  std::vector<Statement> branches = {}, body = {}, otherwise = {};
  bool block = false;  ///< a `set` with a body
  uint32_t name = 0;   ///< of a macro
  std::vector<Parameter> parameters = {};
};

struct ParsedTemplate {
  std::vector<Statement> body;
  std::vector<std::string> names;  ///< of variables; a name appears once
  bool marks_generation = false;   ///< contains {% generation %}
};

/// Throws SyntaxFault (lexer.h): what Jinja refuses, and what is not supported here.
ParsedTemplate parse_template(std::string_view source);

}  // namespace trireme::chat
