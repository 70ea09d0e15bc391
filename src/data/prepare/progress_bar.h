#pragma once
// Progress of a long job over input bytes, on stderr: a bar on a terminal, otherwise an occasional line.

#include <cstdint>
#include <functional>
#include <string>

#include "base/time.h"

namespace trireme {

class ProgressBar {
 public:
  /// total_bytes 0: unknown, no ETA.
  ProgressBar(std::string task, uint64_t total_bytes);
  /// Ends the line of a visible bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Describes the current work; called only when a line is printed.
  using Subject = std::function<std::string()>;
  /// Prints if a line is due.
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
