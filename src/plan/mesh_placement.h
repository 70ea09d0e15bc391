#pragma once
// What of a step's traffic leaves the nodes, by where the ranks of a mesh lie: tensor ranks are neighbours, then come
// data ranks, then stages, and every node has the same number of ranks in this order. Pure; the time does not depend on
// the number of data ranks.

#include <cstdint>

namespace trireme {

/// Which ranks of a group send to which.
enum class GroupTraffic : uint8_t {
  ring,    ///< to the next one, around the nodes
  direct,  ///< to each other
};

class MeshPlacement {
 public:
  /// node_ranks: of each node.
  MeshPlacement(int64_t data, int64_t tensor, int64_t pipeline, int64_t node_ranks);

  int64_t node_of(int64_t rank) const { return rank / node_; }
  int64_t ranks() const { return stage_ * pipeline_; }
  /// Every node has the same number of ranks of each data group that it has any of.
  bool is_even() const;

  // How many bytes leave the node that sends most, per byte that a rank has in a sum, all groups at the same time; 0:
  // no group is on several nodes.

  /// The share of tensor groups.
  double tensor_share(GroupTraffic traffic) const;
  /// The share of the nodes of the tensor group that begins at this rank; 0: it is on one node.
  double tensor_share(GroupTraffic traffic, int64_t first) const;
  /// The largest of a stage's tensor groups.
  double tensor_share_of_stage(GroupTraffic traffic, int64_t stage) const;
  /// The share of data groups, those of all stages.
  double data_share(GroupTraffic traffic) const;
  /// The share of the nodes that have ranks of this stage.
  double data_share_of_stage(GroupTraffic traffic, int64_t stage) const;
  /// What ranks [first, end) of a stage send, which are on one node.
  double data_share(GroupTraffic traffic, int64_t stage, int64_t first, int64_t end) const;

  /// Ranks of a node whose message to the next stage leaves it: most of any node. From the last stage: to the first.
  int64_t leaving(int64_t stage) const;
  /// Ranks of a node whose message to the next stage leaves it and those whose message to the previous one does: most
  /// of any node.
  int64_t leaving_both_ways() const;

 private:
  double tensor_load(GroupTraffic traffic, int64_t node) const;
  double data_load(GroupTraffic traffic, int64_t node) const;

  int64_t data_, tensor_, pipeline_, node_;
  int64_t stage_;  ///< ranks of a stage
};

}  // namespace trireme
