#include <algorithm>
#include <ctime>

#include "text/chat/builtins.h"

namespace trireme::chat {
namespace {

Value raise(Machine& machine, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"});
  fault("the template refuses the conversation: {}", to_text(bound.need(0), machine.budget));
}

Value range(Machine& machine, const Arguments& arguments) {
  const Bound bound("range", arguments, {"start", "stop", "step"});
  const bool one = bound.find(1) == nullptr;
  bound.need(0);
  const int64_t begin = one ? 0 : bound.integer(0, 0), end = bound.integer(one ? 0 : 1, 0), step = bound.integer(2, 1);
  if (step == 0) fault("range: the step is 0");
  constexpr uint64_t kMost = 100'000;  // of Jinja's sandbox
  const auto span = static_cast<uint64_t>(step > 0 ? end : begin) - static_cast<uint64_t>(step > 0 ? begin : end);
  const bool empty = step > 0 ? end <= begin : begin <= end;
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t count = empty ? 0 : (span - 1) / stride + 1;
  if (count > kMost) fault("range: {} items, the limit is {}", count, kMost);
  std::vector<Value> items;
  for (uint64_t i = 0; i < count; ++i) items.push_back(Value::integer(begin + static_cast<int64_t>(i) * step));
  return make_sequence(std::move(items), machine.budget, Flavor::range);
}

/// Key and value of the pairs that dict() and namespace() are made of.
std::vector<std::pair<Value, Value>> entries_of(Machine& machine, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.given.size() > 1) fault("dict and namespace take at most one value without a name");
  if (!arguments.given.empty()) {
    const Value& given = arguments.given[0];
    if (given.is(Kind::mapping)) {
      entries = given.mapping().entries;
      machine.budget.make_items(entries.size());
    } else {
      for (const Value& pair : items_of(given, machine.budget)) {
        const std::vector<Value> parts = items_of(pair, machine.budget);
        if (parts.size() != 2) fault("dict and namespace need pairs, found {} values", parts.size());
        set_entry(entries, parts[0], parts[1], machine.budget);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) set_entry(entries, Value::text(name), value, machine.budget);
  return entries;
}

Value dictionary(Machine& machine, const Arguments& arguments) {
  return make_mapping(entries_of(machine, arguments), machine.budget);
}

Value name_space(Machine& machine, const Arguments& arguments) {
  Namespace made;
  for (auto& [key, value] : entries_of(machine, arguments)) {
    if (!key.is(Kind::text)) fault("the name of an attribute is {}, expected a string", type_name(key));
    if (key.text().starts_with('_'))
      fault("a namespace cannot have the attribute \"{}\": it begins with _", key.text());
    made.attributes.emplace_back(key.text(), value);
  }
  machine.budget.make_items(16);
  machine.namespaces.push_back(std::move(made));
  return Value(&machine.namespaces.back());
}

Value formatted_now(Machine& machine, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"});
  const std::string& format = bound.text(0);
  constexpr size_t kMostBytes = 1000;
  if (format.size() > kMostBytes) fault("strftime_now: the format has more than {} bytes", kMostBytes);
  constexpr std::string_view kKnown = "aAbBcdDeFhHIjklmMnpPrRStTuUVwWxXyYGgC%";
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    ++i;
    if (i < format.size() && (format[i] == '-' || format[i] == '_' || format[i] == '0')) ++i;
    if (i >= format.size() || kKnown.find(format[i]) == std::string_view::npos)
      fault("strftime_now: the format \"{}\" is not supported", format);
  }
  if (format.empty()) return Value::text("");
  char out[32 * kMostBytes];  // a directive of two bytes makes at most some 30
  const size_t size = std::strftime(out, sizeof out, format.c_str(), &machine.now);
  machine.budget.make_text(size);
  return Value::text(std::string(out, size));
}

constexpr Global kGlobals[] = {{"dict", dictionary},
                               {"namespace", name_space},
                               {"raise_exception", raise},
                               {"range", range},
                               {"strftime_now", formatted_now}};

}  // namespace

const Global* find_global(std::string_view name) {
  const auto at = std::ranges::find(kGlobals, name, &Global::name);
  return at == std::end(kGlobals) ? nullptr : &*at;
}

bool is_known_global(std::string_view name) {
  static constexpr std::string_view kOthers[] = {"cycler", "joiner", "lipsum", "self"};
  return find_global(name) != nullptr || std::ranges::find(kOthers, name) != std::end(kOthers);
}

}  // namespace trireme::chat
