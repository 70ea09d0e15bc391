#pragma once
// Token files are mapped while a run reads them: whoever changes one changes what is trained on.

#include <sys/stat.h>

#include <string>
#include <vector>

#include "checkpoint/snapshot/checkpoint.h"

namespace trireme {

class DataGuard {
 public:
  /// Remembers size, time of change and identity of the files. A read behind the new end of one that was cut ends the
  /// process with a message of its own and code 1, where the system would end it with a bus error.
  explicit DataGuard(const std::vector<DataFileFact>& files);
  ~DataGuard();
  DataGuard(const DataGuard&) = delete;
  DataGuard& operator=(const DataGuard&) = delete;

  /// A file that was written to since, or that another file has replaced, gives one warning. Throws Error::data when it
  /// became shorter.
  void check();

 private:
  struct File {
    std::string path;
    struct stat start {};
    bool told = false;
  };
  static void handle_bus_error(int signal);

  std::vector<File> files_;
};

}  // namespace trireme
