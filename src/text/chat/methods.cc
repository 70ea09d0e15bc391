#include <algorithm>
#include <charconv>

#include "text/chat/builtins.h"
#include "text/chat/python_text.h"
#include "text/unicode.h"

namespace trireme::chat {
namespace {

Value made_text(Machine& machine, std::string_view text, bool safe) {
  machine.budget.make_text(text.size());
  return Value::text(std::string(text), safe);
}

Value made_list(Machine& machine, const std::vector<std::string_view>& parts, bool safe) {
  std::vector<Value> items;
  machine.budget.make_items(parts.size());
  for (const std::string_view part : parts) items.push_back(made_text(machine, part, safe));
  return make_sequence(std::move(items), machine.budget);
}

template <Sides sides>
Value stripped(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"chars"});
  std::optional<std::string_view> characters;
  if (const Value* given = bound.find(0); given != nullptr && !given->is(Kind::none)) characters = bound.text(0);
  machine.budget.visit(self.text().size() * (1 + (characters ? characters->size() : 0)));
  return made_text(machine, strip(self.text(), characters, sides), self.safe());
}

template <bool from_right>
Value split_text(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const int64_t limit = bound.integer(1, -1);
  const Value* const separator = bound.find(0);
  if (separator == nullptr || separator->is(Kind::none)) {
    if (from_right && limit >= 0) fault("rsplit at white space with a limit is not supported");
    return made_list(machine, split(self.text(), std::nullopt, limit), self.safe());
  }
  const std::string& by = bound.text(0);
  if (by.empty()) fault("split: the separator is empty");
  machine.budget.visit(self.text().size() * (from_right ? by.size() : 1));
  return made_list(machine, from_right ? split_from_right(self.text(), by, limit) : split(self.text(), by, limit),
                   self.safe());
}

Value split_into_lines(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {});
  machine.budget.visit(self.text().size());
  return made_list(machine, split_lines(self.text()), self.safe());
}

/// startswith and endswith: one text, or a tuple of some.
template <bool at_end>
Value touches(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound(at_end ? "endswith" : "startswith", arguments, {"text"});
  const auto holds = [&](const Value& part) {
    if (!part.is(Kind::text)) fault("startswith and endswith need a string, found {}", type_name(part));
    machine.budget.visit(part.text().size());
    return at_end ? self.text().ends_with(part.text()) : self.text().starts_with(part.text());
  };
  const Value& given = bound.need(0);
  if (given.is(Kind::undefined)) fail_undefined(given);
  if (given.is(Kind::sequence) && given.sequence().flavor == Flavor::tuple)
    return Value::boolean(std::ranges::any_of(given.sequence().items, holds));
  return Value::boolean(holds(given));
}

template <std::string (*change)(std::string_view)>
Value changed(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("a method of letters", arguments, {});
  machine.budget.visit(self.text().size() * 2);  // more work for a byte than to read it
  return made_text(machine, change(self.text()), self.safe());
}

Value replaced(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"});
  const std::string &old = bound.text(0), &by = bound.text(1);
  machine.budget.visit(self.text().size());
  machine.budget.make_text(self.text().size() + count_in(self.text(), old) * by.size());
  const std::string put = self.safe() && !bound.need(1).safe() ? escape_html(by) : by;
  std::string out = replace(self.text(), old, put, bound.integer(2, -1));
  if (put.size() != by.size()) machine.budget.make_text(out.size());
  return Value::text(std::move(out), self.safe());
}

/// removeprefix and removesuffix.
template <bool at_end>
Value removed(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound(at_end ? "removesuffix" : "removeprefix", arguments, {"text"});
  const std::string& part = bound.text(0);
  std::string_view text = self.text();
  if (at_end && text.ends_with(part)) text.remove_suffix(part.size());
  if (!at_end && text.starts_with(part)) text.remove_prefix(part.size());
  return made_text(machine, text, self.safe());
}

/// str.format() with fields as {}, {0} and {name}.
Value formatted(Machine& machine, const Value& self, const Arguments& arguments) {
  if (self.safe()) fault("format of a string marked as safe is not supported");
  const std::string_view text = self.text();
  machine.budget.visit(text.size());
  std::string out;
  size_t automatic = 0;
  bool numbered = false;
  const auto value_of = [&](std::string_view field) -> const Value& {
    if (field.find_first_of("!:.[") != field.npos)
      fault("format: the field \"{{{}}}\" is not supported; supported are {{}}, {{0}} and {{name}}", field);
    const bool number = field.find_first_not_of("0123456789") == field.npos;
    if (!number) {
      for (const auto& [name, value] : arguments.named)
        if (name == field) return value;
      fault("format: no argument is named \"{}\"", field);
    }
    if (field.empty() ? numbered : automatic > 0) fault("format: some fields are numbered and others are not");
    numbered = numbered || !field.empty();
    size_t at = automatic;
    if (field.empty()) {
      ++automatic;
    } else {
      const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), at);
      if (error != std::errc()) at = arguments.given.size();
    }
    if (at >= arguments.given.size()) fault("format: the field \"{{{}}}\" has no argument", field);
    return arguments.given[at];
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const bool brace = text[i] == '{' || text[i] == '}';
    if (!brace) {
      out += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == text[i]) {
      out += text[i++];
    } else {
      const size_t end = text[i] == '{' ? text.find('}', i) : text.npos;
      if (end == text.npos) fault("format: a single \"{}\" in the string", text[i]);
      out += to_text(value_of(text.substr(i + 1, end - i - 1)), machine.budget);
      i = end;
    }
    if (out.size() > machine.budget.limits().output) break;  // refused below
  }
  return made_text(machine, out, false);
}

Value joined(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"iterable"});
  std::string out;
  bool first = true;
  for (const Value& item : items_of(bound.need(0), machine.budget)) {
    if (!item.is(Kind::text)) fault("join: an item is {}, expected a string", type_name(item));
    if (!std::exchange(first, false)) out += self.text();
    out += self.safe() && !item.safe() ? escape_html(item.text()) : item.text();
    if (out.size() > machine.budget.limits().output) break;  // refused below
  }
  return made_text(machine, out, self.safe());
}

Value found(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("find", arguments, {"sub"});
  machine.budget.visit(self.text().size());
  const size_t at = find_in(self.text(), bound.text(0));
  if (at == std::string::npos) return Value::integer(-1);
  return Value::integer(static_cast<int64_t>(count_code_points(std::string_view(self.text()).substr(0, at))));
}

Value counted(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"sub"});
  machine.budget.visit(self.text().size());
  return Value::integer(static_cast<int64_t>(count_in(self.text(), bound.text(0))));
}

/// Whether a text has characters and `holds` is true for all of them.
template <bool (*holds)(char32_t)>
Value all_are(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("a method of characters", arguments, {});
  machine.budget.visit(self.text().size());
  const std::string& text = self.text();
  bool all = !text.empty();
  for (size_t place = 0; all && place < text.size();) {
    const Decoded character = decode_utf8(text.data() + place, text.data() + text.size());
    all = holds(character.code);
    place += character.length;
  }
  return Value::boolean(all);
}

/// Python's isdigit(), of ASCII; others are not supported.
bool is_digit(char32_t code) {
  if (code >= 0x80) fault("isdigit of characters beyond ASCII is not supported");
  return code >= '0' && code <= '9';
}

Value looked_up(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"});
  if (!arguments.named.empty()) fault("get takes no arguments by name");
  const Value* const value = self.mapping().find(bound.need(0), machine.budget);
  if (value != nullptr) return *value;
  return bound.find(1) == nullptr ? Value::none() : *bound.find(1);
}

enum class Part : uint8_t { keys, values, items };
template <Part part>
Value parts_of(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("a method of a dictionary", arguments, {});
  std::vector<Value> parts;
  for (const auto& [key, value] : self.mapping().entries)
    parts.push_back(part == Part::keys     ? key
                    : part == Part::values ? value
                                           : make_sequence({key, value}, machine.budget, Flavor::tuple));
  return make_sequence(std::move(parts), machine.budget, Flavor::view);
}

Value index_in(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"value"});
  const std::vector<Value>& items = self.sequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], bound.need(0), machine.budget)) return Value::integer(static_cast<int64_t>(i));
  }
  fault("index: the value is not in the list");
}

Value count_items(Machine& machine, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"value"});
  const auto count = std::ranges::count_if(
      self.sequence().items, [&](const Value& item) { return equal(item, bound.need(0), machine.budget); });
  return Value::integer(count);
}

/// loop.cycle(a, b, ...).
Value cycled(Machine& /*machine*/, const Value& self, const Arguments& arguments) {
  if (arguments.given.empty() || !arguments.named.empty()) fault("loop.cycle needs values, without names");
  return arguments.given[self.as<std::shared_ptr<const LoopState>>()->index % arguments.given.size()];
}

constexpr MethodEntry kMethods[] = {{Kind::text, "capitalize", changed<capitalize>},
                                    {Kind::text, "count", counted},
                                    {Kind::text, "endswith", touches<true>},
                                    {Kind::text, "find", found},
                                    {Kind::text, "format", formatted},
                                    {Kind::text, "isdigit", all_are<is_digit>},
                                    {Kind::text, "isspace", all_are<is_space>},
                                    {Kind::text, "join", joined},
                                    {Kind::text, "lower", changed<lower>},
                                    {Kind::text, "lstrip", stripped<Sides::left>},
                                    {Kind::text, "removeprefix", removed<false>},
                                    {Kind::text, "removesuffix", removed<true>},
                                    {Kind::text, "replace", replaced},
                                    {Kind::text, "rsplit", split_text<true>},
                                    {Kind::text, "rstrip", stripped<Sides::right>},
                                    {Kind::text, "split", split_text<false>},
                                    {Kind::text, "splitlines", split_into_lines},
                                    {Kind::text, "startswith", touches<false>},
                                    {Kind::text, "strip", stripped<Sides::both>},
                                    {Kind::text, "title", changed<title>},
                                    {Kind::text, "upper", changed<upper>},
                                    {Kind::mapping, "get", looked_up},
                                    {Kind::mapping, "items", parts_of<Part::items>},
                                    {Kind::mapping, "keys", parts_of<Part::keys>},
                                    {Kind::mapping, "values", parts_of<Part::values>},
                                    {Kind::sequence, "count", count_items},
                                    {Kind::sequence, "index", index_in},
                                    {Kind::loop, "cycle", cycled}};

/// Attributes that Python's type has besides those above. Jinja would give them, so they cannot be undefined here.
constexpr std::pair<Kind, std::string_view> kUnsupported[] = {
    {Kind::text, "casefold"},     {Kind::text, "center"},        {Kind::text, "encode"},
    {Kind::text, "expandtabs"},   {Kind::text, "format_map"},    {Kind::text, "index"},
    {Kind::text, "isalnum"},      {Kind::text, "isalpha"},       {Kind::text, "isascii"},
    {Kind::text, "isdecimal"},    {Kind::text, "isidentifier"},  {Kind::text, "islower"},
    {Kind::text, "isnumeric"},    {Kind::text, "isprintable"},   {Kind::text, "istitle"},
    {Kind::text, "isupper"},      {Kind::text, "ljust"},         {Kind::text, "maketrans"},
    {Kind::text, "partition"},    {Kind::text, "rfind"},         {Kind::text, "rindex"},
    {Kind::text, "rjust"},        {Kind::text, "rpartition"},    {Kind::text, "swapcase"},
    {Kind::text, "translate"},    {Kind::text, "zfill"},         {Kind::mapping, "clear"},
    {Kind::mapping, "copy"},      {Kind::mapping, "fromkeys"},   {Kind::mapping, "pop"},
    {Kind::mapping, "popitem"},   {Kind::mapping, "setdefault"}, {Kind::mapping, "update"},
    {Kind::sequence, "append"},   {Kind::sequence, "clear"},     {Kind::sequence, "copy"},
    {Kind::sequence, "extend"},   {Kind::sequence, "insert"},    {Kind::sequence, "pop"},
    {Kind::sequence, "remove"},   {Kind::sequence, "reverse"},   {Kind::sequence, "sort"},
    {Kind::loop, "changed"},      {Kind::integer, "real"},       {Kind::integer, "imag"},
    {Kind::number, "is_integer"}, {Kind::macro, "name"},         {Kind::macro, "arguments"},
    {Kind::macro, "caller"}};

}  // namespace

const MethodEntry* find_method(const Value& self, std::string_view name) {
  for (const MethodEntry& method : kMethods) {
    if (self.is(method.kind) && method.name == name) return &method;
  }
  for (const auto& [kind, unsupported] : kUnsupported) {
    if (self.is(kind) && unsupported == name) fault("\"{}\" of {} is not supported", name, type_name(self));
  }
  return nullptr;
}

}  // namespace trireme::chat
