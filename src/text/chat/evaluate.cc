#include <algorithm>

#include "text/chat/interpreter.h"
#include "text/chat/operators.h"

namespace trireme::chat {

Value Interpreter::evaluate(const Expression& expression) {
  const Nested nested(*this);
  machine_.budget.step();
  using Form = Expression::Kind;
  switch (expression.kind) {
    case Form::constant:
      return expression.value;
    case Form::name:
      line_ = expression.line;
      return variable(expression.name);
    case Form::logical_and:
      return evaluate_logic(expression, false);
    case Form::logical_or:
      return evaluate_logic(expression, true);
    case Form::conditional: {
      if (truth(evaluate(*expression.operands[0]))) return evaluate(*expression.operands[1]);
      if (expression.operands[2] != nullptr) return evaluate(*expression.operands[2]);
      return Value::undefined("an \"if\" within an expression was false and has no \"else\"");
    }
    case Form::call:
      return evaluate_call(expression);
    case Form::filter:
      return apply_filter(expression, nullptr);
    default:
      return evaluate_operation(expression);
  }
}

Value Interpreter::evaluate_operation(const Expression& expression) {
  using Form = Expression::Kind;
  switch (expression.kind) {
    case Form::list:
      return make_sequence(evaluate_all(expression.operands), machine_.budget);
    case Form::tuple:
      return make_sequence(evaluate_all(expression.operands), machine_.budget, Flavor::tuple);
    case Form::dictionary:
      return evaluate_dictionary(expression);
    case Form::arithmetic:
      return evaluate_arithmetic(expression);
    case Form::comparison:
      return evaluate_comparison(expression);
    case Form::join:
      return evaluate_join(expression);
    case Form::slice:
      return evaluate_slice(expression);
    default:
      break;
  }
  const Value value = evaluate(*expression.operands[0]);
  if (const auto message = message_of(value)) read_message_ = message;
  switch (expression.kind) {
    case Form::logical_not:
      return Value::boolean(!truth(value));
    case Form::negative:
      line_ = expression.line;
      return negative_of(value);
    case Form::positive:
      line_ = expression.line;
      return positive_of(value);
    case Form::attribute:
      line_ = expression.line;
      return attribute_of(machine_, value, expression.text);
    case Form::item: {
      const Value key = evaluate(*expression.operands[1]);
      line_ = expression.line;
      return item_of(machine_, value, key);
    }
    default: {  // a test
      const Arguments arguments = arguments_of(expression);
      line_ = expression.line;
      if (expression.test == nullptr) fault("{}", expression.text);
      return Value::boolean(expression.test->holds(machine_, value, arguments));
    }
  }
}

Value Interpreter::variable(uint32_t name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get()) {
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return value;
    }
  }
  if (given_[name]) return *given_[name];
  if (globals_[name] != nullptr) return Value(globals_[name]);
  if (is_known_global(parsed_.names[name])) fault("the function \"{}\" is not supported", parsed_.names[name]);
  return Value::undefined(fmt::format("\"{}\" is undefined", parsed_.names[name]));
}

Value Interpreter::evaluate_arithmetic(const Expression& expression) {
  Value result = evaluate(*expression.operands[0]);
  for (size_t i = 1; i < expression.operands.size(); ++i) {
    const Value operand = evaluate(*expression.operands[i]);
    line_ = expression.line;
    result = calculate(machine_, expression.operators[i], result, operand);
  }
  return result;
}

Value Interpreter::evaluate_comparison(const Expression& expression) {
  Value left = evaluate(*expression.operands[0]);
  for (size_t i = 1; i < expression.operands.size(); ++i) {
    Value right = evaluate(*expression.operands[i]);
    line_ = expression.line;
    if (!compare(machine_, expression.operators[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

/// The first operand whose truth is `stops_at`, else the last one.
Value Interpreter::evaluate_logic(const Expression& expression, bool stops_at) {
  Value value;
  for (const ExpressionPtr& operand : expression.operands) {
    value = evaluate(*operand);
    if (truth(value) == stops_at) break;
  }
  return value;
}

Value Interpreter::evaluate_join(const Expression& expression) {
  std::string text;
  for (const ExpressionPtr& operand : expression.operands) {
    const Value value = evaluate(*operand);
    line_ = expression.line;
    text += to_text(value, machine_.budget);
  }
  machine_.budget.make_text(text.size());
  return Value::text(std::move(text));
}

Value Interpreter::evaluate_dictionary(const Expression& expression) {
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i < expression.operands.size(); i += 2) {
    const Value key = evaluate(*expression.operands[i]);
    Value value = evaluate(*expression.operands[i + 1]);
    line_ = expression.line;
    set_entry(entries, key, std::move(value), machine_.budget);
  }
  return make_mapping(std::move(entries), machine_.budget);
}

Value Interpreter::evaluate_slice(const Expression& expression) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i) {
    if (expression.operands[i] == nullptr) continue;
    parts[i] = evaluate(*expression.operands[i]);
    if (i > 0 && parts[i].is(Kind::undefined)) fail_undefined(parts[i]);
  }
  line_ = expression.line;
  return slice_of(machine_, parts[0], parts[1], parts[2], parts[3]);
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExpressionPtr>& expressions) {
  std::vector<Value> values;
  for (const ExpressionPtr& expression : expressions) values.push_back(evaluate(*expression));
  return values;
}

Arguments Interpreter::arguments_of(const Expression& expression) {
  Arguments arguments{.given = evaluate_all(expression.arguments)};
  for (const auto& [name, value] : expression.named_arguments) arguments.named.emplace_back(name, evaluate(*value));
  if (expression.more_arguments != nullptr) {
    for (Value& value : items_of(evaluate(*expression.more_arguments), machine_.budget))
      arguments.given.push_back(std::move(value));
  }
  if (expression.more_named == nullptr) return arguments;
  const Value more = evaluate(*expression.more_named);
  line_ = expression.line;
  if (more.is(Kind::undefined)) fail_undefined(more);
  if (!more.is(Kind::mapping)) fault("{} after ** is not a dictionary", type_name(more));
  machine_.budget.make_items(more.mapping().entries.size());
  for (const auto& [name, value] : more.mapping().entries) {
    if (!name.is(Kind::text)) fault("the name of an argument is {}, expected a string", type_name(name));
    arguments.named.emplace_back(name.text(), value);
  }
  return arguments;
}

Value Interpreter::apply_filter(const Expression& expression, const Value* block) {
  Value input;
  if (expression.operands[0] != nullptr) {
    const Expression& operand = *expression.operands[0];
    input = block != nullptr ? apply_filter(operand, block) : evaluate(operand);
  } else {
    input = *block;
  }
  const Arguments arguments = arguments_of(expression);
  line_ = expression.line;
  if (expression.filter == nullptr) fault("{}", expression.text);
  return expression.filter->apply(machine_, input, arguments);
}

Value Interpreter::evaluate_call(const Expression& expression) {
  const Value callee = evaluate(*expression.operands[0]);
  Arguments arguments = arguments_of(expression);
  line_ = expression.line;
  switch (callee.kind()) {
    case Kind::macro:
      return call_macro(*callee.as<const Macro*>(), std::move(arguments));
    case Kind::global:
      return callee.as<const Global*>()->call(machine_, arguments);
    case Kind::method: {
      const Method& method = *callee.as<std::shared_ptr<const Method>>();
      return method.entry->call(machine_, method.self, arguments);
    }
    case Kind::undefined:
      fail_undefined(callee);
    default:
      fault("{} cannot be called", type_name(callee));
  }
}

}  // namespace trireme::chat
