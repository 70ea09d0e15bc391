#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include "text/chat/builtins.h"
#include "text/chat/operators.h"
#include "text/chat/python_text.h"
#include "text/unicode.h"

namespace trireme::chat {
namespace {

using Apply = std::function<Value(const Value&)>;

Value made_text(Machine& machine, std::string text, bool safe = false) {
  machine.budget.make_text(text.size());
  return Value::text(std::move(text), safe);
}

std::string text_of(Machine& machine, const Value& value) { return to_text(value, machine.budget); }

/// Arguments from the n-th on, for a filter or test that another one calls.
Arguments rest_of(const Arguments& arguments, size_t n) {
  Arguments rest{.named = arguments.named};
  rest.given.assign(arguments.given.begin() + static_cast<ptrdiff_t>(std::min(n, arguments.given.size())),
                    arguments.given.end());
  return rest;
}

Value trim(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  const std::string text = text_of(machine, input);
  std::optional<std::string_view> characters;
  if (const Value* given = bound.find(0); given != nullptr && !given->is(Kind::none)) characters = bound.text(0);
  machine.budget.visit(text.size() * (1 + (characters ? characters->size() : 0)));
  return made_text(machine, std::string(strip(text, characters)), input.safe());
}

Value length(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("length", arguments, {});
  const auto count = length_of(input, machine.budget);
  if (!count) fault("{} has no length", type_name(input));
  return Value::integer(static_cast<int64_t>(*count));
}

Value items(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  std::vector<Value> pairs;
  if (!input.is(Kind::undefined)) {
    if (!input.is(Kind::mapping)) fault("the filter items needs a dictionary, found {}", type_name(input));
    for (const auto& [key, value] : input.mapping().entries)
      pairs.push_back(make_sequence({key, value}, machine.budget, Flavor::tuple));
  }
  return make_sequence(std::move(pairs), machine.budget, Flavor::once);
}

Value string(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("string", arguments, {});
  return input.is(Kind::text) ? input : made_text(machine, text_of(machine, input));
}

Value safe(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("safe", arguments, {});
  return made_text(machine, text_of(machine, input), true);
}

Value default_of(Machine& /*machine*/, const Value& input, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool replaces = input.is(Kind::undefined) || (bound.truth_of(1, false) && !truth(input));
  if (!replaces) return input;
  return bound.find(0) == nullptr ? Value::text("") : *bound.find(0);
}

/// The value of an attribute such as "function.name" or "0", as Jinja's filters find it.
/// `otherwise`, which may be null, replaces what is undefined on the way.
Value deep_attribute(Machine& machine, Value value, const Value& attribute, const Value* otherwise = nullptr) {
  const auto step = [&](const Value& key) {
    value = item_of(machine, value, key);
    if (otherwise != nullptr && !otherwise->is(Kind::none) && value.is(Kind::undefined)) value = *otherwise;
  };
  if (attribute.is(Kind::integer)) {
    step(attribute);
    return value;
  }
  if (!attribute.is(Kind::text)) fault("an attribute is {}, expected a string", type_name(attribute));
  for (const std::string_view part : split(attribute.text(), ".", -1)) {
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    int64_t index = 0;
    if (number) std::from_chars(part.data(), part.data() + part.size(), index);
    step(number ? Value::integer(index) : Value::text(std::string(part)));
  }
  return value;
}

Value join(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  const std::string separator = bound.find(0) == nullptr ? "" : text_of(machine, *bound.find(0));
  const Value* const attribute = bound.find(1);
  std::string out;
  bool first = true;
  for (const Value& item : items_of(input, machine.budget)) {
    if (!std::exchange(first, false)) out += separator;
    const bool part = attribute != nullptr && !attribute->is(Kind::none);
    out += text_of(machine, part ? deep_attribute(machine, item, *attribute) : item);
    if (out.size() > machine.budget.limits().output) break;  // refused below
  }
  return made_text(machine, std::move(out));
}

Value list(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("list", arguments, {});
  return make_sequence(items_of(input, machine.budget), machine.budget);
}

/// What filters with these two parameters compare of an item: one of its attributes, texts without their case.
Apply compared_part(Machine& machine, const Bound& bound, size_t case_sensitive, size_t attribute) {
  return
      [&machine, with_case = bound.truth_of(case_sensitive, false), part = bound.find(attribute)](const Value& item) {
        Value value = part != nullptr && !part->is(Kind::none) ? deep_attribute(machine, item, *part) : item;
        return !with_case && value.is(Kind::text) ? made_text(machine, lower(value.text()), value.safe()) : value;
      };
}

Value unique(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  const Apply part = compared_part(machine, bound, 0, 1);
  std::vector<std::pair<Value, Value>> seen;
  std::vector<Value> values;
  for (Value& item : items_of(input, machine.budget)) {
    const size_t before = seen.size();
    set_entry(seen, part(item), Value::none(), machine.budget);
    if (seen.size() > before) values.push_back(std::move(item));
  }
  return make_sequence(std::move(values), machine.budget, Flavor::once);
}

/// The first of the items that none comes before (sign -1: after).
Value extreme(Machine& machine, const Value& input, const Bound& bound, int sign) {
  const Apply part = compared_part(machine, bound, 0, 1);
  std::vector<Value> values = items_of(input, machine.budget);
  if (values.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_part = part(values[0]);
  for (size_t i = 1; i < values.size(); ++i) {
    Value other = part(values[i]);
    if (order(other, best_part, machine.budget) * sign >= 0) continue;
    best = i;
    best_part = std::move(other);
  }
  return std::move(values[best]);
}
Value smallest(Machine& machine, const Value& input, const Arguments& arguments) {
  return extreme(machine, input, Bound("min", arguments, {"case_sensitive", "attribute"}), 1);
}
Value largest(Machine& machine, const Value& input, const Arguments& arguments) {
  return extreme(machine, input, Bound("max", arguments, {"case_sensitive", "attribute"}), -1);
}

Value sum(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  const Value* const attribute = bound.find(0);
  Value total = bound.find(1) == nullptr ? Value::integer(0) : *bound.find(1);
  if (total.is(Kind::text)) fault("sum() does not add strings; use the filter \"join\"");
  const bool part = attribute != nullptr && !attribute->is(Kind::none);
  for (const Value& item : items_of(input, machine.budget))
    total = calculate(machine, Operator::add, total, part ? deep_attribute(machine, item, *attribute) : item);
  return total;
}

Value indent(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  if (input.is(Kind::undefined)) fail_undefined(input);
  if (!input.is(Kind::text)) fault("the filter indent needs a string, found {}", type_name(input));
  std::string step;
  if (const Value* const width = bound.find(0); width != nullptr && width->is(Kind::text)) {
    step = width->text();
  } else {
    constexpr int64_t kMost = 4096;
    const int64_t spaces = bound.integer(0, 4);
    if (spaces > kMost) fault("the filter indent supports at most {} spaces", kMost);
    step.assign(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
  }
  const std::string text = input.text() + '\n';
  const std::vector<std::string_view> lines = split_lines(text);
  machine.budget.make_text(text.size() + lines.size() * step.size());
  const bool blank = bound.truth_of(2, false);
  std::string out = bound.truth_of(1, false) ? step : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (blank || !lines[i].empty())) out += step;
    out += lines[i];
  }
  return Value::text(std::move(out), input.safe());
}

/// Sorts by what `key` gives, texts without their case unless asked.
void sort_by(Machine& machine, std::vector<Value>& values, const Apply& key, bool with_case, bool reversed) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& value : values) {
    Value sorted_by = key(value);
    if (!with_case && sorted_by.is(Kind::text)) sorted_by = made_text(machine, lower(sorted_by.text()));
    keyed.emplace_back(std::move(sorted_by), std::move(value));
  }
  // Equal ones keep their order, also reversed.
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    const int sign = order(a.first, b.first, machine.budget);
    return reversed ? sign > 0 : sign < 0;
  });
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::move(keyed[i].second);
}

Value dictsort(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (input.is(Kind::undefined)) fail_undefined(input);
  if (!input.is(Kind::mapping)) fault("the filter dictsort needs a dictionary, found {}", type_name(input));
  const std::string by = bound.find(1) == nullptr ? "key" : bound.text(1);
  if (by != "key" && by != "value") fault("the filter dictsort sorts by \"key\" or \"value\", found \"{}\"", by);
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.mapping().entries)
    pairs.push_back(make_sequence({key, value}, machine.budget, Flavor::tuple));
  const size_t part = by == "key" ? 0 : 1;
  sort_by(
      machine, pairs, [&](const Value& pair) { return pair.sequence().items[part]; }, bound.truth_of(0, false),
      bound.truth_of(2, false));
  return make_sequence(std::move(pairs), machine.budget);
}

Value sort(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const Value* const attribute = bound.find(2);
  std::vector<Value> values = items_of(input, machine.budget);
  const bool part = attribute != nullptr && !attribute->is(Kind::none);
  sort_by(
      machine, values, [&](const Value& value) { return part ? deep_attribute(machine, value, *attribute) : value; },
      bound.truth_of(1, false), bound.truth_of(0, false));
  return make_sequence(std::move(values), machine.budget);
}

template <std::string (*change)(std::string_view)>
Value changed(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("a filter of letters", arguments, {});
  const std::string text = text_of(machine, input);
  machine.budget.visit(text.size() * 2);  // more work for a byte than to read it
  return made_text(machine, change(text), input.safe());
}

/// Jinja's own: the first character of each word in upper case, the rest in lower case.
std::string title_words(std::string_view text) {
  constexpr std::string_view kBetween = "-({[<";
  std::string out, word;
  const auto end_word = [&] {
    if (word.empty()) return;
    const size_t first = characters_of(word)[0].size();
    out += upper(word.substr(0, first)) + lower(std::string_view(word).substr(first));
    word.clear();
  };
  for (const std::string_view character : characters_of(text)) {
    const char32_t code = decode_utf8(character.data(), character.data() + character.size()).code;
    const bool between = is_space(code) || (code < 0x80 && kBetween.find(static_cast<char>(code)) != kBetween.npos);
    if (between) {
      end_word();
      out += character;
    } else {
      word += character;
    }
  }
  end_word();
  return out;
}

Value replace_in(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"});
  const std::string text = text_of(machine, input), old = text_of(machine, bound.need(0)),
                    by = text_of(machine, bound.need(1));
  const bool limited = bound.find(2) != nullptr && !bound.find(2)->is(Kind::none);
  machine.budget.visit(text.size());
  machine.budget.make_text(text.size() + count_in(text, old) * by.size());
  return Value::text(replace(text, old, by, limited ? bound.integer(2, -1) : -1));
}

Value first(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("first", arguments, {});
  const std::vector<Value> values = items_of(input, machine.budget);
  return values.empty() ? Value::undefined("the filter first found no item") : values.front();
}

/// Python's reversed(), which does not take what has no index.
std::vector<Value> reversed_items(Machine& machine, const Value& input) {
  if (input.is(Kind::sequence) && input.sequence().flavor == Flavor::once)
    fault("a generator cannot be read from its end; apply the filter \"list\" first");
  std::vector<Value> values = items_of(input, machine.budget);
  std::ranges::reverse(values);
  return values;
}

Value last(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("last", arguments, {});
  const std::vector<Value> values = reversed_items(machine, input);
  return values.empty() ? Value::undefined("the filter last found no item") : values.front();
}

Value reverse(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("reverse", arguments, {});
  if (!input.is(Kind::text)) return make_sequence(reversed_items(machine, input), machine.budget, Flavor::once);
  std::string out;
  for (const Value& character : reversed_items(machine, input)) out += character.text();
  return made_text(machine, std::move(out));
}

Value absolute(Machine& /*machine*/, const Value& input, const Arguments& arguments) {
  const Bound bound("abs", arguments, {});
  if (input.is(Kind::number)) return Value::number(std::abs(input.as<double>()));
  if (input.is(Kind::boolean)) return Value::integer(int64_t{input.as<bool>()});
  if (!input.is(Kind::integer)) fault("{} has no absolute value", type_name(input));
  if (input.as<int64_t>() == INT64_MIN) fault("an integer needs more than 64 bits");
  return Value::integer(std::abs(input.as<int64_t>()));
}

/// A number written in a text, with the blanks around it; nothing if the text is not a number.
template <class T>
std::optional<T> read_number(std::string_view text) {
  text = strip(text, std::nullopt);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) fault("a number in a string needs more than 64 bits");
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Value to_integer(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  if (bound.integer(1, 10) != 10) fault("the filter int supports base 10 only");
  const Value otherwise = bound.find(0) == nullptr ? Value::integer(0) : *bound.find(0);
  const auto rounded = [&](double value) {
    constexpr double kBeyond = 9.2e18;
    if (!std::isfinite(value)) return otherwise;
    if (std::abs(value) > kBeyond) fault("an integer needs more than 64 bits");
    return Value::integer(static_cast<int64_t>(value));
  };
  if (input.is(Kind::integer)) return input;
  if (input.is(Kind::boolean)) return Value::integer(int64_t{input.as<bool>()});
  if (input.is(Kind::number)) return rounded(input.as<double>());
  if (input.is(Kind::undefined)) fail_undefined(input);
  if (!input.is(Kind::text)) return otherwise;
  machine.budget.visit(input.text().size());
  if (const auto whole = read_number<int64_t>(input.text())) return Value::integer(*whole);
  if (const auto number = read_number<double>(input.text())) return rounded(*number);
  return otherwise;
}

Value to_number(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  if (input.is(Kind::number)) return input;
  if (input.is(Kind::integer)) return Value::number(static_cast<double>(input.as<int64_t>()));
  if (input.is(Kind::boolean)) return Value::number(input.as<bool>() ? 1 : 0);
  if (input.is(Kind::undefined)) fail_undefined(input);
  if (input.is(Kind::text)) {
    machine.budget.visit(input.text().size());
    if (const auto number = read_number<double>(input.text())) return Value::number(*number);
  }
  return bound.find(0) == nullptr ? Value::number(0) : *bound.find(0);
}

const std::string& name_in(const Value& value, std::string_view what) {
  if (!value.is(Kind::text)) fault("the name of a {} is {}, expected a string", what, type_name(value));
  return value.text();
}

/// map(attribute=..., default=...) or map("filter", ...).
Value map(Machine& machine, const Value& input, const Arguments& arguments) {
  Apply apply;
  Arguments rest = rest_of(arguments, 1);
  if (arguments.given.empty()) {
    const Bound bound("map", arguments, {"attribute", "default"});
    apply = [&machine, attribute = bound.need(0), otherwise = bound.find(1)](const Value& item) {
      return deep_attribute(machine, item, attribute, otherwise);
    };
  } else {
    const std::string& name = name_in(arguments.given[0], "filter");
    const Filter* const filter = find_filter(name);
    if (filter == nullptr) fault("unknown filter \"{}\"", name);
    apply = [&machine, &rest, filter](const Value& item) { return filter->apply(machine, item, rest); };
  }
  if (!truth(input)) return make_sequence({}, machine.budget, Flavor::once);  // None, too, as in Jinja
  std::vector<Value> values = items_of(input, machine.budget);
  for (Value& value : values) value = apply(value);
  return make_sequence(std::move(values), machine.budget, Flavor::once);
}

/// select("test", ...) and its three relatives. by_attribute: the first argument names what is tested.
Value choose(Machine& machine, const Value& input, const Arguments& arguments, bool by_attribute, bool wanted) {
  const size_t skipped = by_attribute ? 1 : 0;
  if (arguments.given.size() < skipped) fault("a filter that tests an attribute needs its name");
  const bool named = arguments.given.size() > skipped;
  const Test* const test = named ? find_test(name_in(arguments.given[skipped], "test")) : nullptr;
  if (named && test == nullptr) fault("unknown test \"{}\"", arguments.given[skipped].text());
  const Arguments rest = rest_of(arguments, skipped + 1);
  std::vector<Value> chosen;
  if (!truth(input)) return make_sequence({}, machine.budget, Flavor::once);  // None, too, as in Jinja
  for (const Value& item : items_of(input, machine.budget)) {
    const Value tested = by_attribute ? deep_attribute(machine, item, arguments.given[0]) : item;
    if ((test == nullptr ? truth(tested) : test->holds(machine, tested, rest)) == wanted) chosen.push_back(item);
  }
  return make_sequence(std::move(chosen), machine.budget, Flavor::once);
}

Value select(Machine& machine, const Value& input, const Arguments& arguments) {
  return choose(machine, input, arguments, false, true);
}
Value reject(Machine& machine, const Value& input, const Arguments& arguments) {
  return choose(machine, input, arguments, false, false);
}
Value selectattr(Machine& machine, const Value& input, const Arguments& arguments) {
  return choose(machine, input, arguments, true, true);
}
Value rejectattr(Machine& machine, const Value& input, const Arguments& arguments) {
  return choose(machine, input, arguments, true, false);
}

constexpr Filter kFilters[] = {{"abs", absolute},
                               {"capitalize", changed<capitalize>},
                               {"count", length},
                               {"d", default_of},
                               {"default", default_of},
                               {"dictsort", dictsort},
                               {"first", first},
                               {"float", to_number},
                               {"indent", indent},
                               {"int", to_integer},
                               {"items", items},
                               {"join", join},
                               {"last", last},
                               {"length", length},
                               {"list", list},
                               {"lower", changed<lower>},
                               {"map", map},
                               {"max", largest},
                               {"min", smallest},
                               {"reject", reject},
                               {"rejectattr", rejectattr},
                               {"replace", replace_in},
                               {"reverse", reverse},
                               {"safe", safe},
                               {"select", select},
                               {"selectattr", selectattr},
                               {"sort", sort},
                               {"string", string},
                               {"sum", sum},
                               {"title", changed<title_words>},
                               {"tojson", to_json},
                               {"trim", trim},
                               {"unique", unique},
                               {"upper", changed<upper>}};

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto at = std::ranges::find(kFilters, name, &Filter::name);
  return at == std::end(kFilters) ? nullptr : &*at;
}

bool is_known_filter(std::string_view name) {
  static constexpr std::string_view kOthers[] = {"attr",           "batch",       "center",    "e",         "escape",
                                                 "filesizeformat", "forceescape", "format",    "groupby",   "pprint",
                                                 "random",         "round",       "slice",     "striptags", "truncate",
                                                 "urlencode",      "urlize",      "wordcount", "wordwrap",  "xmlattr"};
  return find_filter(name) != nullptr || std::ranges::find(kOthers, name) != std::end(kOthers);
}

}  // namespace trireme::chat
