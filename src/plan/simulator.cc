#include "plan/simulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "model/pipeline_order.h"

namespace trireme {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Bytes on their way from one node to another, or inside one.
struct Flow {
  int64_t from = 0, to = 0;  ///< nodes
  double bytes = 0, weight = 1;
  double whole = 0;       ///< bytes at the start
  double fixed_rate = 0;  ///< inside a node: not shared; 0: shared
  double start = 0;
  int64_t receiver = -1;  ///< group of a message; -1: of an exchange
  int64_t sender = 0, part = 0, micro_batch = 0;
  PipelinePass pass = PipelinePass::forward;
};

/// A tensor group, or one that represents equal ones.
struct Group {
  int64_t stage = 0, replica = 0, rank = 0, node = 0;
  double weight = 1, slow = 1;
  StageTimes times;
  std::vector<PipelineAction> order;
  size_t next = 0;  ///< action
  double busy_until = 0;
  bool computes = false;
  double busy = 0;       ///< seconds of computing
  double finished = -1;  ///< all actions are done
  std::map<std::tuple<PipelinePass, int64_t, int64_t>, int64_t>
      coming;  ///< flows of pass, part, micro-batch to wait for
};

struct StageExchange {
  int64_t waiting = 0;  ///< members that have not come to it
  int64_t flows = 0;    ///< on their way
  double done = 0, start = 0;
  bool began = false;
};

class Simulation {
 public:
  Simulation(const ModelSize& model, const StepLayout& layout, const MachineRates& machine,
             const SimulationOptions& options)
      : model_(model),
        layout_(layout),
        machine_(machine),
        options_(options),
        placement_(layout.on(machine.node_ranks)) {
    parts_ = options.part_layers;
    const int64_t parts = layout.pipeline * layout.chunks;
    for (int64_t i = 0; parts_.size() < static_cast<size_t>(parts); ++i)
      parts_.push_back(model.layers / parts + (i < model.layers % parts ? 1 : 0));
    step_.exact = layout.ranks() <= options.exact_ranks;
    make_groups();
    exchanges_.resize(static_cast<size_t>(layout.pipeline));
    for (const Group& group : groups_) ++exchanges_[static_cast<size_t>(group.stage)].waiting;
  }

  SimulatedStep run() {
    for (size_t i = 0; i < groups_.size(); ++i) begin_next(i);
    while (true) {
      const double next = std::min(next_action(), next_arrival());
      if (next == kNever) break;
      advance(next);
      for (size_t i = 0; i < groups_.size(); ++i) {
        if (groups_[i].computes && groups_[i].busy_until <= now_) end_action(i);
      }
    }
    finish();
    return std::move(step_);
  }

 private:
  void make_groups() {
    const int64_t here = std::max<int64_t>(1, machine_.node_ranks / layout_.tensor);
    const int64_t classes = step_.exact ? layout_.data : options_.slow == 1 || layout_.data == 1 ? 1 : 2;
    for (int64_t stage = 0; stage < layout_.pipeline; ++stage) {
      for (int64_t replica = 0; replica < classes; ++replica) {
        Group group;
        group.stage = stage;
        group.replica = replica;
        // The second class is on separate nodes.
        const int64_t place = step_.exact ? replica : replica == 1 ? layout_.data - 1 : slowest_replica(stage);
        group.rank = (stage * layout_.data + place) * layout_.tensor;
        group.node = placement_.node_of(group.rank);
        group.times = stage_times(model_, layout_, machine_, group.rank);
        if (!step_.exact) group.weight = static_cast<double>(std::min(layout_.data, here));
        if (stage == 0 && replica == 0) group.slow = options_.slow;
        group.order = pipeline_order(stage, layout_.pipeline, layout_.chunks, layout_.micro_batches());
        groups_.push_back(std::move(group));
      }
    }
    step_.groups = static_cast<int64_t>(groups_.size());
    classes_ = classes;
  }

  /// The replica of a stage whose tensor group's sums take longest.
  int64_t slowest_replica(int64_t stage) const {
    int64_t slowest = 0;
    double most = 0;
    for (int64_t replica = 0; replica < std::min(layout_.data, machine_.node_ranks); ++replica) {
      const double share =
          placement_.tensor_share(GroupTraffic::direct, (stage * layout_.data + replica) * layout_.tensor);
      if (share > most) most = share, slowest = replica;
    }
    return slowest;
  }

  int64_t part_of(const Group& group, const PipelineAction& action) const {
    return action.chunk * layout_.pipeline + group.stage;
  }
  bool is_first(int64_t part) const { return part == 0; }
  bool is_last(int64_t part) const { return part == static_cast<int64_t>(parts_.size()) - 1; }
  /// The group of the same replica that holds a part.
  size_t holder(const Group& group, int64_t part) const {
    return static_cast<size_t>((part % layout_.pipeline) * classes_ + group.replica);
  }

  double seconds_of(const Group& group, const PipelineAction& action) const {
    const int64_t part = part_of(group, action);
    const auto layers = static_cast<double>(parts_[static_cast<size_t>(part)]);
    const bool forward = action.pass == PipelinePass::forward;
    double seconds = layers * (forward ? group.times.layer_forward : group.times.layer_backward);
    if (is_last(part)) seconds += forward ? group.times.head_forward : group.times.head_backward;
    return seconds * group.slow;
  }

  void begin_next(size_t index) {
    Group& group = groups_[index];
    if (group.computes || group.finished >= 0) return;
    const PipelineAction& action = group.order[group.next];
    const int64_t part = part_of(group, action);
    const bool forward = action.pass == PipelinePass::forward;
    const bool own = forward ? is_first(part) : is_last(part);
    const auto message = group.coming.find({action.pass, part, action.micro_batch});
    if (!own && (message == group.coming.end() || message->second > 0)) return;
    if (group.next + 1 == group.order.size() && machine_.exchange_overlaps) join_exchange(group);
    group.computes = true;
    const bool last = group.next + 1 == group.order.size();
    const double seconds = seconds_of(group, action) + (last && layout_.data > 1 ? group.times.exchange_lost : 0);
    group.busy_until = now_ + seconds;
    group.busy += seconds;
    record(forward ? SimulatedEvent::Kind::forward : SimulatedEvent::Kind::backward, group.rank, action.chunk,
           action.micro_batch, now_, seconds);
  }

  void end_action(size_t index) {
    Group& group = groups_[index];
    const PipelineAction action = group.order[group.next++];
    group.computes = false;
    const int64_t part = part_of(group, action);
    const bool forward = action.pass == PipelinePass::forward;
    if (forward ? !is_last(part) : !is_first(part)) send(group, action, forward ? part + 1 : part - 1);
    if (group.next == group.order.size()) {
      group.finished = now_;
      if (!machine_.exchange_overlaps) join_exchange(group);
    }
    begin_next(index);
  }

  /// Each rank sends to the one at its place; ranks that send from one node to another are one flow.
  void send(const Group& group, const PipelineAction& action, int64_t to_part) {
    const size_t receiver = holder(group, to_part);
    std::map<std::pair<int64_t, int64_t>, int64_t> ranks;  // by nodes
    for (int64_t i = 0; i < layout_.tensor; ++i)
      ++ranks[{placement_.node_of(group.rank + i), placement_.node_of(groups_[receiver].rank + i)}];
    groups_[receiver].coming[{action.pass, to_part, action.micro_batch}] = static_cast<int64_t>(ranks.size());
    for (const auto& [nodes, count] : ranks) {
      const bool inside = nodes.first == nodes.second;
      // Ranks that send to another node share their node's network.
      add({.from = nodes.first,
           .to = nodes.second,
           .bytes = group.times.message_bytes * (inside ? 1 : static_cast<double>(count)),
           .weight = group.weight,
           .fixed_rate = inside ? machine_.inner_bytes * machine_.inner_share : 0,
           .start = now_,
           .receiver = static_cast<int64_t>(receiver),
           .sender = group.rank,
           .part = to_part,
           .micro_batch = action.micro_batch,
           .pass = action.pass});
    }
  }

  void join_exchange(const Group& group) {
    StageExchange& exchange = exchanges_[static_cast<size_t>(group.stage)];
    if (--exchange.waiting > 0 || layout_.data == 1) return;
    exchange.began = true;
    exchange.start = now_;
    for (const Group& member : groups_) {
      if (member.stage == group.stage) add_exchange(member, exchange);
    }
  }

  void add_exchange(const Group& member, StageExchange& exchange) {
    const auto data = static_cast<double>(layout_.data);
    const GroupTraffic traffic = gradient_traffic(layout_, machine_);
    Flow flow{.from = member.node,
              .to = -1,
              .weight = member.weight,
              .start = now_,
              .receiver = -1,
              .sender = member.rank,
              .part = member.stage};
    int64_t leaving = 0;
    const int64_t end = keeps_data_on_a_node(layout_, machine_) ? member.rank : member.rank + layout_.tensor;
    for (int64_t first = member.rank, next = 0; first < end; first = next) {
      next = std::min(end, (placement_.node_of(first) + 1) * machine_.node_ranks);
      const double share = placement_.data_share(traffic, member.stage, first, next);
      if (share == 0) continue;
      flow.from = placement_.node_of(first);
      flow.bytes = share * member.times.exchange_bytes / (2 * (data - 1) / data);
      ++leaving;
      add(flow);
    }
    if (leaving == 0) {
      flow.bytes = member.times.exchange_bytes;
      flow.fixed_rate = machine_.inner_bytes * machine_.inner_share;
      add(flow);
    }
    exchange.flows += std::max<int64_t>(leaving, 1);
  }

  void add(Flow flow) {
    flow.whole = flow.bytes;
    flows_.push_back(flow);
  }

  /// Messages of one group to another follow each other.
  void find_queued() {
    queued_.assign(flows_.size(), false);
    std::set<std::tuple<int64_t, int64_t, int64_t, int64_t, PipelinePass>> first;
    for (size_t i = 0; i < flows_.size(); ++i) {
      const Flow& flow = flows_[i];
      if (flow.receiver >= 0)
        queued_[i] = !first.insert({flow.sender, flow.receiver, flow.from, flow.to, flow.pass}).second;
    }
  }

  double rate_of(size_t index) const {
    const Flow& flow = flows_[index];
    if (queued_[index]) return 0;
    if (flow.fixed_rate > 0) return flow.fixed_rate;
    const double capacity = machine_.node_bytes * machine_.node_share;
    double leaving = 0, coming = 0;
    for (size_t i = 0; i < flows_.size(); ++i) {
      const Flow& other = flows_[i];
      if (other.fixed_rate > 0 || queued_[i]) continue;
      if (other.from == flow.from) leaving += other.weight;
      if (flow.to >= 0 && other.to == flow.to) coming += other.weight;
    }
    return capacity / std::max({leaving, coming, 1.0});
  }

  double next_action() const {
    double next = kNever;
    for (const Group& group : groups_) {
      if (group.computes) next = std::min(next, group.busy_until);
    }
    return next;
  }

  double next_arrival() {
    double next = kNever;
    rates_.clear();
    find_queued();
    for (size_t i = 0; i < flows_.size(); ++i) {
      rates_.push_back(rate_of(i));
      if (rates_[i] > 0) next = std::min(next, now_ + flows_[i].bytes / rates_[i]);
    }
    return next;
  }

  /// Moves all flows on; those that arrive start what waits for them.
  void advance(double to) {
    const double passed = to - now_;
    now_ = to;
    constexpr double kRest = 1e-9;  // of a message: rounding
    std::vector<Flow> arrived, rest;
    for (size_t i = 0; i < flows_.size(); ++i) {
      Flow& flow = flows_[i];
      flow.bytes -= rates_[i] * passed;
      const bool no_time = rates_[i] > 0 && now_ + flow.bytes / rates_[i] <= now_;  // less than the clock's precision
      (flow.bytes <= kRest * flow.whole || no_time ? arrived : rest).push_back(flow);
    }
    flows_ = std::move(rest);
    for (const Flow& flow : arrived) {
      if (flow.receiver < 0) {
        StageExchange& exchange = exchanges_[static_cast<size_t>(flow.part)];
        // It begins with the first bucket, and the flows with backward.
        if (--exchange.flows == 0) exchange.done = now_ + any().exchange_latency + any().first_bucket;
        record(SimulatedEvent::Kind::exchange, flow.sender, 0, 0, flow.start, now_ - flow.start);
        continue;
      }
      record(SimulatedEvent::Kind::message, flow.sender, flow.part / layout_.pipeline, flow.micro_batch, flow.start,
             now_ - flow.start);
      --groups_[static_cast<size_t>(flow.receiver)].coming[{flow.pass, flow.part, flow.micro_batch}];
      begin_next(static_cast<size_t>(flow.receiver));
    }
  }

  /// When a stage has exchanged what its data ranks share; its own end where they share nothing.
  double exchanged(const Group& group) const {
    const StageExchange& exchange = exchanges_[static_cast<size_t>(group.stage)];
    if (!exchange.began) return group.finished;
    // The last bucket leaves when backward has ended.
    const double travels = exchange.done - any().first_bucket - exchange.start;
    const double tail = machine_.exchange_overlaps ? travels * any().last_bucket : 0;
    double end = std::max(group.finished, exchange.done);
    for (const Group& member : groups_) {
      if (member.stage == group.stage) end = std::max(end, member.finished + tail);
    }
    return end + any().exchange_after;
  }

  void finish() {
    std::vector<double> ends;
    for (const Group& group : groups_) ends.push_back(exchanged(group));
    if (layout_.pipeline > 1) {  // the first stage and the last one wait for each other
      const auto last = static_cast<size_t>((layout_.pipeline - 1) * classes_);
      for (size_t i = 0; i < static_cast<size_t>(classes_); ++i)
        ends[i] = ends[last + i] = std::max(ends[i], ends[last + i]) + any().tied;
    }
    for (size_t i = 0; i < groups_.size(); ++i) {
      record(SimulatedEvent::Kind::update, groups_[i].rank, 0, 0, ends[i], any().update);
      step_.seconds = std::max(step_.seconds, ends[i] + any().update);
    }
    for (const Group& group : groups_) step_.idle = std::max(step_.idle, 1 - group.busy / step_.seconds);
  }

  void record(SimulatedEvent::Kind kind, int64_t rank, int64_t chunk, int64_t micro_batch, double start,
              double seconds) {
    if (options_.records) step_.events.push_back({kind, rank, chunk, micro_batch, start, seconds});
  }

  /// The times that do not depend on the group's place.
  const StageTimes& any() const { return groups_.front().times; }

  const ModelSize& model_;
  const StepLayout& layout_;
  const MachineRates& machine_;
  const SimulationOptions& options_;
  const MeshPlacement placement_;
  std::vector<int64_t> parts_;
  std::vector<Group> groups_;
  int64_t classes_ = 1;
  std::vector<StageExchange> exchanges_;
  std::vector<Flow> flows_;
  std::vector<double> rates_;
  std::vector<bool> queued_;  ///< of flows_: behind another message
  double now_ = 0;
  SimulatedStep step_;
};

}  // namespace

SimulatedStep simulate_step(const ModelSize& model, const StepLayout& layout, const MachineRates& machine,
                            const SimulationOptions& options) {
  return Simulation(model, layout, machine, options).run();
}

FailurePlan plan_failures(double node_hours, int64_t nodes, double save_seconds, double restart_seconds) {
  FailurePlan plan;
  constexpr double kHour = 3600;
  plan.failure_seconds = node_hours * kHour / static_cast<double>(nodes);
  plan.interval_seconds = std::sqrt(2 * save_seconds * plan.failure_seconds);
  const double lost =
      save_seconds / plan.interval_seconds + (plan.interval_seconds / 2 + restart_seconds) / plan.failure_seconds;
  plan.useful = 1 / (1 + lost);
  return plan;
}

}  // namespace trireme
