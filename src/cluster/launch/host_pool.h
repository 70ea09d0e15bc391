#pragma once
// Which hosts a job runs on, and which step in for them.

#include <string>
#include <vector>

#include "cluster/hosts.h"

namespace trireme {

/// The hosts of a launch in their order; the last `spares` of them wait until one of the others fails.
class HostPool {
 public:
  /// Throws Error::config when no host is left beside the spares, and what place() throws.
  HostPool(std::vector<Host> hosts, int spares, PlacementRequest request);

  const std::vector<Placement>& placement() const { return placement_; }
  std::vector<std::string> names() const;  ///< of the placement
  size_t spares() const { return spares_.size(); }
  /// One process per socket where nobody told a number; returns whether that changed the placement.
  bool offer_sockets(std::span<const int> sockets);

  /// Leaves these hosts out for good; spares step in for them, as many as there are. Without enough spares nothing
  /// changes unless `may_shrink`. Returns whether the job can be placed on what is left.
  bool leave_out(const std::vector<std::string>& failed, bool may_shrink);

 private:
  std::vector<Host> hosts_, spares_;
  PlacementRequest request_;
  std::vector<Placement> placement_;
};

/// "h[1-3] 2 each, h9 1"
std::string to_text(const std::vector<Placement>& placement);

}  // namespace trireme
