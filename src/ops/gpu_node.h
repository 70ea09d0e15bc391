#pragma once
// The GPUs of this node as NVIDIA's management library (libnvidia-ml.so.1, a part of the driver) reports them: without
// CUDA, and without work on a GPU.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace trireme {

/// What the library does not know of a GPU is missing.
struct NodeGpu {
  std::string name = {}, uuid = {};
  std::string bus = {};      ///< of PCI: "00000000:17:00.0"
  int major = 0, minor = 0;  ///< compute capability
  uint64_t memory_bytes = 0, free_bytes = 0;
  std::optional<int> numa_node = {};
  std::optional<int> pcie_generation = {}, pcie_width = {}, most_pcie_generation = {},
                     most_pcie_width = {};  ///< now; of card and slot
  std::optional<double> watts = {}, most_watts = {};
  std::optional<int> celsius = {}, busy_percent = {};
  std::optional<uint64_t> uncorrected_errors = {};  ///< of ECC since the driver was loaded; missing: no ECC
  bool mig = false;                                 ///< divided into instances
  bool prohibited = false;                          ///< its compute mode refuses every program
  std::string fault = {};  ///< why the library cannot answer for it; then only `bus` may be known
};

struct NodeGpus {
  std::string driver = {};  ///< "580.159.04"
  int cuda = 0;             ///< the newest CUDA that it runs: 13000 is 13.0
  std::vector<NodeGpu> gpus = {};
  /// Between two GPUs, as nvidia-smi names it: NV18 (NVLinks), PIX (one PCIe switch), PXB (several), PHB (the host
  /// bridge), NODE (one NUMA node), SYS (between NUMA nodes); "": unknown, or the same GPU.
  std::vector<std::vector<std::string>> links = {};
  std::vector<std::pair<int, int>> apart = {};  ///< that cannot read each other's memory directly; first below second
  std::string why_none = {};                    ///< why no GPU is reported; empty: some are
};

/// Never throws: why_none and NodeGpu::fault say what fails.
NodeGpus read_node_gpus();

/// What keeps GPUs from being used, or makes them slow or wrong: "GPU 1: ...".
std::vector<std::string> complaints_of(const NodeGpus& node);
/// Those of them that keep a GPU from being used.
std::vector<std::string> obstacles_of(const NodeGpus& node);

/// What must be the same on all nodes of a job, as ("driver", "580.159.04"); empty without GPUs.
std::vector<std::pair<std::string, std::string>> shared_facts_of(const NodeGpus& node);

Json to_json(const NodeGpus& node);
/// Of to_json(). Throws Error::data for other documents.
NodeGpus node_gpus_from_json(const Json& json);

}  // namespace trireme
