#pragma once
// The folder in which a preparation keeps what it has done so far, so that a killed one goes on where it was. It lies
// beside the results under a name that begins with a dot, belongs to one process at a time and is gone at the end.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/json.h"

namespace trireme {

class WorkFolder {
 public:
  /// Makes or takes over the folder. `job` says in words what is prepared, of which input and how; what another job
  /// left there is removed. Throws Error::io, Error::locked when another process works there.
  WorkFolder(std::string path, std::string job);
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  /// Removes the folder, unless keep() was called.
  ~WorkFolder();

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// What the last save() of the same job said. Throws Error::io.
  std::optional<Json> saved() const;
  /// Replaces it; survives a power cut.
  void save(const Json& state);
  bool has_saved() const { return has_saved_; }
  /// The folder stays for a later run.
  void keep() { keep_ = true; }

 private:
  void lock();
  void remove_content() const;

  std::string path_, job_;
  int lock_ = -1;
  bool has_saved_ = false, keep_ = false;
};

}  // namespace trireme
