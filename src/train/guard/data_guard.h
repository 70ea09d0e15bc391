#pragma once
// Watches the token files, which are mapped while a run reads them: a change in a file changes the training data.

#include <sys/stat.h>

#include <string>
#include <vector>

#include "checkpoint/snapshot/checkpoint.h"

namespace trireme {

class DataGuard {
 public:
  /// Remembers size, modification time and identity of the files. A read beyond the new end of a truncated file ends
  /// the process with a message and code 1, instead of a bus error.
  explicit DataGuard(const std::vector<DataFileFact>& files);
  ~DataGuard();
  DataGuard(const DataGuard&) = delete;
  DataGuard& operator=(const DataGuard&) = delete;

  /// Warns once of a file that was written to or replaced since. Throws Error::data if it was truncated.
  void check();

 private:
  struct File {
    std::string path;
    struct stat start {};
    bool reported = false;
  };
  static void handle_bus_error(int signal);

  std::vector<File> files_;
};

}  // namespace trireme
