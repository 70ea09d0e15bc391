#pragma once
// A training step event by event: every pipeline action in TrainStep's order, every message on the links of a network
// of two levels that messages share, and the exchange of gradients. Pure.

#include <cstdint>
#include <vector>

#include "plan/step_time.h"

namespace trireme {

struct SimulationOptions {
  std::vector<int64_t> part_layers{};  ///< of the pipeline x chunks parts; empty: as even as possible
  double slow = 1;                     ///< factor of the time that rank 0 computes
  int64_t exact_ranks = 64;            ///< above, equal data ranks are simulated once
  bool records = false;                ///< keep the events
};

struct SimulatedEvent {
  enum class Kind : uint8_t { forward, backward, message, exchange, update };
  Kind kind = Kind::forward;
  int64_t rank = 0;                    ///< first one of the tensor group; the sender of a message
  int64_t chunk = 0, micro_batch = 0;  ///< of a forward, a backward or what a message belongs to
  double start = 0, seconds = 0;
};

struct SimulatedStep {
  double seconds = 0;
  double idle = 0;     ///< largest share of the step in which a group computes nothing
  bool exact = true;   ///< every tensor group was simulated
  int64_t groups = 0;  ///< that were simulated
  std::vector<SimulatedEvent> events;
};

/// Throws Error::config as step_time() and pipeline_order() do.
SimulatedStep simulate_step(const ModelSize& model, const StepLayout& layout, const MachineRates& machine,
                            const SimulationOptions& options = {});

/// Snapshots of a run that failures interrupt.
struct FailurePlan {
  double failure_seconds = 0;   ///< between failures of the job
  double interval_seconds = 0;  ///< between snapshots: the best one, sqrt(2 x save x failure_seconds) (Young 1974)
  double useful = 1;            ///< share of the time that trains
};
/// node_hours: between failures of one node. save_seconds: for which a snapshot stops training. restart_seconds: from a
/// failure to the first step.
FailurePlan plan_failures(double node_hours, int64_t nodes, double save_seconds, double restart_seconds);

}  // namespace trireme
