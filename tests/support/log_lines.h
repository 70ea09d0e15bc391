#pragma once
// What the program logs while a test runs, from all its threads.

#include <mutex>
#include <string>
#include <string_view>

#include "base/log.h"

namespace trireme {

class LogLines {
 public:
  LogLines() {
    log::set_listener([this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      (text_ += line) += '\n';
    });
  }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  ~LogLines() { log::set_listener({}); }

  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace trireme
