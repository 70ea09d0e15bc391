#include "config/python_lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "config/yaml_reader.h"

namespace trireme {
namespace {

using Kind = PythonObject::Kind;

constexpr const char* kOpenFile = "open()";
constexpr const char* kReadFile = "open().read";

}  // namespace

PythonObject PythonLookup::name(const PythonToken& token) const {
  if (token.is("True")) return PythonObject::of(true);
  if (token.is("False")) return PythonObject::of(false);
  if (token.is("None")) return PythonObject::of(std::monostate{});
  const std::string name(token.text);
  const auto found = scope_.names.find(name);
  if (found != scope_.names.end()) {
    scope_.read.insert(name);
    return found->second;
  }
  if (is_python_builtin(name)) return PythonObject::outside(name);
  constexpr std::string_view kSetters[] = {"globals", "locals",     "vars", "exec",         "eval",
                                           "setattr", "__import__", "dir",  "__builtins__", "delattr"};
  if (std::ranges::find(kSetters, name) != std::end(kSetters))
    fail_python(path_, token.line, fmt::format("{} is not supported: it may set any name", name));
  fail_python(path_, token.line, fmt::format("\"{}\" has no value here; assign it first", name));
}

PythonObject PythonLookup::attribute(const PythonObject& of, const std::string& name, int line) const {
  if (name.starts_with("__"))
    fail_python(path_, line, fmt::format("names with \"__\" such as \"{}\" are not supported", name));
  const bool items = of.kind == Kind::sequence || of.kind == Kind::mapping;
  if (changes_names(items ? "list." + name : of.kind == Kind::outside ? of.text + "." + name : ""))
    fail_python(
        path_, line,
        fmt::format(".{} would execute code that may change the meaning of the file, which is not supported; write "
                    "the values instead",
                    name));
  if (of.kind == Kind::module) {
    const auto found = of.module->names.find(name);
    if (found != of.module->names.end()) return found->second;
    if (of.module->known) fail_python(path_, line, fmt::format("module {} has no \"{}\"", of.module->name, name));
    return PythonObject::opaque();
  }
  if (of.kind == Kind::outside && of.text == kOpenFile) {
    PythonObject method = of;
    method.text = name == "read" ? kReadFile : "open()." + name;
    return method;
  }
  if (of.kind == Kind::outside) {
    const std::string full = of.text + "." + name;
    const std::optional<Value> constant = python_constant(full);
    return constant ? PythonObject::of(*constant) : PythonObject::outside(full);
  }
  if (of.as_text() != nullptr) {
    PythonObject method = PythonObject::outside("str." + name);
    method.value = of.value;
    return method;
  }
  return PythonObject::opaque();
}

PythonObject PythonLookup::item(const PythonObject& container, const PythonObject& index) const {
  if (container.kind == Kind::outside && container.text == "os.environ" && index.as_text() != nullptr) {
    const auto value = python_variable(*scope_.environment, *index.as_text());
    require(value.has_value(), ErrorKind::config, "the environment has no variable {}", *index.as_text());
    return PythonObject::of(*value);
  }
  return python_item(container, index);
}

void PythonLookup::require_harmless(const PythonObject& function, int line) const {
  if (function.kind == Kind::outside || function.is_opaque()) return;
  fail_python(path_, line,
              fmt::format("{}() is not supported: calls are not executed; write the result instead",
                          function.text.empty() ? "this call" : function.text));
}

bool PythonLookup::is_harmless(const std::string& name, bool is_attribute) const {
  const auto found = scope_.names.find(name);
  if (found != scope_.names.end()) return found->second.kind == Kind::outside;
  return is_attribute || is_python_builtin(name) || is_python_keyword(name);
}

PythonObject PythonLookup::call(const PythonObject& function, const std::vector<PythonObject>& arguments) const {
  if (function.text == "open") {
    const bool reads = arguments.size() == 1 ||
                       (arguments.size() == 2 && arguments[1].as_text() != nullptr && *arguments[1].as_text() == "r");
    if (!reads || arguments[0].as_text() == nullptr) return PythonObject::opaque();
    PythonObject file = PythonObject::outside(kOpenFile);
    file.value = arguments[0].value;
    return file;
  }
  if (function.text == kReadFile && arguments.empty()) {
    const std::string& path = std::get<std::string>(function.value);
    PythonObject text = PythonObject::of(read_config_text(path));
    text.text = path;
    return text;
  }
  if (function.text.starts_with("str."))
    return python_text_method(std::get<std::string>(function.value), function.text.substr(4), arguments);
  return python_call(function.text, arguments, *scope_.environment);
}

}  // namespace trireme
