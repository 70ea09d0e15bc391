#pragma once
// How far a fetch is: a line below the messages of a terminal, elsewhere a line every ten seconds, with rate and time
// left.

#include <cstdint>
#include <string>

#include "base/time.h"

namespace trireme::hub {

class Meter {
 public:
  /// `total`: bytes that are still to come.
  Meter(std::string name, uint64_t total);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  void set_file(std::string file) { file_ = std::move(file); }
  /// Bytes that have come.
  void add(uint64_t bytes);
  /// A file begins anew: so many of its bytes have to come again.
  void take_back(uint64_t bytes) { total_ += bytes; }
  /// Shows the line when it is time to; called now and then.
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

}  // namespace trireme::hub
