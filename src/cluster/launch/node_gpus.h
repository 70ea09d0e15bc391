#pragma once
// What a host says of its GPUs, and whether a job of several hosts can use them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/hosts.h"
#include "cluster/launch/node_session.h"
#include "ops/gpu_library.h"
#include "ops/gpu_node.h"

namespace trireme::launch {

/// What a job wants of its hosts' GPUs.
enum class GpuWish : uint8_t {
  none,
  automatic,  ///< all ranks use them if all hosts have them, else none does
  required,
};

struct HostGpus {
  NodeGpus gpus;
  UsableGpu usable;
  std::optional<std::string> visible = {};  ///< CUDA_VISIBLE_DEVICES there

  /// GPUs that a program sees there; nullopt: unknown.
  std::optional<int> count() const;
};

/// This host's. Opens the GPU library.
HostGpus read_host_gpus();
Json to_json(const HostGpus& host);
/// Throws Error::data for other documents.
HostGpus host_gpus_from_json(const Json& json);

struct GpuVerdict {
  std::vector<Problem> problems;
  std::vector<std::string> notes;
  bool used = false;         ///< the job will compute on GPUs, as far as known here
  std::vector<int> ranks{};  ///< one per GPU, by host; 0: unknown
};

/// Pure.
GpuVerdict judge_gpus(const std::vector<Placement>& placement, const std::vector<HostGpus>& hosts, GpuWish wish,
                      int gpus_per_node);

}  // namespace trireme::launch
