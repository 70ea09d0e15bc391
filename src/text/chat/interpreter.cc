#include "text/chat/interpreter.h"

#include <algorithm>

namespace trireme::chat {

Interpreter::Nested::Nested(Interpreter& of) : of_(of) {
  const uint32_t limit = of_.machine_.budget.limits().nesting;
  if (of_.nested_ >= limit) fault("expressions, blocks and macros are nested more than {} levels deep", limit);
  ++of_.nested_;
}

Interpreter::Interpreter(const ParsedTemplate& parsed, Machine& machine,
                         const std::function<std::optional<Value>(const std::string&)>& variables)
    : parsed_(parsed), machine_(machine), scope_(std::make_shared<Scope>()) {
  for (const std::string& name : parsed.names) {
    given_.push_back(variables(name));
    globals_.push_back(find_global(name));
    if (name != "messages" || !parsed.marks_generation || !given_.back() || !given_.back()->is(Kind::sequence))
      continue;
    for (const Value& message : given_.back()->sequence().items) {
      if (message.is(Kind::mapping)) messages_.emplace(&message.mapping(), messages_.size());
    }
  }
}

void Interpreter::run() { run_body(parsed_.body); }

Interpreter::ScopePtr Interpreter::inner(const ScopePtr& outer) {
  auto made = std::make_shared<Scope>();
  made->outer = outer;
  return made;
}

Interpreter::Flow Interpreter::run_body(const std::vector<Statement>& body) {
  for (const Statement& statement : body) {
    const Flow flow = run_statement(statement);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run_statement(const Statement& statement) {
  const Nested nested(*this);
  machine_.budget.step();
  line_ = statement.line;
  switch (statement.kind) {
    case Statement::Kind::text:
      write(statement.text);
      break;
    case Statement::Kind::output: {
      const Value value = evaluate(*statement.value);
      line_ = statement.line;
      write(value.is(Kind::text) ? value.text() : to_text(value, machine_.budget));
      break;
    }
    case Statement::Kind::branch:  // only within branches
    case Statement::Kind::branches:
      return run_branches(statement);
    case Statement::Kind::loop:
      return run_loop(statement);
    case Statement::Kind::generation:
      return run_generation(statement);
    case Statement::Kind::set:
      run_set(statement);
      break;
    case Statement::Kind::macro:
      macros_.push_back({&statement, scope_});
      set_variable(*scope_, statement.name, Value(static_cast<const Macro*>(&macros_.back())));
      break;
    case Statement::Kind::break_loop:
      return Flow::break_loop;
    case Statement::Kind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run_branches(const Statement& statement) {
  for (const Statement& branch : statement.branches) {
    if (truth(evaluate(*branch.condition))) return run_body(branch.body);
  }
  return run_body(statement.otherwise);
}

/// Those that fulfil the loop's condition.
std::vector<Value> Interpreter::loop_items(const Statement& statement) {
  const Value value = evaluate(*statement.value);
  line_ = statement.line;
  std::vector<Value> items = items_of(value, machine_.budget);
  if (statement.condition == nullptr) return items;
  const ScopePtr outside = scope_;
  std::vector<Value> chosen;
  for (Value& item : items) {
    scope_ = inner(outside);
    assign(statement.targets[0], item, *scope_);
    if (truth(evaluate(*statement.condition))) chosen.push_back(std::move(item));
  }
  scope_ = outside;
  return chosen;
}

Interpreter::Flow Interpreter::run_loop(const Statement& statement) {
  auto state = std::make_shared<LoopState>();
  state->items = loop_items(statement);
  for (const Value& item : state->items) state->depth = std::max(state->depth, levels_of(item) + 1);
  if (state->items.empty()) return run_body(statement.otherwise);
  const auto loop_name = std::ranges::find(parsed_.names, "loop");  // only if the template mentions it
  const ScopePtr outside = scope_;
  bool completed = false;  // Jinja's `else` also runs if every iteration ended by break or continue
  for (; state->index < state->items.size(); ++state->index) {
    scope_ = inner(outside);
    line_ = statement.line;
    if (loop_name != parsed_.names.end()) {
      set_variable(*scope_, static_cast<uint32_t>(loop_name - parsed_.names.begin()),
                   Value(std::shared_ptr<const LoopState>(state)));
    }
    assign(statement.targets[0], state->items[state->index], *scope_);
    const Flow flow = run_body(statement.body);
    completed = completed || flow == Flow::on;
    if (flow == Flow::break_loop) break;
  }
  scope_ = outside;
  return completed ? Flow::on : run_body(statement.otherwise);
}

Interpreter::Flow Interpreter::run_generation(const Statement& statement) {
  const ScopePtr outside = scope_;
  const size_t begin = out_->size();
  const std::optional<size_t> message = message_in_loop();
  scope_ = inner(outside);
  run_body(statement.body);
  scope_ = outside;
  generated_.push_back({begin, out_->size(), message ? message : read_message_});
  return Flow::on;
}

std::optional<size_t> Interpreter::message_of(const Value& value) const {
  if (!value.is(Kind::mapping)) return std::nullopt;
  const auto at = messages_.find(&value.mapping());
  return at == messages_.end() ? std::nullopt : std::optional(at->second);
}

std::optional<size_t> Interpreter::message_in_loop() const {
  for (const Scope* scope = scope_.get(); scope->outer != nullptr; scope = scope->outer.get()) {
    for (const auto& [name, value] : scope->variables) {
      if (const auto message = message_of(value)) return message;
    }
  }
  return std::nullopt;
}

void Interpreter::run_set(const Statement& statement) {
  Value value;
  if (statement.block) {
    const ScopePtr outside = scope_;
    scope_ = inner(outside);
    value = Value::text(captured(statement.body));
    scope_ = outside;
    line_ = statement.line;
    if (statement.value != nullptr) value = apply_filter(*statement.value, &value);
  } else {
    value = evaluate(*statement.value);
    line_ = statement.line;
  }
  assign(statement.targets[0], std::move(value), *scope_);
}

std::string Interpreter::captured(const std::vector<Statement>& body) {
  std::string text;
  std::string* const outside = std::exchange(out_, &text);
  try {
    run_body(body);
  } catch (...) {
    out_ = outside;
    throw;
  }
  out_ = outside;
  return text;
}

void Interpreter::write(std::string_view text) {
  machine_.budget.make_text(text.size());
  const uint64_t limit = machine_.budget.limits().output;
  if (out_->size() + text.size() > limit) fault("the text of a conversation exceeds {} bytes, the limit", limit);
  *out_ += text;
}

void Interpreter::set_variable(Scope& scope, uint32_t name, Value value) {
  for (auto& [known, present] : scope.variables) {
    if (known == name) {
      present = std::move(value);
      return;
    }
  }
  scope.variables.emplace_back(name, std::move(value));
}

void Interpreter::assign(const Target& target, Value value, Scope& scope) {
  if (target.tuple) {
    const std::vector<Value> values = items_of(value, machine_.budget);
    if (values.size() != target.parts.size())
      fault("found {} values to assign, expected {}", values.size(), target.parts.size());
    for (size_t i = 0; i < values.size(); ++i) assign(target.parts[i], values[i], scope);
    return;
  }
  if (target.attribute.empty()) {
    set_variable(scope, target.name, std::move(value));
    return;
  }
  const Value owner = variable(target.name);
  if (!owner.is(Kind::name_space))
    fault("\"{}.{}\" cannot be set: \"{}\" is {}, expected a namespace", parsed_.names[target.name], target.attribute,
          parsed_.names[target.name], type_name(owner));
  if (target.attribute.starts_with('_'))
    fault("a namespace cannot have the attribute \"{}\": it begins with _", target.attribute);
  auto& attributes = owner.as<Namespace*>()->attributes;
  const auto at = std::ranges::find(attributes, target.attribute, &std::pair<std::string, Value>::first);
  if (at == attributes.end()) {
    attributes.emplace_back(target.attribute, std::move(value));
  } else {
    at->second = std::move(value);
  }
}

Value Interpreter::call_macro(const Macro& macro, Arguments arguments) {
  const Nested nested(*this);
  const Statement& definition = *macro.definition;
  const ScopePtr outside = scope_;
  const ScopePtr own = inner(macro.scope);
  const auto& parameters = definition.parameters;
  if (arguments.given.size() > parameters.size())
    fault("the macro \"{}\" takes at most {} arguments, found {}", definition.text, parameters.size(),
          arguments.given.size());
  std::vector<std::optional<Value>> values(parameters.size());
  for (size_t i = 0; i < arguments.given.size(); ++i) values[i] = std::move(arguments.given[i]);
  for (auto& [name, value] : arguments.named) {
    const auto at = std::ranges::find(parameters, name, &Parameter::text);
    if (at == parameters.end()) fault("the macro \"{}\" has no argument \"{}\"", definition.text, name);
    auto& place = values[static_cast<size_t>(at - parameters.begin())];
    if (place) fault("the macro \"{}\" got the argument \"{}\" twice", definition.text, name);
    place = std::move(value);
  }
  scope_ = own;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!values[i]) {
      values[i] = parameters[i].otherwise != nullptr
                      ? evaluate(*parameters[i].otherwise)
                      : Value::undefined(fmt::format("the argument \"{}\" of the macro \"{}\" was not given",
                                                     parameters[i].text, definition.text));
    }
    set_variable(*own, parameters[i].name, std::move(*values[i]));
  }
  std::string text = captured(definition.body);
  scope_ = outside;
  return Value::text(std::move(text));
}

}  // namespace trireme::chat
