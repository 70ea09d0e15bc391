#pragma once
// Progress of a transfer of bytes: on a terminal a line below the messages, elsewhere a line every ten seconds, with
// rate and remaining time.

#include <cstdint>
#include <string>

#include "base/time.h"

namespace trireme {

class Meter {
 public:
  /// `total`: remaining bytes.
  Meter(std::string name, uint64_t total);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  void set_file(std::string file) { file_ = std::move(file); }
  /// Bytes received.
  void add(uint64_t bytes);
  /// A file starts again: this many of its bytes must be fetched again.
  void take_back(uint64_t bytes) { total_ += bytes; }
  /// Shows the line if it is due; call it repeatedly.
  void show();
  /// "gpt2 model.safetensors: 1.0 MB of 4.0 MB (25 %), 3.3 MB/s, 1 s left"
  std::string line() const;
  /// "548.1 MB in 23 s: 23.8 MB/s"
  std::string summary() const;

 private:
  std::string name_, file_;
  uint64_t total_, done_ = 0;
  Clock::time_point start_ = Clock::now(), shown_ = start_, logged_ = start_;
};

}  // namespace trireme
