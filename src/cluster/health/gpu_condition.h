#pragma once
// What the driver says of the node's NVIDIA GPUs: by its library NVML, or by nvidia-smi where that cannot be opened.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/health/machine.h"

namespace trireme::health {

/// What the driver does not say of a GPU is missing.
struct GpuCondition {
  int index = 0;  ///< as of nvidia-smi -i
  std::string bus = {}, uuid = {}, vbios = {};
  std::string fault = {};  ///< why the driver does not answer for it; then nothing else is known but its place
  std::optional<bool> persistence = {};
  struct Clock {
    double application = 0, most = 0;  ///< MHz
  };
  std::optional<Clock> graphics = {}, memory = {};
  std::optional<bool> remap_pending = {}, remap_failed = {}, retirement_pending = {}, unrepairable = {};
  bool memory_known = false;                    ///< the driver says something of errors of its memory
  double rows_remapped = 0, pages_retired = 0;  ///< after uncorrectable errors; after all
  struct Errors {
    double sram_corrected = 0, sram_uncorrected = 0, dram_corrected = 0, dram_uncorrected = 0;
  };
  Errors since_start = {}, lifetime = {};      ///< of ECC: since the driver was loaded; in the GPU's life
  bool reasons_known = false;                  ///< of low clocks
  std::vector<std::string> held_down_by = {};  ///< those that are active now, without Idle
  int links_up = 0, links_down = 0;            ///< NVLinks; read by NVML only
  std::optional<double> width = {}, most_width = {}, most_generation = {};  ///< of PCIe: lanes now and at most
  bool inforom_corrupt = false;

  /// "GPU 3 (00000000:65:00.0, GPU-...)" for messages.
  std::string label() const;
};

struct GpuConditions {
  bool by_nvml = false;
  std::vector<GpuCondition> gpus = {};  ///< in the driver's order
  bool none = false;                    ///< no driver of NVIDIA's and no GPU of its on the PCI bus; a problem, too
  std::string problem = {};             ///< why the driver says nothing at all, and what to do; empty: it answers
};

/// A GPU of AMD's is on the PCI bus.
bool has_amd_gpu(const Machine& machine);
/// GPUs are on the PCI bus, none of them NVIDIA's, and no driver of NVIDIA's is there.
bool has_only_amd(const Machine& machine);

/// The conditions of all GPUs. Never throws.
GpuConditions gpu_conditions(const Machine& machine);

/// Reads the text of `nvidia-smi -q`. Throws Error::data for other text.
std::vector<GpuCondition> conditions_of_smi(std::string_view text);

/// Switches the GPU's persistence mode on; sets its application clocks to their maxima. By NVML, or by nvidia-smi.
void switch_persistence_on(const Machine& machine, const GpuCondition& gpu);
void raise_application_clocks(const Machine& machine, const GpuCondition& gpu);

}  // namespace trireme::health
