#pragma once
// Arithmetic of Python's values, as far as configuration files use it. Throws Error::config without file and line: the
// reader adds them.

#include <string_view>

#include "config/setting.h"

namespace trireme {

/// sign: + - * / // % ** and, of whole numbers, | ^ & << >>. Whole numbers stay whole (except for /) and must fit 64
/// bits; true counts as 1; + joins texts, * repeats one.
Value python_combine(std::string_view sign, const Value& a, const Value& b);
Value python_negate(const Value& value);

}  // namespace trireme
