#include "plan/mesh_placement.h"

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

/// What `here` of a group's members on a node send to the others, per byte of each.
double sent(GroupTraffic traffic, int64_t members, int64_t here) {
  if (here == 0 || here == members) return 0;
  const auto n = static_cast<double>(members), h = static_cast<double>(here);
  return 2 / n * (traffic == GroupTraffic::ring ? n - 1 : h * (n - h));
}

}  // namespace

MeshPlacement::MeshPlacement(int64_t data, int64_t tensor, int64_t pipeline, int64_t node_ranks)
    : data_(data), tensor_(tensor), pipeline_(pipeline), node_(node_ranks), stage_(data * tensor) {}

bool MeshPlacement::is_even() const {
  const auto divides = [&](int64_t group) { return group % node_ == 0 || node_ % group == 0; };
  return divides(tensor_) && divides(stage_);
}

double MeshPlacement::tensor_load(GroupTraffic traffic, int64_t node) const {
  const int64_t begin = node * node_, end = std::min(begin + node_, ranks());
  double load = 0;
  // Only the groups at the node's ends may be on other nodes, too.
  const int64_t first = begin / tensor_, last = (end - 1) / tensor_;
  for (const int64_t group : {first, last}) {
    const int64_t here = std::min(end, (group + 1) * tensor_) - std::max(begin, group * tensor_);
    load += sent(traffic, tensor_, here);
    if (first == last) break;
  }
  return load;
}

double MeshPlacement::tensor_share(GroupTraffic traffic) const {
  if (node_ % tensor_ == 0) return 0;
  // Groups begin at the same places of a node again.
  const int64_t nodes = std::min((ranks() + node_ - 1) / node_, tensor_ / std::gcd(tensor_, node_));
  double share = 0;
  for (int64_t node = 0; node < nodes; ++node) share = std::max(share, tensor_load(traffic, node));
  return share;
}

double MeshPlacement::tensor_share(GroupTraffic traffic, int64_t first) const {
  const int64_t begin = node_of(first), end = node_of(first + tensor_ - 1);
  double share = 0;
  for (int64_t node = begin; node <= end && begin < end; ++node) share = std::max(share, tensor_load(traffic, node));
  return share;
}

double MeshPlacement::tensor_share_of_stage(GroupTraffic traffic, int64_t stage) const {
  double share = 0;
  for (int64_t group = 0; group < std::min(data_, node_); ++group)  // then they are placed as before
    share = std::max(share, tensor_share(traffic, stage * stage_ + group * tensor_));
  return share;
}

double MeshPlacement::data_share(GroupTraffic traffic, int64_t stage, int64_t first, int64_t end) const {
  // All ranks of the stage on the node say how many of a data group are there.
  const int64_t from = std::max(node_of(first) * node_, stage * stage_);
  const int64_t to = std::min((node_of(first) + 1) * node_, (stage + 1) * stage_);
  double share = 0;
  for (int64_t rank = first; rank < end; ++rank) {
    const int64_t place = (rank - stage * stage_) % tensor_;  // of the group's members
    const int64_t offset = (from - stage * stage_) % tensor_;
    const int64_t nearest = from + (place - offset + tensor_) % tensor_;
    const int64_t here = nearest < to ? (to - 1 - nearest) / tensor_ + 1 : 0;
    if (here > 0) share += sent(traffic, data_, here) / static_cast<double>(here);
  }
  return share;
}

double MeshPlacement::data_load(GroupTraffic traffic, int64_t node) const {
  const int64_t begin = node * node_, end = std::min(begin + node_, ranks());
  const int64_t first = begin / stage_, last = (end - 1) / stage_;
  double load = 0;
  for (const int64_t stage : {first, last}) {  // stages between them are complete here
    const int64_t here = std::min(end, (stage + 1) * stage_) - std::max(begin, stage * stage_);
    const int64_t each = here / tensor_, more = here % tensor_;  // members of a data group; of `more` groups one more
    load += static_cast<double>(tensor_ - more) * sent(traffic, data_, each) +
            static_cast<double>(more) * sent(traffic, data_, each + 1);
    if (first == last) break;
  }
  return load;
}

double MeshPlacement::data_share(GroupTraffic traffic) const {
  double share = 0;
  for (int64_t stage = 0; stage < pipeline_; ++stage) share = std::max(share, data_share_of_stage(traffic, stage));
  return share;
}

double MeshPlacement::data_share_of_stage(GroupTraffic traffic, int64_t stage) const {
  if (data_ == 1 || node_ % stage_ == 0) return 0;
  const int64_t begin = node_of(stage * stage_), end = node_of((stage + 1) * stage_ - 1);
  if (begin == end) return 0;
  double share = 0;
  for (const int64_t node : {begin, std::min(begin + 1, end), end}) share = std::max(share, data_load(traffic, node));
  return share;
}

int64_t MeshPlacement::leaving(int64_t stage) const {
  if (pipeline_ == 1) return 0;
  const bool around = stage + 1 == pipeline_;
  const int64_t begin = stage * stage_, end = begin + stage_;
  if (around && ranks() <= node_) return 0;
  if (around) return std::min(node_, stage_);
  const int64_t first = node_of(begin), second = std::min(first + 1, node_of(end - 1));
  int64_t most = 0;
  for (const int64_t node : {first, second}) {  // a third one has at most as many
    const int64_t node_end = (node + 1) * node_;
    most = std::max(most, std::min(end, node_end) - std::max({begin, node * node_, node_end - stage_}));
  }
  return most;
}

int64_t MeshPlacement::leaving_both_ways() const {
  const int64_t nodes = (ranks() + node_ - 1) / node_, usual = 2 * std::min(node_, stage_);
  // In the second stage of those that fill nodes all is as in the ones after it.
  const int64_t from = stage_ / node_, to = stage_ < node_ ? nodes : std::min(nodes, from + 3);
  int64_t most = 0;
  for (int64_t node = from; node < to && most < usual; ++node) {
    const int64_t begin = node * node_, end = begin + node_;
    const int64_t next = std::min(end, ranks() - stage_) - std::max(begin, end - stage_);
    const int64_t previous = std::min({begin + stage_, end, ranks()}) - std::max(begin, stage_);
    most = std::max(most, std::max<int64_t>(0, next) + std::max<int64_t>(0, previous));
  }
  return most;
}

}  // namespace trireme
