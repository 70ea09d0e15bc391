#include "data/parquet/logical.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace trireme {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000, kNanosPerDay = 86'400 * kNanosPerSecond;

int64_t power_of_ten(int64_t digits) {
  int64_t power = 1;
  for (int64_t i = 0; i < digits; ++i) power *= 10;
  return power;
}

std::optional<std::string> date_text(int64_t days) {
  constexpr int64_t kFirst = -719'162, kLast = 2'932'896;  // 0001-01-01, 9999-12-31
  if (days < kFirst || days > kLast) return {};
  const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{days}}};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

/// Microseconds where there are any, nanoseconds where these are not whole.
std::optional<std::string> time_text(int64_t nanos) {
  if (nanos < 0 || nanos >= kNanosPerDay) return {};
  const int64_t seconds = nanos / kNanosPerSecond, rest = nanos % kNanosPerSecond;
  std::string text = fmt::format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (rest % 1000 != 0) return text + fmt::format(".{:09}", rest);
  return rest == 0 ? text : text + fmt::format(".{:06}", rest / 1000);
}

std::optional<std::string> timestamp_text(int64_t days, int64_t nanos, bool utc) {
  const auto date = date_text(days), time = time_text(nanos);
  if (!date || !time) return {};
  return *date + " " + *time + (utc ? "+00:00" : "");
}

}  // namespace

std::optional<std::string> parquet_text(const ParquetMeaning& meaning, int64_t value) {
  using Kind = ParquetMeaning::Kind;
  if (meaning.kind == Kind::date) return date_text(value);
  if (meaning.kind == Kind::decimal) {
    std::byte bytes[sizeof value];
    for (size_t i = 0; i < sizeof value; ++i)
      bytes[i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * (sizeof value - 1 - i)));
    return parquet_decimal(bytes, meaning.digits);
  }
  const int64_t unit = power_of_ten(9 - meaning.digits), per_day = kNanosPerDay / unit;
  if (meaning.kind == Kind::time) return value < 0 || value >= per_day ? std::nullopt : time_text(value * unit);
  const int64_t days = value / per_day - (value % per_day < 0 ? 1 : 0);
  return timestamp_text(days, (value - days * per_day) * unit, meaning.utc);
}

std::optional<std::string> parquet_decimal(std::span<const std::byte> bytes, int64_t digits) {
  constexpr size_t kMostBytes = 32;  // of 76 decimal digits
  if (bytes.empty() || bytes.size() > kMostBytes) return {};
  std::vector<unsigned> number(bytes.size());
  std::ranges::transform(bytes, number.begin(), [](std::byte byte) { return std::to_integer<unsigned>(byte); });
  const bool negative = number[0] >= 128;
  for (size_t i = number.size(), carry = 1; negative && i-- > 0;) {  // - x is the complement of x, plus 1
    number[i] = (255 - number[i]) + static_cast<unsigned>(carry);
    carry = number[i] >> 8;
    number[i] &= 255;
  }
  std::string text;  // its last digit first
  while (std::ranges::any_of(number, [](unsigned byte) { return byte != 0; })) {
    unsigned rest = 0;
    for (unsigned& byte : number) {
      rest = rest * 256 + byte;
      byte = rest / 10;
      rest %= 10;
    }
    text += static_cast<char>('0' + rest);
  }
  const auto least = static_cast<size_t>(digits) + 1;
  if (text.size() < least) text.append(least - text.size(), '0');
  if (digits > 0) text.insert(least - 1, 1, '.');
  if (negative) text += '-';
  std::ranges::reverse(text);
  return text;
}

std::optional<std::string> parquet_julian(std::span<const std::byte> bytes) {
  constexpr int64_t kDayOf1970 = 2'440'588;
  int64_t nanos = 0;
  int32_t day = 0;
  if (bytes.size() != sizeof nanos + sizeof day) return {};
  std::memcpy(&nanos, bytes.data(), sizeof nanos);
  std::memcpy(&day, bytes.data() + sizeof nanos, sizeof day);
  return timestamp_text(day - kDayOf1970, nanos, false);
}

}  // namespace trireme
