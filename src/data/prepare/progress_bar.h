#pragma once
// How far a long job over input bytes is: a bar on a terminal, a plain line now and then elsewhere; on stderr.

#include <cstdint>
#include <functional>
#include <string>

#include "base/time.h"

namespace trireme {

class ProgressBar {
 public:
  /// total_bytes 0: unknown, no ETA.
  ProgressBar(std::string task, uint64_t total_bytes);
  /// Ends the line of a bar that is still there.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// What is being worked on, asked for only when a line is printed.
  using Subject = std::function<std::string()>;
  /// Prints when it is time to.
  void update(uint64_t bytes, uint64_t documents, const Subject& subject = {});

 private:
  std::string line(uint64_t bytes, uint64_t documents) const;

  std::string task_;
  uint64_t total_;
  Clock::time_point start_ = Clock::now(), printed_ = start_;
  bool terminal_;
  bool begun_ = false, bar_open_ = false;
  uint64_t first_bytes_ = 0, first_documents_ = 0;  // of the first update: rates count from there on
};

}  // namespace trireme
