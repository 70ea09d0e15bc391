#pragma once
// An all_reduce of `trireme bench comm` among ranks of this program on this node.

#include <string>
#include <utility>
#include <vector>

#include "cluster/health/machine.h"

namespace trireme::health {

struct OwnSum {
  double bandwidth = 0;      ///< GB/s: average bus bandwidth
  bool right = true;         ///< every value of the sums that were checked
  std::string problem = {};  ///< why there is no result
  bool cannot_run = false;   ///< there is none because this program cannot run it here
};

/// bytes: of the array, as `-b` of nccl-tests. device: cpu (MPI) or cuda (NCCL, a GPU for each rank). variables: of the
/// ranks' environment, names that begin with NCCL_. seconds: the limit. Throws Error::data for a result of another
/// form.
OwnSum measure_own_sum(const Machine& machine, const std::string& ranks, const std::string& bytes,
                       const std::string& device, const std::vector<std::pair<std::string, std::string>>& variables,
                       double seconds);

}  // namespace trireme::health
