#pragma once
// What the names of a configuration file in Python hold, and the few functions of Python that such files call.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/setting.h"

namespace trireme {

struct PythonObject;

/// A file that was imported, or a folder of such files: its names.
struct PythonModule {
  std::string name;  ///< "config.base"
  std::map<std::string, PythonObject> names;
  bool known = true;  ///< false: the file does what is not read here, so any name may be in it
};

struct PythonObject {
  enum class Kind {
    value,     ///< None, a truth value, a number, a text
    sequence,  ///< items
    mapping,   ///< items: key, value, key, value, ...
    module,    ///< of a file beside the configuration
    outside,   ///< `text` is the name of something of Python's own modules: "os.path.join"
    function,  ///< defined in a file; never called
    opaque,    ///< what would have to be executed
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
  /// Throws Error::config where items nest deeper than 64 levels.
  static PythonObject of_items(Kind kind, std::vector<PythonObject> items);

  bool is_value() const { return kind == Kind::value; }
  bool is_opaque() const { return kind == Kind::opaque; }
  const std::string* as_text() const { return is_value() ? std::get_if<std::string>(&value) : nullptr; }
};

/// As str() writes it.
std::string python_text(const Value& value);
/// As {value:spec} of a formatted string writes it; nothing for what is not known here.
std::optional<std::string> python_format(const Value& value, std::string_view spec);

/// Whether it counts as true; nothing for what would have to be executed.
std::optional<bool> python_truth(const PythonObject& object);

/// sign: == != < <= > >= in `not in` is `is not`; opaque where that is not known here. Throws Error::config without a
/// place.
PythonObject python_compare(std::string_view sign, const PythonObject& a, const PythonObject& b);

/// container[index]. Throws Error::config without a place for an index or a key that is not there.
PythonObject python_item(const PythonObject& container, const PythonObject& index);

/// What expressions read of the process around them; replaced by what the file itself sets.
using PythonEnvironment = std::map<std::string, std::string>;

/// A function of Python's own modules or a built-in one ("int", "os.path.join") with these arguments: opaque where it
/// is not known here. Throws Error::config without a place, as Python would raise.
PythonObject python_call(std::string_view function, const std::vector<PythonObject>& arguments,
                         const PythonEnvironment& environment);
/// The same of a method of a text.
PythonObject python_text_method(const std::string& text, std::string_view method,
                                const std::vector<PythonObject>& arguments);
/// math.pi and the like; nothing: another name below `outside`.
std::optional<Value> python_constant(std::string_view name);

/// A variable of `environment`, or else of the process.
std::optional<std::string> python_variable(const PythonEnvironment& environment, const std::string& name);

/// Whether a function ("list.append", "os.environ.update", "sys.modules...") may change lists, names, variables of the
/// environment, or where files are found: what it would do cannot be left out.
bool changes_names(std::string_view name);
/// Whether it is a built-in function that sets nothing.
bool is_python_builtin(std::string_view name);
/// Whether it is a module that `import` finds in Python itself before any file, or that train.py has imported already.
bool is_python_library(std::string_view module);

}  // namespace trireme
