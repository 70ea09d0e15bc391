#include "config/python_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "config/python_arithmetic.h"

namespace trireme {
namespace {

using Kind = PythonObject::Kind;

/// Shortest digits that read back the same, with an exponent below 1e-4 and from 1e16 on.
std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::fabs(value);
  if (size != 0 && (size < 1e-4 || size >= 1e16)) {
    std::array<char, 64> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
    return {buffer.data(), end.ptr};
  }
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  std::string text(buffer.data(), end.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

std::optional<double> as_number(const PythonObject& object) {
  if (!object.is_value()) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&object.value)) return *flag ? 1 : 0;
  if (const auto* whole = std::get_if<int64_t>(&object.value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&object.value)) return *real;
  return std::nullopt;
}

std::optional<int64_t> as_whole(const PythonObject& object) {
  if (!object.is_value()) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&object.value)) return *flag;
  if (const auto* whole = std::get_if<int64_t>(&object.value)) return *whole;
  return std::nullopt;
}

/// -1, 0, 1; nothing if Python does not order them.
std::optional<int> order(const PythonObject& a, const PythonObject& b) {
  if (const auto x = as_whole(a), y = as_whole(b); x && y) return *x < *y ? -1 : *x > *y ? 1 : 0;
  const auto x = as_number(a), y = as_number(b);
  if (x && y && !std::isnan(*x) && !std::isnan(*y)) return *x < *y ? -1 : *x > *y ? 1 : 0;
  const std::string *left = a.as_text(), *right = b.as_text();
  if (left != nullptr && right != nullptr) return left->compare(*right) < 0 ? -1 : *left == *right ? 0 : 1;
  return std::nullopt;
}

/// Nothing: unknown.
std::optional<bool> equal(const PythonObject& a, const PythonObject& b) {
  if (!a.is_value() || !b.is_value()) return std::nullopt;
  const auto compared = order(a, b);
  if (compared) return *compared == 0;
  return std::holds_alternative<std::monostate>(a.value) && std::holds_alternative<std::monostate>(b.value);
}

std::optional<bool> contains(const PythonObject& container, const PythonObject& item) {
  const std::string *text = container.as_text(), *part = item.as_text();
  if (text != nullptr && part != nullptr) return text->find(*part) != std::string::npos;
  if (container.kind != Kind::sequence && container.kind != Kind::mapping) return std::nullopt;
  const size_t stride = container.kind == Kind::mapping ? 2 : 1;
  bool known = true;
  for (size_t i = 0; i < container.items->size(); i += stride) {
    const auto same = equal((*container.items)[i], item);
    if (same && *same) return true;
    known = known && same.has_value();
  }
  return known ? std::optional(false) : std::nullopt;
}

PythonObject truth(std::optional<bool> known, bool wanted = true) {
  return known ? PythonObject::of(*known == wanted) : PythonObject::opaque();
}

std::string shown(const PythonObject& object) {
  return object.as_text() != nullptr ? fmt::format("\"{}\"", *object.as_text()) : python_text(object.value);
}

std::string stripped(const std::string& text) {
  constexpr const char* kBlank = " \t\n\r\f\v";
  const size_t first = text.find_first_not_of(kBlank);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// A number in a text, as int() and float() read it.
Value number_of(const std::string& function, const std::string& text) {
  std::string digits = stripped(text);
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  const char* const end = digits.data() + digits.size();
  if (function == "int") {
    int64_t whole = 0;
    const auto read = std::from_chars(digits.data(), end, whole);
    require(read.ec == std::errc() && read.ptr == end, ErrorKind::config, "int(\"{}\"): not a whole number of 64 bits",
            text);
    return whole;
  }
  double real = 0;
  const auto read = std::from_chars(digits.data(), end, real);
  require(read.ec == std::errc() && read.ptr == end, ErrorKind::config, "float(\"{}\"): not a number, or too large",
          text);
  return real;
}

Value truncated(double value, const char* function) {
  require(std::fabs(value) < 9.2e18, ErrorKind::config, "{}({}) does not fit a 64-bit whole number", function,
          real_text(value));
  return static_cast<int64_t>(value);
}

PythonObject convert(const std::string& function, const PythonObject& argument) {
  if (!argument.is_value()) return PythonObject::opaque();
  if (const std::string* text = argument.as_text(); text != nullptr)
    return PythonObject::of(number_of(function, *text));
  require(!std::holds_alternative<std::monostate>(argument.value), ErrorKind::config, "{}(None): not a number",
          function);
  if (function == "float") return PythonObject::of(*as_number(argument));
  if (const auto whole = as_whole(argument)) return PythonObject::of(*whole);
  return PythonObject::of(truncated(std::get<double>(argument.value), "int"));
}

PythonObject extreme(bool largest, const std::vector<PythonObject>& arguments) {
  const std::vector<PythonObject>& items =
      arguments.size() == 1 && arguments[0].kind == Kind::sequence ? *arguments[0].items : arguments;
  if (items.empty() || (arguments.size() == 1 && &items == &arguments)) return PythonObject::opaque();
  const PythonObject* best = &items[0];
  for (const PythonObject& item : items) {
    const auto compared = order(item, *best);
    if (!compared) return PythonObject::opaque();
    if (largest ? *compared > 0 : *compared < 0) best = &item;
  }
  return *best;
}

PythonObject rounded(const std::vector<PythonObject>& arguments) {
  const auto whole = as_whole(arguments[0]);
  if (whole && arguments.size() == 1) return PythonObject::of(*whole);
  const auto number = as_number(arguments[0]);
  if (!number || whole) return PythonObject::opaque();
  if (arguments.size() == 1) return PythonObject::of(truncated(std::nearbyint(*number), "round"));
  const auto digits = as_whole(arguments[1]);
  constexpr int64_t kMostDigits = 300;
  if (!digits || *digits < 0 || *digits > kMostDigits) return PythonObject::opaque();
  return PythonObject::of(std::stod(fmt::format("{:.{}f}", *number, *digits)));
}

PythonObject joined_path(const std::vector<PythonObject>& parts) {
  std::string path;
  for (const PythonObject& part : parts) {
    if (part.as_text() == nullptr) return PythonObject::opaque();
    if (part.as_text()->starts_with('/')) path.clear();
    if (!path.empty() && !path.ends_with('/')) path += '/';
    path += *part.as_text();
  }
  return PythonObject::of(path);
}

PythonObject variable(const std::vector<PythonObject>& arguments, const PythonEnvironment& environment) {
  if (arguments.empty() || arguments[0].as_text() == nullptr) return PythonObject::opaque();
  if (const auto found = python_variable(environment, *arguments[0].as_text())) return PythonObject::of(*found);
  return arguments.size() > 1 ? arguments[1] : PythonObject::of(std::monostate{});
}

PythonObject length(const PythonObject& object) {
  if (object.kind == Kind::sequence) return PythonObject::of(static_cast<int64_t>(object.items->size()));
  if (object.kind == Kind::mapping) return PythonObject::of(static_cast<int64_t>(object.items->size() / 2));
  const std::string* text = object.as_text();
  if (text == nullptr) return PythonObject::opaque();
  const auto characters = std::ranges::count_if(*text, [](char c) { return (c & 0xC0) != 0x80; });
  return PythonObject::of(static_cast<int64_t>(characters));
}

PythonObject of_mathematics(std::string_view name, double x) {
  if (name == "sqrt") {
    require(x >= 0, ErrorKind::config, "math.sqrt needs a number of at least 0");
    return PythonObject::of(std::sqrt(x));
  }
  if (name == "exp") return PythonObject::of(std::exp(x));
  if (name == "floor") return PythonObject::of(truncated(std::floor(x), "math.floor"));
  if (name == "ceil") return PythonObject::of(truncated(std::ceil(x), "math.ceil"));
  if (name != "log" && name != "log2" && name != "log10") return PythonObject::opaque();
  require(x > 0, ErrorKind::config, "math.{} needs a number above 0", name);
  return PythonObject::of(name == "log" ? std::log(x) : name == "log2" ? std::log2(x) : std::log10(x));
}

}  // namespace

PythonObject PythonObject::of_items(Kind kind, std::vector<PythonObject> items) {
  constexpr int kMostDepth = 64;
  int depth = 0;
  for (const PythonObject& item : items) depth = std::max(depth, item.depth + 1);
  require(depth <= kMostDepth, ErrorKind::config, "lists nest deeper than {} levels", kMostDepth);
  return {kind, {}, "", std::make_shared<const std::vector<PythonObject>>(std::move(items)), {}, depth};
}

std::string python_text(const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return "None";
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  if (const auto* real = std::get_if<double>(&value)) return real_text(*real);
  return to_text(value);
}

std::optional<std::string> python_format(const Value& value, std::string_view spec) {
  if (spec.empty()) return python_text(value);
  const bool whole = std::holds_alternative<int64_t>(value);
  if (!whole && !std::holds_alternative<double>(value)) return std::nullopt;
  const char type = spec.back();
  std::string_view rest = spec.substr(0, spec.size() - 1);
  const bool zeros = rest.starts_with('0');
  constexpr int kMost = 99;
  int width = 0, digits = -1;
  const char* const end = rest.data() + rest.size();
  const char* at = std::from_chars(rest.data(), end, width).ptr;
  if (at != end && *at == '.') at = std::from_chars(at + 1, end, digits).ptr;
  if (at != end || width < 0 || width > kMost || digits > kMost) return std::nullopt;
  if (type == 'd' && whole && digits < 0)
    return zeros ? fmt::format("{:0{}d}", std::get<int64_t>(value), width)
                 : fmt::format("{:{}d}", std::get<int64_t>(value), width);
  if (type != 'e' && type != 'f') return std::nullopt;
  const double number = whole ? static_cast<double>(std::get<int64_t>(value)) : std::get<double>(value);
  const std::string form = fmt::format("%{}{}.{}{}", zeros ? "0" : "", width, digits < 0 ? 6 : digits, type);
  std::array<char, 512> buffer{};
  const int written = std::snprintf(buffer.data(), buffer.size(), form.c_str(), number);
  if (written < 0 || static_cast<size_t>(written) >= buffer.size()) return std::nullopt;
  return std::string(buffer.data());
}

std::optional<bool> python_truth(const PythonObject& object) {
  if (object.kind == Kind::opaque) return std::nullopt;
  if (object.kind == Kind::sequence || object.kind == Kind::mapping) return !object.items->empty();
  if (!object.is_value()) return true;
  if (const std::string* text = object.as_text()) return !text->empty();
  const auto number = as_number(object);
  return number && *number != 0;
}

PythonObject python_compare(std::string_view sign, const PythonObject& a, const PythonObject& b) {
  if (sign == "in" || sign == "not in") return truth(contains(b, a), sign == "in");
  if (sign == "==" || sign == "!=") return truth(equal(a, b), sign == "==");
  if (sign == "is" || sign == "is not") {  // None, True and False exist only once
    if (!a.is_value() || !b.is_value()) return PythonObject::opaque();
    const bool single = b.value.index() <= 1 || a.value.index() <= 1;
    return single ? PythonObject::of((a.value == b.value) == (sign == "is")) : PythonObject::opaque();
  }
  if (!a.is_value() || !b.is_value()) return PythonObject::opaque();
  const auto compared = order(a, b);
  require(compared.has_value(), ErrorKind::config, "{} cannot compare {} and {}", sign, shown(a), shown(b));
  const int c = *compared;
  return PythonObject::of(sign == "<" ? c < 0 : sign == "<=" ? c <= 0 : sign == ">" ? c > 0 : c >= 0);
}

PythonObject python_item(const PythonObject& container, const PythonObject& index) {
  if (container.kind == Kind::mapping && index.is_value()) {
    for (size_t i = container.items->size(); i > 0; i -= 2) {  // if keys are equal, the last one counts
      const auto same = equal((*container.items)[i - 2], index);
      if (!same) return PythonObject::opaque();
      if (*same) return (*container.items)[i - 1];
    }
    fail(ErrorKind::config, "the dictionary has no key {}", shown(index));
  }
  const auto at = as_whole(index);
  if (container.kind != Kind::sequence || !at) return PythonObject::opaque();
  const auto size = static_cast<int64_t>(container.items->size());
  require(*at >= -size && *at < size, ErrorKind::config, "the list has no item {}", *at);
  return (*container.items)[static_cast<size_t>(*at < 0 ? *at + size : *at)];
}

std::optional<std::string> python_variable(const PythonEnvironment& environment, const std::string& name) {
  if (const auto set = environment.find(name); set != environment.end()) return set->second;
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<Value> python_constant(std::string_view name) {
  if (name == "math.pi") return 3.141592653589793;
  if (name == "math.e") return 2.718281828459045;
  if (name == "os.sep") return std::string("/");
  return std::nullopt;
}

PythonObject python_call(std::string_view function, const std::vector<PythonObject>& arguments,
                         const PythonEnvironment& environment) {
  const std::string name(function);
  const size_t count = arguments.size();
  // This build uses no accelerator, even if the machine has one.
  if (name == "torch.cuda.is_available" || name == "torch.cuda.is_bf16_supported" ||
      name == "torch.backends.mps.is_available" || name == "torch.xpu.is_available") {
    return PythonObject::of(false);
  }
  if (name == "torch.cuda.device_count") return PythonObject::of(int64_t{0});
  if (name == "os.environ.get" || name == "os.getenv") return variable(arguments, environment);
  if (name == "os.path.join") return joined_path(arguments);
  if (name == "min" || name == "max") return extreme(name == "max", arguments);
  if (count == 0) return PythonObject::opaque();
  const PythonObject& first = arguments[0];
  if (name == "round") return rounded(arguments);
  if (count != 1) return PythonObject::opaque();
  if (name == "int" || name == "float") return convert(name, first);
  if (name == "str") return first.is_value() ? PythonObject::of(python_text(first.value)) : PythonObject::opaque();
  if (name == "bool") return truth(python_truth(first));
  if (name == "len") return length(first);
  if (name == "abs" && as_number(first))
    return *as_number(first) < 0 ? PythonObject::of(python_negate(first.value)) : PythonObject::of(first.value);
  if (name.starts_with("math.") && as_number(first)) return of_mathematics(function.substr(5), *as_number(first));
  return PythonObject::opaque();
}

PythonObject python_text_method(const std::string& text, std::string_view method,
                                const std::vector<PythonObject>& arguments) {
  const bool ascii = std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; });
  std::string changed = text;
  if ((method == "lower" || method == "upper") && arguments.empty() && ascii) {
    std::ranges::transform(changed, changed.begin(), [&](unsigned char c) {
      return static_cast<char>(method == "lower" ? std::tolower(c) : std::toupper(c));
    });
    return PythonObject::of(changed);
  }
  if (method == "strip" && arguments.empty() && ascii) return PythonObject::of(stripped(text));
  if (arguments.size() != 1 || arguments[0].as_text() == nullptr) return PythonObject::opaque();
  const std::string& other = *arguments[0].as_text();
  if (method == "startswith") return PythonObject::of(text.starts_with(other));
  if (method == "endswith") return PythonObject::of(text.ends_with(other));
  return PythonObject::opaque();
}

bool changes_names(std::string_view name) {
  constexpr std::string_view kReaders[] = {"list.get",   "list.keys",  "list.values", "list.items",
                                           "list.index", "list.count", "list.copy",   "os.environ.get"};
  constexpr std::string_view kChangers[] = {"sys.modules", "sys.path", "os.chdir", "os.putenv", "random.shuffle"};
  const bool changeable = name.starts_with("list.") || name.starts_with("os.environ.") || name.starts_with("builtins.");
  return (changeable && std::ranges::find(kReaders, name) == std::end(kReaders)) ||
         std::ranges::find(kChangers, name) != std::end(kChangers);
}

bool is_python_builtin(std::string_view name) {
  constexpr std::string_view kNames[] = {"abs",  "all",   "any",    "bool",  "dict", "divmod", "float",  "int",
                                         "len",  "list",  "max",    "min",   "open", "pow",    "print",  "range",
                                         "repr", "round", "sorted", "str",   "sum",  "tuple",  "type",   "zip",
                                         "set",  "chr",   "ord",    "input", "hash", "id",     "sorted", "reversed"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

bool is_python_library(std::string_view module) {
  constexpr std::string_view kNames[] = {
      "abc",        "argparse", "ast",        "atexit",    "base64",   "builtins", "collections", "contextlib",
      "copy",       "csv",      "datetime",   "decimal",   "enum",     "errno",    "functools",   "gc",
      "getpass",    "glob",     "hashlib",    "importlib", "inspect",  "io",       "itertools",   "json",
      "locale",     "logging",  "math",       "numbers",   "numpy",    "operator", "os",          "pathlib",
      "pickle",     "platform", "pprint",     "random",    "re",       "shutil",   "signal",      "socket",
      "string",     "struct",   "subprocess", "sys",       "tempfile", "textwrap", "threading",   "time",
      "tiktoken",   "torch",    "traceback",  "types",     "typing",   "uuid",     "warnings",    "weakref",
      "dataclasses"};
  return std::ranges::find(kNames, module) != std::end(kNames);
}

}  // namespace trireme
