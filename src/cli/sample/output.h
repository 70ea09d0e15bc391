#pragma once
// Where `trireme sample` writes: a file of JSON lines, or standard output of one of several ranks.

#include <cstdio>
#include <string>
#include <string_view>

#include "comm/process.h"
#include "comm/scalars.h"

namespace trireme {

/// Lines go to PATH.partial as soon as they are written, which is renamed to PATH at the end, also after an error;
/// without any line, PATH stays unchanged. A pipe or a device gets the lines themselves (base/output_path.h).
class SampleFile {
 public:
  /// Throws Error::io.
  explicit SampleFile(std::string path);
  SampleFile(const SampleFile&) = delete;
  SampleFile& operator=(const SampleFile&) = delete;
  ~SampleFile();
  /// Throws Error::io.
  void write(const std::string& line);
  /// Throws Error::io.
  void commit();

 private:
  std::string path_, partial_;  ///< partial_: path_ of a stream
  std::FILE* file_ = nullptr;
  int64_t lines_ = 0;
};

/// Output of ranks that hold a model together: only the first one prints.
class Printer {
 public:
  explicit Printer(Process& process);
  bool prints() const { return scalars_.rank() == 0; }
  bool alone() const { return scalars_.size() == 1; }
  /// The first rank's text on every rank.
  std::string shared(const std::string& text) { return alone() ? text : scalars_.broadcast(text); }
  /// Shown at once, so that a reader sees the text grow. What a launcher passes on is written by whole lines: mpirun of
  /// Open MPI 5 (PRRTE 3.0.8) loses some of several small writes.
  void put(std::string_view text) const;

 private:
  Scalars scalars_;
  bool by_lines_;
};

}  // namespace trireme
