#pragma once
// Runs a parsed template.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/chat/builtins.h"
#include "text/chat/chat_template.h"
#include "text/chat/syntax.h"

namespace trireme::chat {

/// Variables of a block: a loop's iteration, a macro's call, a {% generation %}, the template.
struct Scope {
  std::vector<std::pair<uint32_t, Value>> variables;
  std::shared_ptr<Scope> outer;
};

struct Macro {
  const Statement* definition;
  std::shared_ptr<Scope> scope;  ///< where it was defined
};

class Interpreter {
 public:
  /// `variables` gives what the caller defines, by name. All arguments outlive this.
  Interpreter(const ParsedTemplate& parsed, Machine& machine,
              const std::function<std::optional<Value>(const std::string&)>& variables);

  /// Throws Fault; line() is then where.
  void run();
  uint32_t line() const { return line_; }
  std::string take_text() { return std::move(text_); }
  std::vector<GeneratedSpan> take_generated() { return std::move(generated_); }

 private:
  enum class Flow : uint8_t { on, break_loop, continue_loop };
  using ScopePtr = std::shared_ptr<Scope>;

  /// Counts what is within each other, which bounds the stack.
  class Nested {
   public:
    explicit Nested(Interpreter& of);
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --of_.nested_; }

   private:
    Interpreter& of_;
  };

  Flow run_body(const std::vector<Statement>& body);
  Flow run_statement(const Statement& statement);
  Flow run_branches(const Statement& statement);
  Flow run_loop(const Statement& statement);
  Flow run_generation(const Statement& statement);
  /// The message that a value is.
  std::optional<size_t> message_of(const Value& value) const;
  /// The message that a variable of a loop around this place is.
  std::optional<size_t> message_in_loop() const;
  void run_set(const Statement& statement);
  std::vector<Value> loop_items(const Statement& statement);
  /// What `body` writes.
  std::string captured(const std::vector<Statement>& body);
  void write(std::string_view text);
  void assign(const Target& target, Value value, Scope& scope);
  void set_variable(Scope& scope, uint32_t name, Value value);
  static ScopePtr inner(const ScopePtr& outer);

  Value evaluate(const Expression& expression);
  Value evaluate_operation(const Expression& expression);
  Value variable(uint32_t name);
  Value evaluate_arithmetic(const Expression& expression);
  Value evaluate_comparison(const Expression& expression);
  Value evaluate_logic(const Expression& expression, bool stops_at);
  Value evaluate_join(const Expression& expression);
  Value evaluate_dictionary(const Expression& expression);
  Value evaluate_slice(const Expression& expression);
  Value evaluate_call(const Expression& expression);
  Value apply_filter(const Expression& expression, const Value* block);
  std::vector<Value> evaluate_all(const std::vector<ExpressionPtr>& expressions);
  Arguments arguments_of(const Expression& expression);
  Value call_macro(const Macro& macro, Arguments arguments);

  const ParsedTemplate& parsed_;
  Machine& machine_;
  std::vector<std::optional<Value>> given_;  // by name's number
  std::vector<const Global*> globals_;
  std::deque<Macro> macros_;
  ScopePtr scope_;
  std::string text_;
  std::string* out_ = &text_;
  std::vector<GeneratedSpan> generated_;
  std::unordered_map<const Mapping*, size_t> messages_;  // places in `messages`, if the template marks what they write
  std::optional<size_t> read_message_;                   // the last one of which a member was read
  uint32_t line_ = 1, nested_ = 0;
};

}  // namespace trireme::chat
