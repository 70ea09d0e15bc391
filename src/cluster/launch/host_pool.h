#pragma once
// The hosts that a job runs on, and the spare hosts.

#include <string>
#include <vector>

#include "cluster/hosts.h"

namespace trireme {

/// The hosts of a launch in their order; the last `spares` of them are used only when another host fails.
class HostPool {
 public:
  /// Throws Error::config if all hosts are spares, and what place() throws.
  HostPool(std::vector<Host> hosts, int spares, PlacementRequest request);

  const std::vector<Placement>& placement() const { return placement_; }
  std::vector<std::string> names() const;  ///< of the placement
  size_t spares() const { return spares_.size(); }
  /// Whether no number of ranks was given.
  bool offers_ranks() const { return request_.processes == 0 && request_.per_host == 0 && request_.gpus == 0; }
  /// Places one process per socket, or per GPU, if no number was given; returns whether that changed the placement.
  bool offer_ranks(std::span<const int> counts);

  /// Removes these hosts permanently and replaces them by spares, if any are left. With too few spares nothing changes
  /// unless `may_shrink`. Returns whether the job can be placed on the remaining hosts.
  bool leave_out(const std::vector<std::string>& failed, bool may_shrink);

 private:
  std::vector<Host> hosts_, spares_;
  PlacementRequest request_;
  std::vector<Placement> placement_;
};

/// "h[1-3] 2 each, h9 1"
std::string to_text(const std::vector<Placement>& placement);

}  // namespace trireme
