#pragma once
// The state of a cluster between two commands: a folder beside its file, FILE without its ending and ".state". All that
// matters can be found again from the provider by the cluster's tag; the folder remembers which numbers its nodes have,
// and the host keys that were pinned.

#include <map>
#include <string>
#include <vector>

namespace trireme::cloud {

struct State {
  std::string run;                               ///< Cluster::run; empty: nothing was created
  int first = 0;                                 ///< how many nodes `create` made at first
  std::vector<int> numbers;                      ///< of the requested nodes, ascending, the first is 1
  std::map<std::string, std::string> pins = {};  ///< Provider::pins(), asked once
};

class StateFolder {
 public:
  /// Of the cluster's file; nothing is written yet.
  explicit StateFolder(const std::string& cluster_file);
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;
  ~StateFolder();

  /// Makes the folder and takes its lock until the end of this object. Throws Error::locked naming the process that
  /// holds it.
  void lock();
  /// The state as written; empty if the file is missing. Throws Error::data.
  State read() const;
  void write(const State& state) const;
  /// Everything except the lock.
  void forget() const;

  const std::string& path() const { return path_; }
  std::string known_hosts() const { return path_ + "/known_hosts"; }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace trireme::cloud
