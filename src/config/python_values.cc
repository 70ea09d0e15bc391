#include "config/python_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <compare>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "config/python_tokens.h"
#include "config/yaml_reader.h"

namespace trireme {
namespace {

using Kind = PythonObject::Kind;
using Arguments = std::vector<PythonObject>;
using std::string_view;
__extension__ using Wide = __int128;

constexpr size_t kMaxText = size_t{1} << 16;  // `a = a + a` in many lines must not grow without bound

std::string shown(const PythonObject& object) {
  return object.as_text() != nullptr ? fmt::format("\"{}\"", *object.as_text()) : *python_format(object.value);
}

PythonObject fitting(string_view sign, Wide value) {
  require(value >= INT64_MIN && value <= INT64_MAX, ErrorKind::config,
          "the result of {} does not fit a 64-bit whole number", sign);
  return PythonObject::of(static_cast<int64_t>(value));
}

PythonObject truncated(double value, string_view function) {
  require(std::fabs(value) < 9.2e18, ErrorKind::config, "{}({}) does not fit a 64-bit whole number", function,
          *python_format(value));
  return PythonObject::of(static_cast<int64_t>(value));
}

bool is_of_bits(string_view sign) { return lists_word("| ^ & << >>", sign); }

PythonObject combine_bits(string_view sign, int64_t a, int64_t b) {
  if (sign == "|") return PythonObject::of(a | b);
  if (sign == "^") return PythonObject::of(a ^ b);
  if (sign == "&") return PythonObject::of(a & b);
  require(b >= 0, ErrorKind::config, "{} by {}, expected 0 or more", sign, b);
  constexpr int64_t kMost = 64;  // a longer shift changes nothing: the result does not fit, or is 0 or -1
  if (sign == ">>") return PythonObject::of(a >> std::min(b, kMost - 1));
  return fitting(sign, Wide{a} * (Wide{1} << std::min(b, kMost)));
}

PythonObject combine_whole(string_view sign, int64_t a, int64_t b) {
  if (sign == "+") return fitting(sign, Wide{a} + b);
  if (sign == "-") return fitting(sign, Wide{a} - b);
  if (sign == "*") return fitting(sign, Wide{a} * b);
  if (sign == "**") {
    PythonObject result = PythonObject::of(int64_t{1});
    // After 64 steps every base except -1, 0 and 1 is too large.
    for (int64_t i = std::min(b, 64 + b % 2); i > 0; --i) result = fitting(sign, Wide{*result.as_whole()} * a);
    return result;
  }
  if (is_of_bits(sign)) return combine_bits(sign, a, b);
  require(b != 0, ErrorKind::config, "division by zero");
  const Wide floor = Wide{a} / b - (a % Wide{b} != 0 && (a < 0) != (b < 0));
  return fitting(sign, sign == "//" ? floor : a - floor * b);
}

PythonObject combine_real(string_view sign, double a, double b) {
  double result = 0;
  if (sign == "+") result = a + b;
  if (sign == "-") result = a - b;
  if (sign == "*") result = a * b;
  if (sign == "**") result = std::pow(a, b);
  if (sign == "/" || sign == "//" || sign == "%") {
    require(b != 0, ErrorKind::config, "division by zero");
    result = sign == "/" ? a / b : std::floor(a / b);
    if (sign == "%") result = a - result * b;
  }
  require(std::isfinite(result), ErrorKind::config, "the result of {} is not a finite number", sign);
  return PythonObject::of(result);
}

PythonObject repeated(const std::string& text, int64_t times) {
  const size_t count = text.empty() || times < 0 ? 0 : static_cast<size_t>(times);
  require(count <= kMaxText / std::max<size_t>(text.size(), 1), ErrorKind::config, "a string grows beyond {} bytes",
          kMaxText);
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return PythonObject::of(result);
}

std::partial_ordering order(const PythonObject& a, const PythonObject& b) {
  if (const auto x = a.as_whole(), y = b.as_whole(); x && y) return *x <=> *y;
  if (const auto x = a.as_number(), y = b.as_number(); x && y) return *x <=> *y;
  if (a.as_text() != nullptr && b.as_text() != nullptr) return *a.as_text() <=> *b.as_text();
  return std::partial_ordering::unordered;
}

/// Nothing: unknown.
std::optional<bool> equal(const PythonObject& a, const PythonObject& b) {
  if (!a.is_value() || !b.is_value()) return std::nullopt;
  const auto compared = order(a, b);
  return compared == 0 || (a.value.index() == 0 && b.value.index() == 0);
}

std::optional<bool> contains(const PythonObject& container, const PythonObject& item) {
  const std::string *text = container.as_text(), *part = item.as_text();
  if (text != nullptr && part != nullptr) return text->find(*part) != std::string::npos;
  if (!container.items) return std::nullopt;
  bool known = true;
  for (size_t i = 0; i < container.items->size(); i += container.kind == Kind::mapping ? 2 : 1) {
    const auto same = equal((*container.items)[i], item);
    if (same.value_or(false)) return true;
    known = known && same;
  }
  return known ? std::optional(false) : std::nullopt;
}

PythonObject truth(std::optional<bool> known, bool wanted = true) {
  return known ? PythonObject::of(*known == wanted) : PythonObject::opaque();
}

std::string stripped(const std::string& text) {
  constexpr const char* kBlank = " \t\n\r\f\v";
  const size_t first = text.find_first_not_of(kBlank);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// The number in a text, as int() and float() read it.
template <class Number>
PythonObject number_in(const std::string& text, const char* problem) {
  std::string digits = stripped(text);
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  Number number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  require(read.ec == std::errc() && *read.ptr == '\0', ErrorKind::config, "{}(\"{}\"): {}",
          std::is_integral_v<Number> ? "int" : "float", text, problem);
  return PythonObject::of(number);
}

PythonObject convert(bool to_whole, const PythonObject& argument) {
  if (!argument.is_value()) return PythonObject::opaque();
  if (const std::string* text = argument.as_text(); text != nullptr)
    return to_whole ? number_in<int64_t>(*text, "not a whole number of 64 bits")
                    : number_in<double>(*text, "not a number, or too large");
  const auto number = argument.as_number();
  require(number.has_value(), ErrorKind::config, "{}(None): not a number", to_whole ? "int" : "float");
  if (!to_whole) return PythonObject::of(*number);
  return argument.as_whole() ? PythonObject::of(*argument.as_whole()) : truncated(*number, "int");
}

PythonObject extreme(bool largest, const Arguments& arguments) {
  const bool listed = arguments.size() == 1 && arguments[0].kind == Kind::sequence;
  const Arguments& items = listed ? *arguments[0].items : arguments;
  if (items.empty() || (arguments.size() == 1 && !listed)) return PythonObject::opaque();
  const PythonObject* best = &items[0];
  for (const PythonObject& item : items) {
    const auto compared = order(item, *best);
    if (compared == std::partial_ordering::unordered) return PythonObject::opaque();
    if (largest ? compared > 0 : compared < 0) best = &item;
  }
  return *best;
}

PythonObject rounded(const PythonObject& argument, const PythonObject* digits) {
  const auto whole = argument.as_whole();
  if (whole && digits == nullptr) return PythonObject::of(*whole);
  const auto number = argument.as_number();
  if (!number || whole) return PythonObject::opaque();
  if (digits == nullptr) return truncated(std::nearbyint(*number), "round");
  constexpr int64_t kMostDigits = 300;
  const int64_t places = digits->as_whole().value_or(-1);
  if (places < 0 || places > kMostDigits) return PythonObject::opaque();
  return PythonObject::of(std::stod(fmt::format("{:.{}f}", *number, places)));
}

PythonObject joined_path(const Arguments& parts) {
  std::string path;
  for (const PythonObject& part : parts) {
    if (part.as_text() == nullptr) return PythonObject::opaque();
    if (part.as_text()->starts_with('/')) path.clear();
    if (!path.empty() && !path.ends_with('/')) path += '/';
    path += *part.as_text();
  }
  return PythonObject::of(path);
}

std::optional<std::string> variable(const PythonEnvironment& environment, const std::string& name) {
  if (const auto set = environment.find(name); set != environment.end()) return set->second;
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

PythonObject length(const PythonObject& object) {
  if (object.items)
    return PythonObject::of(static_cast<int64_t>(object.items->size() / (object.kind == Kind::mapping ? 2 : 1)));
  if (object.as_text() == nullptr) return PythonObject::opaque();
  return PythonObject::of(int64_t{std::ranges::count_if(*object.as_text(), [](char c) { return (c & 0xC0) != 0x80; })});
}

PythonObject of_mathematics(string_view name, double x) {
  if (name == "math.exp") return PythonObject::of(std::exp(x));
  if (name == "math.floor") return truncated(std::floor(x), name);
  if (name == "math.ceil") return truncated(std::ceil(x), name);
  if (name == "math.sqrt") {
    require(x >= 0, ErrorKind::config, "{} needs a number of at least 0", name);
    return PythonObject::of(std::sqrt(x));
  }
  if (!lists_word("math.log math.log2 math.log10", name)) return PythonObject::opaque();
  require(x > 0, ErrorKind::config, "{} needs a number above 0", name);
  return PythonObject::of(name == "math.log" ? std::log(x) : name == "math.log2" ? std::log2(x) : std::log10(x));
}

/// A method of a text, which is Kind::outside with the text as value.
PythonObject of_text(string_view method, const PythonObject& of, const Arguments& arguments) {
  if (!std::holds_alternative<std::string>(of.value)) return PythonObject::opaque();  // str.upper
  const std::string& text = std::get<std::string>(of.value);
  const bool ascii = std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; });
  if (arguments.empty() && ascii) {
    if (method == "str.strip") return PythonObject::of(stripped(text));
    if (method == "str.lower") return PythonObject::of(lower_case(text));
    if (method == "str.upper") {
      std::string upper = text;
      for (char& c : upper) c = static_cast<char>(std::toupper(c));
      return PythonObject::of(upper);
    }
  }
  const std::string* other = arguments.size() == 1 ? arguments[0].as_text() : nullptr;
  if (other != nullptr && method == "str.startswith") return PythonObject::of(text.starts_with(*other));
  if (other != nullptr && method == "str.endswith") return PythonObject::of(text.ends_with(*other));
  return PythonObject::opaque();
}

/// Whether a function may change lists, names, environment variables, or where files are found: a call of it cannot be
/// skipped.
bool changes_names(string_view name) {
  if (lists_word("sys.modules sys.path os.chdir os.putenv random.shuffle", name)) return true;
  return (name.starts_with("list.") || name.starts_with("os.environ.") || name.starts_with("builtins.")) &&
         !lists_word("list.get list.keys list.values list.items list.index list.count list.copy os.environ.get", name);
}

/// A text read from open(PATH): "open()" and "open().read" are Kind::outside with the path as value.
PythonObject opened(string_view function, const PythonObject& of, const Arguments& arguments) {
  if (function == "open") {
    const std::string* mode = arguments.size() == 2 ? arguments[1].as_text() : nullptr;
    const bool reads = arguments.size() == 1 || (mode != nullptr && *mode == "r");
    if (!reads || arguments[0].as_text() == nullptr) return PythonObject::opaque();
    return {Kind::outside, arguments[0].value, "open()", {}, {}, 0};
  }
  if (function != "open().read" || !arguments.empty()) return PythonObject::opaque();
  const std::string& path = std::get<std::string>(of.value);
  return {Kind::value, read_config_text(path), path, {}, {}, 0};
}

}  // namespace

PythonObject PythonObject::of_items(Kind kind, std::vector<PythonObject> items) {
  constexpr int kMostDepth = 64;
  int depth = 0;
  for (const PythonObject& item : items) depth = std::max(depth, item.depth + 1);
  require(depth <= kMostDepth, ErrorKind::config, "lists nest deeper than {} levels", kMostDepth);
  return {kind, {}, "", std::make_shared<const std::vector<PythonObject>>(std::move(items)), {}, depth};
}

std::optional<int64_t> PythonObject::as_whole() const {
  if (!is_value()) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  const auto* whole = std::get_if<int64_t>(&value);
  return whole != nullptr ? std::optional(*whole) : std::nullopt;
}

std::optional<double> PythonObject::as_number() const {
  if (const auto whole = as_whole()) return static_cast<double>(*whole);
  const auto* real = is_value() ? std::get_if<double>(&value) : nullptr;
  return real != nullptr ? std::optional(*real) : std::nullopt;
}

PythonObject python_combine(string_view sign, const PythonObject& a, const PythonObject& b) {
  const std::string *left = a.as_text(), *right = b.as_text();
  if (!a.is_value() || !b.is_value() || (sign == "%" && left != nullptr)) return PythonObject::opaque();
  if (left != nullptr && right != nullptr && sign == "+") {
    require(left->size() + right->size() <= kMaxText, ErrorKind::config, "a string grows beyond {} bytes", kMaxText);
    return PythonObject::of(*left + *right);
  }
  const auto x = a.as_whole(), y = b.as_whole();
  if (sign == "*" && left != nullptr && y) return repeated(*left, *y);
  if (sign == "*" && right != nullptr && x) return repeated(*right, *x);
  if (x && y && sign != "/" && !(sign == "**" && *y < 0)) return combine_whole(sign, *x, *y);
  require(!is_of_bits(sign), ErrorKind::config, "{} needs whole numbers", sign);
  for (const PythonObject* side : {&a, &b})
    require(side->as_number().has_value(), ErrorKind::config, "{} needs numbers, found {}", sign, shown(*side));
  return combine_real(sign, *a.as_number(), *b.as_number());
}

PythonObject python_compare(string_view sign, const PythonObject& a, const PythonObject& b) {
  if (sign == "in" || sign == "not in") return truth(contains(b, a), sign == "in");
  if (sign == "==" || sign == "!=") return truth(equal(a, b), sign == "==");
  if (!a.is_value() || !b.is_value()) return PythonObject::opaque();
  if (sign == "is" || sign == "is not") {  // None, True and False exist only once
    const bool single = b.value.index() <= 1 || a.value.index() <= 1;
    return single ? PythonObject::of((a.value == b.value) == (sign == "is")) : PythonObject::opaque();
  }
  const auto c = order(a, b);
  require(c != std::partial_ordering::unordered, ErrorKind::config, "{} cannot compare {} and {}", sign, shown(a),
          shown(b));
  return PythonObject::of(sign == "<" ? c < 0 : sign == "<=" ? c <= 0 : sign == ">" ? c > 0 : c >= 0);
}

std::optional<bool> python_truth(const PythonObject& object) {
  if (object.is_opaque()) return std::nullopt;
  if (object.items) return !object.items->empty();
  if (object.as_text() != nullptr) return !object.as_text()->empty();
  return !object.is_value() || object.as_number().value_or(0) != 0;
}

std::optional<std::string> python_format(const Value& value, string_view spec) {
  const auto* flag = std::get_if<bool>(&value);
  const auto* whole = std::get_if<int64_t>(&value);
  const auto* real = std::get_if<double>(&value);
  if (spec.empty()) {
    if (value.index() == 0) return "None";
    if (flag != nullptr) return *flag ? "True" : "False";
    const std::string text = to_text(value);
    const bool bare = real != nullptr && text.find_first_not_of("-0123456789") == std::string::npos;
    return bare ? text + ".0" : text;
  }
  const char type = spec.back();
  const string_view form = spec.substr(0, spec.size() - 1);
  const size_t dot = std::min(form.find('.'), form.size());
  const auto is_short = [](string_view digits, size_t most) {
    return digits.size() <= most && digits.find_first_not_of("0123456789") == string_view::npos;
  };
  if (!is_short(form.substr(0, dot), 3) || (dot < form.size() && !is_short(form.substr(dot + 1), 2)))
    return std::nullopt;
  std::array<char, 512> buffer{};
  int written = -1;
  if (type == 'd' && whole != nullptr && dot == form.size())
    written = std::snprintf(buffer.data(), buffer.size(), fmt::format("%{}ld", form).c_str(), long{*whole});
  else if ((type == 'e' || type == 'f') && (whole != nullptr || real != nullptr))
    written = std::snprintf(buffer.data(), buffer.size(), fmt::format("%{}", spec).c_str(),
                            real != nullptr ? *real : static_cast<double>(*whole));
  if (written < 0 || static_cast<size_t>(written) >= buffer.size()) return std::nullopt;
  return buffer.data();
}

PythonObject python_attribute(const PythonObject& of, const std::string& name) {
  require(!name.starts_with("__"), ErrorKind::config, "names with \"__\" such as \"{}\" are not supported", name);
  const bool outside = of.kind == Kind::outside;
  const std::string full = (of.items ? "list" : outside ? of.text : of.as_text() != nullptr ? "str" : "") + "." + name;
  require(!changes_names(full), ErrorKind::config,
          ".{} would execute code that may change the meaning of the file, which is not supported; write the values "
          "instead",
          name);
  if (of.module) {
    const auto found = of.module->names.find(name);
    if (found != of.module->names.end()) return found->second;
    require(!of.module->known, ErrorKind::config, "module {} has no \"{}\"", of.module->name, name);
  }
  if (full == "math.pi") return PythonObject::of(3.141592653589793);
  if (full == "math.e") return PythonObject::of(2.718281828459045);
  if (full == "os.sep") return PythonObject::of("/");
  if (outside || of.as_text() != nullptr) return {Kind::outside, of.value, full, {}, {}, 0};
  return PythonObject::opaque();
}

PythonObject python_item(const PythonObject& container, const PythonObject& index,
                         const PythonEnvironment& environment) {
  if (container.kind == Kind::outside && container.text == "os.environ" && index.as_text() != nullptr) {
    const auto value = variable(environment, *index.as_text());
    require(value.has_value(), ErrorKind::config, "the environment has no variable {}", *index.as_text());
    return PythonObject::of(*value);
  }
  if (container.kind == Kind::mapping && index.is_value()) {
    for (size_t i = container.items->size(); i > 0; i -= 2) {  // if keys are equal, the last one counts
      const auto same = equal((*container.items)[i - 2], index);
      if (!same) return PythonObject::opaque();
      if (*same) return (*container.items)[i - 1];
    }
    fail(ErrorKind::config, "the dictionary has no key {}", shown(index));
  }
  const auto at = index.as_whole();
  if (container.kind != Kind::sequence || !at) return PythonObject::opaque();
  const auto size = static_cast<int64_t>(container.items->size());
  require(*at >= -size && *at < size, ErrorKind::config, "the list has no item {}", *at);
  return (*container.items)[static_cast<size_t>(*at < 0 ? *at + size : *at)];
}

PythonObject python_call(const PythonObject& function, const Arguments& arguments,
                         const PythonEnvironment& environment) {
  const string_view name = function.text;
  // This build uses no accelerator, even if the machine has one.
  if (lists_word("torch.cuda.is_available torch.cuda.is_bf16_supported torch.backends.mps.is_available "
                 "torch.xpu.is_available",
                 name))
    return PythonObject::of(false);
  if (name == "torch.cuda.device_count") return PythonObject::of(int64_t{0});
  if (name == "os.path.join") return joined_path(arguments);
  if (name == "min" || name == "max") return extreme(name == "max", arguments);
  if (name.starts_with("open")) return opened(name, function, arguments);
  if (name.starts_with("str.")) return of_text(name, function, arguments);
  if (arguments.empty()) return PythonObject::opaque();
  const PythonObject& first = arguments[0];
  if (name == "os.environ.get" || name == "os.getenv") {
    if (first.as_text() == nullptr) return PythonObject::opaque();
    if (const auto found = variable(environment, *first.as_text())) return PythonObject::of(*found);
    return arguments.size() > 1 ? arguments[1] : PythonObject{};
  }
  if (name == "round") return rounded(first, arguments.size() > 1 ? &arguments[1] : nullptr);
  if (arguments.size() != 1) return PythonObject::opaque();
  if (name == "int" || name == "float") return convert(name == "int", first);
  if (name == "str" && first.is_value()) return PythonObject::of(*python_format(first.value));
  if (name == "bool") return truth(python_truth(first));
  if (name == "len") return length(first);
  if (!first.as_number()) return PythonObject::opaque();
  if (name == "abs" && *first.as_number() < 0) return python_combine("-", PythonObject::of(int64_t{0}), first);
  return name == "abs" ? PythonObject::of(first.value) : of_mathematics(name, *first.as_number());
}

bool is_python_builtin(string_view name) {
  return lists_word(
      "abs all any bool chr dict divmod float hash id input int len list max min open ord pow print range repr "
      "reversed round set sorted str sum tuple type zip",
      name);
}

bool is_python_library(string_view module) {
  return lists_word(
      "abc argparse ast atexit base64 builtins collections contextlib copy csv dataclasses datetime decimal enum errno "
      "functools gc getpass glob hashlib importlib inspect io itertools json locale logging math numbers numpy "
      "operator os pathlib pickle platform pprint random re shutil signal socket string struct subprocess sys tempfile "
      "textwrap threading tiktoken time torch traceback types typing uuid warnings weakref",
      module);
}

}  // namespace trireme
