#pragma once
// The folder with a preparation's progress, from which a killed one resumes. It is beside the results, has a name that
// begins with a dot, belongs to one process at a time and is removed at the end.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/json.h"

namespace trireme {

class WorkFolder {
 public:
  /// Creates or takes over the folder. `job` describes the preparation, its input and its options; removes another
  /// job's files. Throws Error::io, Error::locked if another process works there.
  WorkFolder(std::string path, std::string job);
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  /// Removes the folder unless keep() was called.
  ~WorkFolder();

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// The state of the same job's last save(). Throws Error::io.
  std::optional<Json> saved() const;
  /// Replaces the state; survives a power cut.
  void save(const Json& state);
  bool has_saved() const { return has_saved_; }
  /// Keeps the folder for a later run.
  void keep() { keep_ = true; }

 private:
  void lock();
  void remove_content() const;

  std::string path_, job_;
  int lock_ = -1;
  bool has_saved_ = false, keep_ = false;
};

}  // namespace trireme
