#include "config/python_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kMaxText = size_t{1} << 16;  // `a = a + a` in many lines must not grow without bound

std::optional<int64_t> as_whole(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  return std::nullopt;
}

double as_real(std::string_view sign, const Value& value) {
  if (const auto whole = as_whole(value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  fail(ErrorKind::config, "{} needs numbers, found {}", sign,
       std::holds_alternative<std::string>(value) ? "\"" + to_text(value) + "\"" : "None");
}

[[noreturn]] void fail_range(std::string_view sign) {
  fail(ErrorKind::config, "the result of {} does not fit a 64-bit whole number", sign);
}

int64_t whole_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  constexpr int64_t kMostSteps = 64;  // any base beyond -1, 0, 1 overflows before
  if (exponent > kMostSteps && (base == 0 || base == 1)) return base;
  if (exponent > kMostSteps && base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) fail_range("**");
  }
  return result;
}

bool is_of_bits(std::string_view sign) {
  return sign == "|" || sign == "^" || sign == "&" || sign == "<<" || sign == ">>";
}

int64_t combine_bits(std::string_view sign, int64_t a, int64_t b) {
  if (sign == "|") return a | b;
  if (sign == "^") return a ^ b;
  if (sign == "&") return a & b;
  require(b >= 0, ErrorKind::config, "{} by {}, expected 0 or more", sign, b);
  constexpr int64_t kMost = 62;
  if (sign == ">>") return a >> std::min(b, kMost + 1);
  if (a == 0) return 0;
  int64_t result = 0;
  if (b > kMost || __builtin_mul_overflow(a, int64_t{1} << b, &result)) fail_range(sign);
  return result;
}

std::string repeated(const std::string& text, int64_t times) {
  require(times <= 0 || text.size() <= kMaxText / static_cast<size_t>(times), ErrorKind::config,
          "a string grows beyond {} bytes", kMaxText);
  std::string result;
  if (text.empty()) return result;
  for (int64_t i = 0; i < times; ++i) result += text;
  return result;
}

Value combine_whole(std::string_view sign, int64_t a, int64_t b) {
  int64_t result = 0;
  if (sign == "+" || sign == "-" || sign == "*") {
    const bool overflow = sign == "+"   ? __builtin_add_overflow(a, b, &result)
                          : sign == "-" ? __builtin_sub_overflow(a, b, &result)
                                        : __builtin_mul_overflow(a, b, &result);
    if (overflow) fail_range(sign);
    return result;
  }
  if (sign == "**") {
    if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
    return whole_power(a, b);
  }
  if (is_of_bits(sign)) return combine_bits(sign, a, b);
  require(b != 0, ErrorKind::config, "division by zero");
  if (sign == "/") return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) {  // INT64_MIN / -1 traps
    if (sign == "%") return int64_t{0};
    return combine_whole("-", 0, a);
  }
  const int64_t floor = a / b - (a % b != 0 && (a < 0) != (b < 0));
  return sign == "//" ? floor : a - floor * b;
}

Value combine_real(std::string_view sign, double a, double b) {
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
  return result;
}

}  // namespace

Value python_combine(std::string_view sign, const Value& a, const Value& b) {
  const auto* left = std::get_if<std::string>(&a);
  const auto* right = std::get_if<std::string>(&b);
  if (left && right && sign == "+") {
    require(left->size() + right->size() <= kMaxText, ErrorKind::config, "a string grows beyond {} bytes", kMaxText);
    return *left + *right;
  }
  const auto x = as_whole(a), y = as_whole(b);
  if (sign == "*" && ((left && y) || (right && x))) return repeated(left ? *left : *right, left ? *y : *x);
  if (x && y) return combine_whole(sign, *x, *y);
  require(!is_of_bits(sign), ErrorKind::config, "{} needs whole numbers", sign);
  return combine_real(sign, as_real(sign, a), as_real(sign, b));
}

Value python_negate(const Value& value) {
  if (const auto whole = as_whole(value)) return combine_whole("-", 0, *whole);
  return -as_real("-", value);
}

}  // namespace trireme
