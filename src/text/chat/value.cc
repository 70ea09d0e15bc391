#include "text/chat/value.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/chat/python_text.h"
#include "text/unicode.h"

namespace trireme::chat {
namespace {

/// Integers, truth values and numbers compare by value.
bool is_numeric(const Value& value) {
  return value.is(Kind::boolean) || value.is(Kind::integer) || value.is(Kind::number);
}

int64_t whole(const Value& value) { return value.is(Kind::boolean) ? int64_t{value.as<bool>()} : value.as<int64_t>(); }

bool equal_numbers(const Value& a, const Value& b) {
  if (!a.is(Kind::number) && !b.is(Kind::number)) return whole(a) == whole(b);
  const auto real = [](const Value& v) { return v.is(Kind::number) ? v.as<double>() : static_cast<double>(whole(v)); };
  return real(a) == real(b);
}

bool hashable(const Value& value) {
  if (value.is(Kind::mapping)) return false;
  if (!value.is(Kind::sequence)) return true;
  const Sequence& sequence = value.sequence();
  return sequence.flavor != Flavor::list && std::ranges::all_of(sequence.items, hashable);
}

void require_hashable(const Value& key) {
  if (!hashable(key)) fault("{} cannot be the key of a dictionary", type_name(key));
}

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i], budget)) return false;
  }
  return true;
}

bool equal_mappings(const Mapping& a, const Mapping& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* const other = b.find(key, budget);
    if (other == nullptr || !equal(value, *other, budget)) return false;
  }
  return true;
}

/// Lists equal lists, tuples tuples; generators and views equal themselves only.
bool equal_sequences(const Value& a, const Value& b, Budget& budget) {
  const Sequence &first = a.sequence(), &second = b.sequence();
  if (&first == &second) return true;
  if (first.flavor != second.flavor || first.flavor == Flavor::once || first.flavor == Flavor::view) return false;
  return equal_items(first.items, second.items, budget);
}

void append_source(const Value& value, std::string& out, Budget& budget);

void append_sequence(const Sequence& sequence, std::string& out, Budget& budget) {
  const bool tuple = sequence.flavor == Flavor::tuple;
  if (!tuple && sequence.flavor != Flavor::list)
    fault(
        "a range, a generator or a view of a dictionary cannot become a string here; apply the filter \"list\" first");
  out += tuple ? '(' : '[';
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_source(sequence.items[i], out, budget);
  }
  if (tuple && sequence.items.size() == 1) out += ',';
  out += tuple ? ')' : ']';
}

void append_source(const Value& value, std::string& out, Budget& budget) {
  budget.step();
  switch (value.kind()) {
    case Kind::undefined:
      out += "Undefined";
      return;
    case Kind::text: {
      budget.visit(value.text().size());
      const std::string source = quoted_text(value.text());
      out += value.safe() ? "Markup(" + source + ")" : source;
      break;
    }
    case Kind::sequence:
      append_sequence(value.sequence(), out, budget);
      break;
    case Kind::mapping: {
      out += '{';
      bool first = true;
      for (const auto& [key, item] : value.mapping().entries) {
        if (!first) out += ", ";
        first = false;
        append_source(key, out, budget);
        out += ": ";
        append_source(item, out, budget);
      }
      out += '}';
      break;
    }
    default:
      out += to_text(value, budget);
  }
  if (out.size() > budget.limits().output) fault("a string exceeds {} bytes, the limit", budget.limits().output);
}

void check_levels(uint32_t levels) {
  if (levels > kMostLevels) fault("lists and dictionaries are nested more than {} levels deep", kMostLevels);
}

}  // namespace

const Value* Mapping::find(const Value& key, Budget& budget) const {
  require_hashable(key);
  budget.step(1 + entries.size() / 16);
  for (const auto& [known, value] : entries) {
    if (equal(known, key, budget)) return &value;
  }
  return nullptr;
}

const Value* Mapping::find(std::string_view key) const {
  for (const auto& [known, value] : entries) {
    if (known.is(Kind::text) && known.text() == key) return &value;
  }
  return nullptr;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [known, value] : attributes) {
    if (known == name) return &value;
  }
  return nullptr;
}

uint32_t levels_of(const Value& value) {
  switch (value.kind()) {
    case Kind::sequence:
      return value.sequence().depth;
    case Kind::mapping:
      return value.mapping().depth;
    case Kind::loop:
      return value.as<std::shared_ptr<const LoopState>>()->depth;
    case Kind::method:
      return levels_of(value.as<std::shared_ptr<const Method>>()->self) + 1;
    default:
      return 0;
  }
}

Value make_sequence(std::vector<Value> items, Budget& budget, Flavor flavor) {
  budget.make_items(items.size());
  auto sequence = std::make_shared<Sequence>();
  for (const Value& item : items) sequence->depth = std::max(sequence->depth, levels_of(item) + 1);
  check_levels(sequence->depth);
  sequence->flavor = flavor;
  sequence->items = std::move(items);
  return Value(std::shared_ptr<const Sequence>(std::move(sequence)));
}

Value make_mapping(std::vector<std::pair<Value, Value>> entries, Budget& budget) {
  budget.make_items(entries.size());
  auto mapping = std::make_shared<Mapping>();
  for (const auto& [key, value] : entries)
    mapping->depth = std::max({mapping->depth, levels_of(key) + 1, levels_of(value) + 1});
  check_levels(mapping->depth);
  mapping->entries = std::move(entries);
  return Value(std::shared_ptr<const Mapping>(std::move(mapping)));
}

void set_entry(std::vector<std::pair<Value, Value>>& entries, const Value& key, Value value, Budget& budget) {
  require_hashable(key);
  budget.step(1 + entries.size() / 16);
  for (auto& [known, present] : entries) {
    if (equal(known, key, budget)) {
      present = std::move(value);
      return;
    }
  }
  entries.emplace_back(key, std::move(value));
}

Value from_json(const Json& json, Budget& budget) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        fault("the integer {} needs more than 64 bits, which templates do not support here", json.get<uint64_t>());
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value::number(json.get<double>());
    case Json::value_t::string:
      return Value::text(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(from_json(item, budget));
      return make_sequence(std::move(items), budget);
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      for (const auto& [key, item] : json.items()) entries.emplace_back(Value::text(key), from_json(item, budget));
      return make_mapping(std::move(entries), budget);
    }
    default:
      return Value::none();
  }
}

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return "an undefined value";
    case Kind::none:
      return "None";
    case Kind::boolean:
      return "a bool";
    case Kind::integer:
      return "an int";
    case Kind::number:
      return "a float";
    case Kind::text:
      return "a str";
    case Kind::sequence:
      switch (value.sequence().flavor) {
        case Flavor::list:
          return "a list";
        case Flavor::tuple:
          return "a tuple";
        case Flavor::range:
          return "a range";
        case Flavor::view:
          return "a view of a dict";
        case Flavor::once:
          return "a generator";
      }
      return "a list";
    case Kind::mapping:
      return "a dict";
    case Kind::name_space:
      return "a namespace";
    case Kind::loop:
      return "a loop";
    case Kind::macro:
      return "a macro";
    case Kind::method:
      return "a method";
    case Kind::global:
      return "a function";
  }
  return "a value";
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.as<bool>();
    case Kind::integer:
      return value.as<int64_t>() != 0;
    case Kind::number:
      return value.as<double>() != 0;
    case Kind::text:
      return !value.text().empty();
    case Kind::sequence:
      return value.sequence().flavor == Flavor::once || !value.sequence().items.empty();
    case Kind::mapping:
      return !value.mapping().entries.empty();
    case Kind::loop:
      return !value.as<std::shared_ptr<const LoopState>>()->items.empty();
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  if (is_numeric(a) && is_numeric(b)) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  budget.step();
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::text:
      if (a.text().size() != b.text().size()) return false;
      budget.visit(a.text().size());
      return a.text() == b.text();
    case Kind::sequence:
      return equal_sequences(a, b, budget);
    case Kind::mapping:
      return equal_mappings(a.mapping(), b.mapping(), budget);
    case Kind::name_space:
      return a.as<Namespace*>() == b.as<Namespace*>();
    case Kind::loop:
      return a.as<std::shared_ptr<const LoopState>>() == b.as<std::shared_ptr<const LoopState>>();
    case Kind::macro:
      return a.as<const Macro*>() == b.as<const Macro*>();
    case Kind::global:
      return a.as<const Global*>() == b.as<const Global*>();
    default:
      return false;
  }
}

int order(const Value& a, const Value& b, Budget& budget) {
  if (a.is(Kind::undefined)) fail_undefined(a);
  if (b.is(Kind::undefined)) fail_undefined(b);
  budget.step();
  if (is_numeric(a) && is_numeric(b)) {
    if (!a.is(Kind::number) && !b.is(Kind::number)) return whole(a) < whole(b) ? -1 : int{whole(a) > whole(b)};
    const auto real = [](const Value& v) {
      return v.is(Kind::number) ? v.as<double>() : static_cast<double>(whole(v));
    };
    if (std::isnan(real(a)) || std::isnan(real(b))) fault("NaN cannot be compared here");
    return real(a) < real(b) ? -1 : int{real(a) > real(b)};
  }
  if (a.is(Kind::text) && b.is(Kind::text)) {
    budget.visit(std::min(a.text().size(), b.text().size()));
    const int sign = a.text().compare(b.text());  // UTF-8 has the order of its code points
    return sign < 0 ? -1 : int{sign > 0};
  }
  const auto ordered = [](const Value& v) {
    return v.is(Kind::sequence) && (v.sequence().flavor == Flavor::list || v.sequence().flavor == Flavor::tuple);
  };
  if (!ordered(a) || !ordered(b) || a.sequence().flavor != b.sequence().flavor)
    fault("{} and {} cannot be compared", type_name(a), type_name(b));
  const auto &first = a.sequence().items, &second = b.sequence().items;
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (!equal(first[i], second[i], budget)) return order(first[i], second[i], budget);
  }
  return first.size() < second.size() ? -1 : int{first.size() > second.size()};
}

std::optional<size_t> length_of(const Value& value, Budget& budget) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::text:
      budget.visit(value.text().size());
      return count_code_points(value.text());
    case Kind::mapping:
      return value.mapping().entries.size();
    case Kind::loop:
      return value.as<std::shared_ptr<const LoopState>>()->items.size();
    case Kind::sequence:
      if (value.sequence().flavor != Flavor::once) return value.sequence().items.size();
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::vector<Value> items_of(const Value& value, Budget& budget) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::undefined:
      break;
    case Kind::text:
      budget.make_items(value.text().size());
      for (const std::string_view character : characters_of(value.text()))
        items.push_back(Value::text(std::string(character), value.safe()));
      break;
    case Kind::mapping:
      budget.make_items(value.mapping().entries.size());
      for (const auto& entry : value.mapping().entries) items.push_back(entry.first);
      break;
    case Kind::sequence: {
      const Sequence& sequence = value.sequence();
      budget.make_items(sequence.items.size());
      if (sequence.flavor == Flavor::once && std::exchange(sequence.taken, true)) break;
      items = sequence.items;
      break;
    }
    default:
      fault("{} is not iterable", type_name(value));
  }
  return items;
}

std::string to_text(const Value& value, Budget& budget) {
  switch (value.kind()) {
    case Kind::undefined:
      return "";
    case Kind::none:
      return "None";
    case Kind::boolean:
      return value.as<bool>() ? "True" : "False";
    case Kind::integer:
      return std::to_string(value.as<int64_t>());
    case Kind::number:
      return number_text(value.as<double>());
    case Kind::text:
      budget.visit(value.text().size());
      return value.text();
    case Kind::sequence:
    case Kind::mapping:
      return to_source(value, budget);
    default:
      fault("{} cannot become a string here", type_name(value));
  }
}

std::string to_source(const Value& value, Budget& budget) {
  std::string out;
  append_source(value, out, budget);
  budget.make_text(out.size());
  return out;
}

void fail_undefined(const Value& value) {
  const auto& why = value.as<Undefined>().why;
  fault("{}", why == nullptr ? "an undefined value is used" : *why);
}

}  // namespace trireme::chat
