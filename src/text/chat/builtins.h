#pragma once
// The filters, tests, functions and methods that templates may use.

#include <ctime>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/budget.h"
#include "text/chat/value.h"

namespace trireme::chat {

/// What one rendering owns. Values refer to its namespaces.
struct Machine {
  Budget budget;
  std::tm now;  ///< what strftime_now() says
  std::deque<Namespace> namespaces = {};
};

struct Arguments {
  std::vector<Value> given = {};
  std::vector<std::pair<std::string, Value>> named = {};
};

/// The arguments of a call by parameter, as Python assigns them.
class Bound {
 public:
  /// Throws Fault for too many arguments, an unknown name, or one given twice. `arguments` outlives this.
  Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> parameters);

  const Value* find(size_t parameter) const { return values_[parameter]; }  ///< nullptr: not given
  /// Throws Fault if it is missing.
  const Value& need(size_t parameter) const;
  int64_t integer(size_t parameter, int64_t otherwise) const;
  bool truth_of(size_t parameter, bool otherwise) const;
  /// Throws Fault if it is not a text.
  const std::string& text(size_t parameter) const;

 private:
  std::string function_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> values_;
};

struct Filter {
  std::string_view name;
  Value (*apply)(Machine& machine, const Value& input, const Arguments& arguments);
};
struct Test {
  std::string_view name;
  bool (*holds)(Machine& machine, const Value& input, const Arguments& arguments);
};
struct Global {
  std::string_view name;
  Value (*call)(Machine& machine, const Arguments& arguments);
};
struct MethodEntry {
  Kind kind;  ///< of values that have it
  std::string_view name;
  Value (*call)(Machine& machine, const Value& self, const Arguments& arguments);
};

/// nullptr: not supported. Those whose support has no meaning without Jinja's other parts are not.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
const Global* find_global(std::string_view name);
/// Throws Fault for a method that Python has and that is not supported.
const MethodEntry* find_method(const Value& self, std::string_view name);

/// Whether Jinja has a filter, test or global function of that name.
bool is_known_filter(std::string_view name);
bool is_known_test(std::string_view name);
bool is_known_global(std::string_view name);

/// transformers' tojson: json.dumps(), without HTML's escapes. Throws Fault for what JSON does not have.
Value to_json(Machine& machine, const Value& input, const Arguments& arguments);

/// value.name and value[key], as Jinja finds them: undefined if there is no such attribute or item.
Value attribute_of(Machine& machine, const Value& value, const std::string& name);
Value item_of(Machine& machine, const Value& value, const Value& key);

}  // namespace trireme::chat
