#include <algorithm>

#include "text/chat/builtins.h"
#include "text/chat/operators.h"

namespace trireme::chat {
namespace {

using Holds = bool (*)(const Value&);

/// A test without arguments.
template <Holds holds>
bool plain(Machine& /*machine*/, const Value& input, const Arguments& arguments) {
  const Bound bound("a test", arguments, {});
  return holds(input);
}

bool is_sequence(const Value& value) {
  if (value.is(Kind::sequence))
    return value.sequence().flavor != Flavor::once && value.sequence().flavor != Flavor::view;
  return value.is(Kind::text) || value.is(Kind::mapping) || value.is(Kind::undefined);
}

bool is_iterable(const Value& value) {
  return value.is(Kind::sequence) || value.is(Kind::text) || value.is(Kind::mapping) || value.is(Kind::undefined) ||
         value.is(Kind::loop);
}

bool is_number(const Value& value) {
  return value.is(Kind::boolean) || value.is(Kind::integer) || value.is(Kind::number);
}

bool is_callable(const Value& value) {
  return value.is(Kind::macro) || value.is(Kind::method) || value.is(Kind::global) || value.is(Kind::loop) ||
         value.is(Kind::undefined);
}

bool is_true(const Value& value) { return value.is(Kind::boolean) && value.as<bool>(); }
bool is_false(const Value& value) { return value.is(Kind::boolean) && !value.as<bool>(); }
template <Kind kind>
bool is_kind(const Value& value) {
  return value.is(kind);
}
template <Kind kind>
bool is_not_kind(const Value& value) {
  return !value.is(kind);
}

template <Operator sign>
bool compared(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("a test that compares", arguments, {"other"});
  return compare(machine, sign, input, bound.need(0));
}

bool divides(Machine& machine, const Value& input, const Value& divisor) {
  return equal(calculate(machine, Operator::modulo, input, divisor), Value::integer(0), machine.budget);
}

bool divisible(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("divisibleby", arguments, {"num"});
  return divides(machine, input, bound.need(0));
}

bool even(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("even", arguments, {});
  return divides(machine, input, Value::integer(2));
}

bool odd(Machine& machine, const Value& input, const Arguments& arguments) {
  const Bound bound("odd", arguments, {});
  return equal(calculate(machine, Operator::modulo, input, Value::integer(2)), Value::integer(1), machine.budget);
}

constexpr Test kTests[] = {{"!=", compared<Operator::unequal>},
                           {"<", compared<Operator::less>},
                           {"<=", compared<Operator::less_equal>},
                           {"==", compared<Operator::equal>},
                           {">", compared<Operator::greater>},
                           {">=", compared<Operator::greater_equal>},
                           {"boolean", plain<is_kind<Kind::boolean>>},
                           {"callable", plain<is_callable>},
                           {"defined", plain<is_not_kind<Kind::undefined>>},
                           {"divisibleby", divisible},
                           {"eq", compared<Operator::equal>},
                           {"equalto", compared<Operator::equal>},
                           {"even", even},
                           {"false", plain<is_false>},
                           {"float", plain<is_kind<Kind::number>>},
                           {"ge", compared<Operator::greater_equal>},
                           {"greaterthan", compared<Operator::greater>},
                           {"gt", compared<Operator::greater>},
                           {"in", compared<Operator::in>},
                           {"integer", plain<is_kind<Kind::integer>>},
                           {"iterable", plain<is_iterable>},
                           {"le", compared<Operator::less_equal>},
                           {"lessthan", compared<Operator::less>},
                           {"lt", compared<Operator::less>},
                           {"mapping", plain<is_kind<Kind::mapping>>},
                           {"ne", compared<Operator::unequal>},
                           {"none", plain<is_kind<Kind::none>>},
                           {"number", plain<is_number>},
                           {"odd", odd},
                           {"sequence", plain<is_sequence>},
                           {"string", plain<is_kind<Kind::text>>},
                           {"true", plain<is_true>},
                           {"undefined", plain<is_kind<Kind::undefined>>}};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto at = std::ranges::find(kTests, name, &Test::name);
  return at == std::end(kTests) ? nullptr : &*at;
}

bool is_known_test(std::string_view name) {
  static constexpr std::string_view kOthers[] = {"escaped", "filter", "lower", "sameas", "test", "upper"};
  return find_test(name) != nullptr || std::ranges::find(kOthers, name) != std::end(kOthers);
}

}  // namespace trireme::chat
