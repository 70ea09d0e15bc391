#pragma once
// The values of names in a configuration file in Python: arithmetic, comparisons, text, and the few functions of Python
// that such files call. Functions throw Error::config without path and line.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/python_tokens.h"
#include "config/setting.h"

namespace trireme {

struct PythonObject;

/// A file that was imported, or a folder of such files: its names.
struct PythonModule {
  std::string name;  ///< "config.base"
  std::map<std::string, PythonObject> names;
  bool known = true;  ///< false: the file has statements that are not supported here, so it may define any name
};

struct PythonObject {
  enum class Kind {
    value,     ///< None, a truth value, a number, a text
    sequence,  ///< items
    mapping,   ///< items: key, value, key, value, ...
    module,    ///< from a file beside the configuration
    outside,   ///< `text` is a name from Python's own modules: "os.path.join"; of a method, `value` is its text
    function,  ///< defined in a file; never called
    opaque,    ///< a value that only execution would give
  };
  Kind kind = Kind::value;
  Value value;
  std::string text;  ///< outside, function: its name; a value read from a file: its path
  std::shared_ptr<const std::vector<PythonObject>> items;
  std::shared_ptr<const PythonModule> module;
  int depth = 0;  ///< of items in items

  static PythonObject of(Value value) { return {Kind::value, std::move(value), "", {}, {}, 0}; }
  static PythonObject opaque() { return {Kind::opaque, {}, "", {}, {}, 0}; }
  static PythonObject outside(std::string name) { return {Kind::outside, {}, std::move(name), {}, {}, 0}; }
  static PythonObject function(std::string name) { return {Kind::function, {}, std::move(name), {}, {}, 0}; }
  static PythonObject of_module(std::shared_ptr<const PythonModule> module) {
    return {Kind::module, {}, "", {}, std::move(module), 0};
  }
  /// Throws where items nest deeper than 64 levels.
  static PythonObject of_items(Kind kind, std::vector<PythonObject> items);

  bool is_value() const { return kind == Kind::value; }
  bool is_opaque() const { return kind == Kind::opaque; }
  const std::string* as_text() const { return is_value() ? std::get_if<std::string>(&value) : nullptr; }
  std::optional<int64_t> as_whole() const;  ///< true counts as 1
  std::optional<double> as_number() const;  ///< of as_whole() as well
};

/// sign: + - * / // % ** and, of whole numbers, | ^ & << >>. Whole numbers stay whole (except for /) and must fit 64
/// bits; + joins texts, * repeats one. Opaque if a side is not a value.
PythonObject python_combine(std::string_view sign, const PythonObject& a, const PythonObject& b);
/// sign: == != < <= > >= in `not in` is `is not`; opaque if the result is not known here.
PythonObject python_compare(std::string_view sign, const PythonObject& a, const PythonObject& b);
/// Whether it counts as true; nothing for opaque objects.
std::optional<bool> python_truth(const PythonObject& object);
/// As {value:spec} of a formatted string writes it, and str() for an empty one; nothing if the format is not supported.
std::optional<std::string> python_format(const Value& value, std::string_view spec = "");

/// What expressions read from the environment of the process; values set by the file itself take precedence.
using PythonEnvironment = std::map<std::string, std::string>;

PythonObject python_attribute(const PythonObject& of, const std::string& name);
/// container[index]. Throws for a missing index or key.
PythonObject python_item(const PythonObject& container, const PythonObject& index,
                         const PythonEnvironment& environment);
/// Calls an object of Kind::outside: opaque if it is not supported here. Throws where Python would raise.
PythonObject python_call(const PythonObject& function, const std::vector<PythonObject>& arguments,
                         const PythonEnvironment& environment);

/// Whether it is a built-in function without side effects on names.
bool is_python_builtin(std::string_view name);
/// Whether it is a module that `import` finds in Python itself before any file, or that train.py has imported already.
bool is_python_library(std::string_view module);

// Expressions of a configuration file in Python: literals, arithmetic, comparisons, conditions, formatted strings, and
// the calls that python_call() knows. Anything else that would have to be executed gives an opaque object, or an error
// if executing it could set names.

/// State that one configuration file shares with all files that it reads.
struct PythonProgram {
  std::map<std::string, Value> keys;
  std::string folder;  ///< of the configuration file
  int layer = 0;
  PythonEnvironment environment;
  std::map<std::string, std::shared_ptr<const PythonModule>> modules;  ///< by path
  int files = 0, depth = 0;  ///< files run so far, and how deep they are nested
};

/// The names of a file and of the files that it runs with exec().
struct PythonNamespace {
  PythonProgram& program;
  std::map<std::string, PythonObject> names;
  std::set<std::string> read;  ///< names that an expression used
  std::vector<Setting> settings;
  bool is_main = false;  ///< it contains nanoGPT's own names
};

/// One expression, or `several` separated by commas as a sequence; the cursor moves past it. Expressions may nest 64
/// levels deep, of which `depth` are in use. Throws PythonError.
PythonObject evaluate_python(PythonCursor& in, PythonNamespace& names, bool several = true, int depth = 0);

/// Whether the sign is an operator that an assignment can contain, as the + of +=.
bool is_python_operator(std::string_view sign);

}  // namespace trireme
