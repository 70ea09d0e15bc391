#pragma once
// Where a PCI device is in this machine, as hwloc describes it.

#include <optional>
#include <string>
#include <vector>

#include "base/affinity.h"

namespace trireme {

struct DevicePlace {
  Cpus cpus{};                          ///< near it: of its NUMA node; empty: unknown
  std::optional<int> numa_node{};       ///< nothing: unknown, or the device is near several
  std::vector<std::string> networks{};  ///< nearest to it in the same part of the machine: "mlx5_0", else "eth0"

  /// "NUMA node 1, network mlx5_0"; empty: unknown.
  std::string text() const;
};

/// bus: "0000:17:00.0"; the domain may have 8 digits. Another text, and a device that is not there, are near nothing.
/// xml: a file of hwloc's that describes another machine; empty: this one. Throws Error::config if hwloc reads neither.
DevicePlace place_of_device(const std::string& bus, const std::string& xml = "");

}  // namespace trireme
