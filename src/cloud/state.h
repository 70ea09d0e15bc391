#pragma once
// The state of a cluster between two commands: a folder beside its file, FILE without its extension and ".state".
// Everything important can be found again from the provider by the cluster's tag; the folder stores the numbers of its
// nodes and the pinned host keys.

#include <map>
#include <string>
#include <vector>

namespace trireme::cloud {

struct State {
  std::string run;                               ///< Cluster::run; empty: nothing was created
  int first = 0;                                 ///< number of nodes of the first `create`
  std::vector<int> numbers;                      ///< of the requested nodes, ascending, beginning with 1
  std::map<std::string, std::string> pins = {};  ///< Provider::pins(), queried once
};

class StateFolder {
 public:
  /// The state folder of a cluster's file; writes nothing yet.
  explicit StateFolder(const std::string& cluster_file);
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;
  ~StateFolder();

  /// Creates the folder and holds its lock for the lifetime of this object. Throws Error::locked naming the process
  /// that holds it.
  void lock();
  /// The state as written; empty if the file is missing. Throws Error::data.
  State read() const;
  void write(const State& state) const;
  /// Removes everything except the lock.
  void forget() const;

  const std::string& path() const { return path_; }
  std::string known_hosts() const { return path_ + "/known_hosts"; }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace trireme::cloud
