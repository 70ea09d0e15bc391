#pragma once
// Python's operators. They throw Fault where Python raises, and for integers that need more than 64 bits.

#include <optional>

#include "text/chat/builtins.h"
#include "text/chat/syntax.h"

namespace trireme::chat {

/// a + b and the other arithmetic operators.
Value calculate(Machine& machine, Operator sign, const Value& a, const Value& b);
Value negative_of(const Value& value);
Value positive_of(const Value& value);
/// a < b, a in b, ...
bool compare(Machine& machine, Operator sign, const Value& a, const Value& b);
/// value[begin:end:step]; a bound is undefined where it is missing.
Value slice_of(Machine& machine, const Value& value, const Value& begin, const Value& end, const Value& step);

}  // namespace trireme::chat
