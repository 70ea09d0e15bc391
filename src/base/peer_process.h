#pragma once
// Another program that measures the same work on request: one line in, one line out with seconds, tokens and, if it
// reports them, its peak memory in bytes, its loss, and how many tokens count in the loss and are computed.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace trireme {

class PeerProcess {
 public:
  /// Starts the program and waits until it prints "ready". Throws Error::io naming it if it does not.
  explicit PeerProcess(std::vector<std::string> command);
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess();

  struct Result {
    double seconds = 0;
    uint64_t tokens = 0, peak_rss = 0;
    double loss = 0;
    uint64_t counted = 0, computed = 0;  ///< of the tokens; and with padding
  };
  /// Throws Error::io if the program ends or gives another answer.
  Result measure();

 private:
  std::string read_line();

  std::string name_;
  int process_ = -1;
  std::FILE *to_ = nullptr, *from_ = nullptr;
};

}  // namespace trireme
