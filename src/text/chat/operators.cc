#include "text/chat/operators.h"

#include <algorithm>
#include <cmath>

#include "text/chat/python_text.h"
#include "text/unicode.h"

namespace trireme::chat {
namespace {

bool is_whole(const Value& value) { return value.is(Kind::integer) || value.is(Kind::boolean); }
bool is_numeric(const Value& value) { return is_whole(value) || value.is(Kind::number); }
int64_t whole(const Value& value) { return value.is(Kind::boolean) ? int64_t{value.as<bool>()} : value.as<int64_t>(); }
double real(const Value& value) {
  return value.is(Kind::number) ? value.as<double>() : static_cast<double>(whole(value));
}

const char* written(Operator sign) {
  switch (sign) {
    case Operator::add:
      return "+";
    case Operator::subtract:
      return "-";
    case Operator::multiply:
      return "*";
    case Operator::divide:
      return "/";
    case Operator::floor_divide:
      return "//";
    case Operator::modulo:
      return "%";
    case Operator::power:
      return "**";
    default:
      return "?";
  }
}

[[noreturn]] void too_large() { fault("an integer needs more than 64 bits, which is not supported"); }

int64_t power_of(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (int64_t i = 0; i < exponent; ++i) {  // at most 63 before it overflows
    if (__builtin_mul_overflow(result, base, &result)) too_large();
  }
  return result;
}

Value whole_result(Operator sign, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (sign) {
    case Operator::add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::subtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::multiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::divide:
      return Value::number(static_cast<double>(a) / static_cast<double>(b));
    case Operator::floor_divide:
    case Operator::modulo: {
      if (b == -1) return sign == Operator::modulo ? Value::integer(0) : whole_result(Operator::subtract, 0, a);
      const int64_t rest = a % b;
      const bool below = rest != 0 && (rest < 0) != (b < 0);  // Python rounds down
      result = sign == Operator::modulo ? rest + (below ? b : 0) : a / b - (below ? 1 : 0);
      break;
    }
    default:
      result = power_of(a, b);
  }
  if (overflow) too_large();
  return Value::integer(result);
}

Value real_result(Operator sign, double a, double b) {
  switch (sign) {
    case Operator::add:
      return Value::number(a + b);
    case Operator::subtract:
      return Value::number(a - b);
    case Operator::multiply:
      return Value::number(a * b);
    case Operator::divide:
      return Value::number(a / b);
    case Operator::power: {
      const double result = std::pow(a, b);
      if (!std::isfinite(result)) fault("{} ** {} has no finite result", number_text(a), number_text(b));
      return Value::number(result);
    }
    default:
      break;
  }
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  if (sign == Operator::modulo) return Value::number(rest);
  const double quotient = (a - rest) / b;
  const double down = std::floor(quotient);
  return Value::number(quotient - down > 0.5 ? down + 1 : down);
}

Value numeric_result(Operator sign, const Value& a, const Value& b) {
  const bool divides = sign == Operator::divide || sign == Operator::floor_divide || sign == Operator::modulo;
  if (divides && real(b) == 0) fault("division by zero");
  if (sign == Operator::power && real(a) == 0 && real(b) < 0) fault("division by zero");
  const bool negative_power = sign == Operator::power && is_whole(b) && whole(b) < 0;
  if (is_whole(a) && is_whole(b) && !negative_power) return whole_result(sign, whole(a), whole(b));
  return real_result(sign, real(a), real(b));
}

/// Text or list, `count` times.
Value repeated(Machine& machine, const Value& value, int64_t count) {
  const auto times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  const Budget& budget = machine.budget;
  if (value.is(Kind::text)) {
    const std::string& text = value.text();
    if (!text.empty() && times > budget.limits().output / text.size())
      fault("a string would have more than {} bytes, the limit", budget.limits().output);
    std::string out;
    machine.budget.make_text(text.size() * times);
    out.reserve(text.size() * times);
    for (uint64_t i = 0; i < times && !text.empty(); ++i) out += text;
    return Value::text(std::move(out), value.safe());
  }
  const std::vector<Value>& items = value.sequence().items;
  if (!items.empty() && times > budget.limits().items / items.size())
    fault("a list would have more than {} items, the limit", budget.limits().items);
  std::vector<Value> out;
  for (uint64_t i = 0; i < times && !items.empty(); ++i) out.insert(out.end(), items.begin(), items.end());
  return make_sequence(std::move(out), machine.budget, value.sequence().flavor);
}

bool is_list(const Value& value) {
  return value.is(Kind::sequence) &&
         (value.sequence().flavor == Flavor::list || value.sequence().flavor == Flavor::tuple);
}

Value added_texts(Machine& machine, const Value& a, const Value& b) {
  const bool safe = a.safe() || b.safe();
  const auto part = [&](const Value& value) {
    return safe && !value.safe() ? escape_html(value.text()) : value.text();
  };
  std::string out = part(a);
  out += part(b);
  machine.budget.make_text(out.size());
  return Value::text(std::move(out), safe);
}

bool contains(Machine& machine, const Value& whole_value, const Value& part) {
  switch (whole_value.kind()) {
    case Kind::text:
      if (part.is(Kind::undefined)) fail_undefined(part);
      if (!part.is(Kind::text)) fault("a string cannot contain {}", type_name(part));
      machine.budget.visit(whole_value.text().size());
      return find_in(whole_value.text(), part.text()) != std::string::npos;
    case Kind::mapping:
      return whole_value.mapping().find(part, machine.budget) != nullptr;
    case Kind::sequence:
    case Kind::undefined:
      return std::ranges::any_of(items_of(whole_value, machine.budget),
                                 [&](const Value& item) { return equal(item, part, machine.budget); });
    default:
      fault("\"in\" is not supported for {}", type_name(whole_value));
  }
}

/// What a slice takes from `size` items: place first, first + step, ... Python's slice.indices().
struct Places {
  int64_t first, step;
  int64_t count;
};

Places places_of(int64_t size, const Value& begin, const Value& end, const Value& step_value) {
  const auto missing = [](const Value& bound) { return bound.is(Kind::undefined) || bound.is(Kind::none); };
  const auto number = [&](const Value& bound) {
    if (!is_whole(bound)) fault("a bound of a slice is {}, expected an integer", type_name(bound));
    return whole(bound);
  };
  const int64_t step = missing(step_value) ? 1 : number(step_value);
  if (step == 0) fault("the step of a slice is 0");
  const int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? size - 1 : size;
  const auto clamped = [&](const Value& bound, int64_t otherwise) {
    if (missing(bound)) return otherwise;
    const int64_t place = number(bound);
    return place < 0 ? (place < -size ? lowest : std::max(place + size, lowest)) : std::min(place, highest);
  };
  const int64_t first = clamped(begin, step < 0 ? highest : lowest);
  const int64_t last = clamped(end, step < 0 ? lowest : highest);
  const int64_t span = step < 0 ? first - last : last - first;
  const int64_t stride = step == INT64_MIN ? INT64_MAX : std::abs(step);
  return {first, step, span <= 0 ? 0 : (span - 1) / stride + 1};
}

/// Bytes of the first `count` characters.
size_t bytes_of(std::string_view text, int64_t count) {
  size_t place = 0;
  for (; count > 0; --count) place += decode_utf8(text.data() + place, text.data() + text.size()).length;
  return place;
}

Value slice_of_text(Machine& machine, const Value& value, const Value& begin, const Value& end, const Value& step) {
  const std::string_view text = value.text();
  machine.budget.make_text(text.size());
  const Places places = places_of(static_cast<int64_t>(count_code_points(text)), begin, end, step);
  std::string out;
  if (places.step == 1 && places.count > 0) {
    const size_t from = bytes_of(text, places.first);
    out = text.substr(from, bytes_of(text.substr(from), places.count));
  } else if (places.count > 0) {
    machine.budget.make_items(text.size());
    const std::vector<std::string_view> characters = characters_of(text);
    for (int64_t i = 0; i < places.count; ++i) out += characters[static_cast<size_t>(places.first + i * places.step)];
  }
  return Value::text(std::move(out), value.safe());
}

}  // namespace

Value calculate(Machine& machine, Operator sign, const Value& a, const Value& b) {
  if (a.is(Kind::undefined)) fail_undefined(a);
  if (b.is(Kind::undefined)) fail_undefined(b);
  machine.budget.step();
  if (is_numeric(a) && is_numeric(b)) return numeric_result(sign, a, b);
  if (sign == Operator::add && a.is(Kind::text) && b.is(Kind::text)) return added_texts(machine, a, b);
  if (sign == Operator::add && is_list(a) && is_list(b) && a.sequence().flavor == b.sequence().flavor) {
    machine.budget.make_items(a.sequence().items.size() + b.sequence().items.size());
    std::vector<Value> items = a.sequence().items;
    items.insert(items.end(), b.sequence().items.begin(), b.sequence().items.end());
    return make_sequence(std::move(items), machine.budget, a.sequence().flavor);
  }
  if (sign == Operator::multiply && is_whole(b) && (a.is(Kind::text) || is_list(a)))
    return repeated(machine, a, whole(b));
  if (sign == Operator::multiply && is_whole(a) && (b.is(Kind::text) || is_list(b)))
    return repeated(machine, b, whole(a));
  if (sign == Operator::modulo && a.is(Kind::text)) fault("text % value is not supported; use ~ or +");
  fault("{} {} {} has no meaning", type_name(a), written(sign), type_name(b));
}

Value negative_of(const Value& value) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (value.is(Kind::number)) return Value::number(-value.as<double>());
  if (!is_whole(value)) fault("- {} has no meaning", type_name(value));
  return whole_result(Operator::subtract, 0, whole(value));
}

Value positive_of(const Value& value) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (!is_numeric(value)) fault("+ {} has no meaning", type_name(value));
  return value.is(Kind::boolean) ? Value::integer(whole(value)) : value;
}

bool compare(Machine& machine, Operator sign, const Value& a, const Value& b) {
  switch (sign) {
    case Operator::equal:
      return equal(a, b, machine.budget);
    case Operator::unequal:
      return !equal(a, b, machine.budget);
    case Operator::in:
      return contains(machine, b, a);
    case Operator::not_in:
      return !contains(machine, b, a);
    case Operator::less:
      return order(a, b, machine.budget) < 0;
    case Operator::less_equal:
      return order(a, b, machine.budget) <= 0;
    case Operator::greater:
      return order(a, b, machine.budget) > 0;
    default:
      return order(a, b, machine.budget) >= 0;
  }
}

Value slice_of(Machine& machine, const Value& value, const Value& begin, const Value& end, const Value& step) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (value.is(Kind::text)) return slice_of_text(machine, value, begin, end, step);
  const bool sliceable = is_list(value) || (value.is(Kind::sequence) && value.sequence().flavor == Flavor::range);
  if (!sliceable) fault("{} cannot be sliced", type_name(value));
  const std::vector<Value>& items = value.sequence().items;
  std::vector<Value> out;
  const Places places = places_of(std::ssize(items), begin, end, step);
  for (int64_t i = 0; i < places.count; ++i) out.push_back(items[static_cast<size_t>(places.first + i * places.step)]);
  return make_sequence(std::move(out), machine.budget, value.sequence().flavor);
}

}  // namespace trireme::chat
