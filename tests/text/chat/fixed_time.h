#pragma once
// The time that strftime_now() gives in tests and comparisons: 29 February 2024, 13:05:09.

#include <ctime>

namespace trireme::chat {

inline std::tm fixed_time() {
  std::tm now{};
  now.tm_year = 124;
  now.tm_mon = 1;
  now.tm_mday = 29;
  now.tm_hour = 13;
  now.tm_min = 5;
  now.tm_sec = 9;
  now.tm_isdst = -1;
  std::mktime(&now);
  return now;
}

}  // namespace trireme::chat
