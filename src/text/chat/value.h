#pragma once
// The values of a template: Python's, as far as templates use them. Immutable, except the attributes of a namespace.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/chat/budget.h"

namespace trireme::chat {

class Value;
struct Sequence;
struct Mapping;
struct Namespace;
struct LoopState;
struct Macro;
struct Method;
struct MethodEntry;
struct Global;

/// In the order of Value's variant.
enum class Kind : uint8_t {
  undefined,
  none,
  boolean,
  integer,
  number,
  text,
  sequence,
  mapping,
  name_space,
  loop,
  macro,
  method,
  global
};

struct Undefined {
  std::shared_ptr<const std::string> why;  ///< "'x' is undefined"
};
struct None {};
struct Text {
  std::shared_ptr<const std::string> bytes;
  /// Marked by the filter `safe`: Python's Markup, which escapes what is added to it by + with HTML's entities.
  bool safe = false;
};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<const Sequence>,
                            std::shared_ptr<const Mapping>, Namespace*, std::shared_ptr<const LoopState>, const Macro*,
                            std::shared_ptr<const Method>, const Global*>;

  Value() = default;  ///< undefined
  explicit Value(Data data) : data_(std::move(data)) {}
  static Value undefined(std::string why) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(why))});
  }
  static Value none() { return Value(None{}); }
  static Value boolean(bool value) { return Value(Data(value)); }
  static Value integer(int64_t value) { return Value(Data(value)); }
  static Value number(double value) { return Value(Data(value)); }
  static Value text(std::string bytes, bool safe = false) {
    return Value(Text{std::make_shared<const std::string>(std::move(bytes)), safe});
  }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  template <class T>
  const T& as() const {
    return std::get<T>(data_);
  }
  const std::string& text() const { return *std::get<Text>(data_).bytes; }
  bool safe() const { return is(Kind::text) && std::get<Text>(data_).safe; }
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(data_); }
  const Mapping& mapping() const { return *std::get<std::shared_ptr<const Mapping>>(data_); }

 private:
  Data data_;
};

/// What a sequence is in Python, which decides what may be done with it.
enum class Flavor : uint8_t {
  list,
  tuple,
  range,
  view,  ///< of a dictionary: has a length, no index
  once   ///< a generator: neither; always true; its items are given once
};

struct Sequence {
  Flavor flavor = Flavor::list;
  std::vector<Value> items;
  uint32_t depth = 1;          ///< levels of containers
  mutable bool taken = false;  ///< of a generator
};

struct Mapping {
  std::vector<std::pair<Value, Value>> entries;  ///< in order of insertion; keys are distinct
  uint32_t depth = 1;
  /// nullptr: no such key. Throws Fault for a key that Python cannot hash.
  const Value* find(const Value& key, Budget& budget) const;
  const Value* find(std::string_view key) const;
};

/// Belongs to the interpreter, as do macros: values only refer to them, so that no cycle is kept alive.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
};

/// The variable `loop`.
struct LoopState {
  std::vector<Value> items;
  size_t index = 0;
  uint32_t depth = 1;
};

/// A function of a value, as in text.split.
struct Method {
  Value self;
  const MethodEntry* entry;
};

/// Levels of containers in a value. Functions that make containers throw Fault above kMostLevels.
constexpr uint32_t kMostLevels = 128;
uint32_t levels_of(const Value& value);
Value make_sequence(std::vector<Value> items, Budget& budget, Flavor flavor = Flavor::list);
Value make_mapping(std::vector<std::pair<Value, Value>> entries, Budget& budget);
/// Keys must be hashable; a later equal key replaces the value of an earlier one.
void set_entry(std::vector<std::pair<Value, Value>>& entries, const Value& key, Value value, Budget& budget);

/// Of a JSON value. Throws Fault for an integer beyond 64 bits.
Value from_json(const Json& json, Budget& budget);

/// The value's type in Python with its article, for messages: "a str".
const char* type_name(const Value& value);
bool truth(const Value& value);
/// Python's ==, which never fails.
bool equal(const Value& a, const Value& b, Budget& budget);
/// Below 0, 0 or above 0. Throws Fault for types that have no order, and for NaN, which compares false with everything.
int order(const Value& a, const Value& b, Budget& budget);
/// Python's len(); nothing if the value has none.
std::optional<size_t> length_of(const Value& value, Budget& budget);
/// The items that a loop visits. Throws Fault if it cannot.
std::vector<Value> items_of(const Value& value, Budget& budget);
/// Python's str().
std::string to_text(const Value& value, Budget& budget);
/// Python's repr().
std::string to_source(const Value& value, Budget& budget);
/// Fails as every use of an undefined value other than printing, testing and looping does.
[[noreturn]] void fail_undefined(const Value& value);

}  // namespace trireme::chat
