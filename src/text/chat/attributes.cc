#include <fmt/format.h>

#include <optional>

#include "text/chat/builtins.h"
#include "text/chat/python_text.h"
#include "text/unicode.h"

namespace trireme::chat {
namespace {

using LoopPtr = std::shared_ptr<const LoopState>;

Value undefined_attribute(const Value& value, std::string_view name) {
  return Value::undefined(fmt::format("{} has no attribute \"{}\"", type_name(value), name));
}

/// Attributes of the variable `loop`.
std::optional<Value> loop_attribute(const LoopState& loop, std::string_view name) {
  const auto place = static_cast<int64_t>(loop.index), size = static_cast<int64_t>(loop.items.size());
  if (name == "index0") return Value::integer(place);
  if (name == "index") return Value::integer(place + 1);
  if (name == "revindex0") return Value::integer(size - place - 1);
  if (name == "revindex") return Value::integer(size - place);
  if (name == "first") return Value::boolean(place == 0);
  if (name == "last") return Value::boolean(place + 1 == size);
  if (name == "length") return Value::integer(size);
  if (name == "depth0" || name == "depth") return Value::integer(name == "depth" ? 1 : 0);  // of recursion
  if (name == "previtem")
    return place == 0 ? Value::undefined("the first item has no previous one") : loop.items[loop.index - 1];
  if (name == "nextitem")
    return place + 1 == size ? Value::undefined("the last item has no next one") : loop.items[loop.index + 1];
  return std::nullopt;
}

/// What Python's getattr() finds.
std::optional<Value> own_attribute(const Value& value, const std::string& name) {
  // Python has attributes of such names everywhere; the sandbox makes them undefined.
  if (name.starts_with("__") && name.ends_with("__"))
    return Value::undefined(fmt::format("access to the attribute \"{}\" is not allowed", name));
  if (value.is(Kind::loop)) {
    if (auto found = loop_attribute(*value.as<LoopPtr>(), name)) return found;
  }
  if (value.is(Kind::name_space)) {
    if (const Value* found = value.as<Namespace*>()->find(name)) return *found;
  }
  if (value.is(Kind::sequence) && value.sequence().flavor == Flavor::once) return std::nullopt;
  if (const MethodEntry* method = find_method(value, name))
    return Value(std::make_shared<const Method>(Method{value, method}));
  return std::nullopt;
}

/// What value[key] finds in Python.
std::optional<Value> own_item(Machine& machine, const Value& value, const Value& key) {
  if (value.is(Kind::mapping)) {
    const bool hashable = !key.is(Kind::mapping) && !(key.is(Kind::sequence) && key.sequence().flavor == Flavor::list);
    const Value* const found = hashable ? value.mapping().find(key, machine.budget) : nullptr;
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (!key.is(Kind::integer) && !key.is(Kind::boolean)) return std::nullopt;
  int64_t place = key.is(Kind::boolean) ? int64_t{key.as<bool>()} : key.as<int64_t>();
  if (value.is(Kind::sequence)) {
    const Sequence& sequence = value.sequence();
    if (sequence.flavor == Flavor::once || sequence.flavor == Flavor::view) return std::nullopt;
    const auto size = static_cast<int64_t>(sequence.items.size());
    if (place < 0) place += size;
    if (place < 0 || place >= size) return std::nullopt;
    return sequence.items[static_cast<size_t>(place)];
  }
  if (!value.is(Kind::text)) return std::nullopt;
  machine.budget.visit(value.text().size());
  const auto size = static_cast<int64_t>(count_code_points(value.text()));
  if (place < 0) place += size;
  if (place < 0 || place >= size) return std::nullopt;
  const std::string& text = value.text();
  const char *at = text.data(), *const end = at + text.size();
  for (; place > 0; --place) at += decode_utf8(at, end).length;
  return Value::text(std::string(at, decode_utf8(at, end).length), value.safe());
}

}  // namespace

Value attribute_of(Machine& machine, const Value& value, const std::string& name) {
  machine.budget.step();
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (auto found = own_attribute(value, name)) return std::move(*found);
  if (value.is(Kind::mapping)) {
    if (auto found = own_item(machine, value, Value::text(name))) return std::move(*found);
  }
  return undefined_attribute(value, name);
}

Value item_of(Machine& machine, const Value& value, const Value& key) {
  machine.budget.step();
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (auto found = own_item(machine, value, key)) return std::move(*found);
  if (!key.is(Kind::text)) {
    return Value::undefined(key.is(Kind::integer)
                                ? fmt::format("{} has no item {}", type_name(value), key.as<int64_t>())
                                : fmt::format("{} has no item for {}", type_name(value), type_name(key)));
  }
  if (auto found = own_attribute(value, key.text())) return std::move(*found);
  return undefined_attribute(value, key.text());
}

}  // namespace trireme::chat
