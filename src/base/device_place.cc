#include "base/device_place.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "base/error.h"

namespace trireme {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

Topology load(const std::string& xml) {
  hwloc_topology_t raw = nullptr;
  require(hwloc_topology_init(&raw) == 0, ErrorKind::config, "hwloc cannot describe this machine");
  Topology topology(raw, hwloc_topology_destroy);
  const bool read = xml.empty() || hwloc_topology_set_xml(raw, xml.c_str()) == 0;
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (!read || hwloc_topology_load(raw) != 0)
    fail(ErrorKind::config, "hwloc cannot read {}: {}", xml.empty() ? "this machine" : xml, std::strerror(errno));
  return topology;
}

hwloc_obj_t find_device(hwloc_topology_t topology, const std::string& bus) {
  unsigned domain = 0, number = 0, device = 0, function = 0;
  int used = 0;
  // NOLINTNEXTLINE(cert-err34-c): the number of fields and of characters is checked
  const int fields = std::sscanf(bus.c_str(), "%x:%x:%x.%x%n", &domain, &number, &device, &function, &used);
  if (fields != 4 || static_cast<size_t>(used) != bus.size()) return nullptr;
  return hwloc_get_pcidev_by_busid(topology, domain, number, device, function);
}

Cpus cpus_of(hwloc_const_cpuset_t set) {
  Cpus cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) cpus.push_back(cpu);
  return cpus;
}

/// The objects that hold the device, from its own bus outwards.
std::vector<hwloc_obj_t> holders_of(hwloc_obj_t device) {
  std::vector<hwloc_obj_t> holders;
  for (hwloc_obj_t at = device->parent; at != nullptr; at = at->parent) holders.push_back(at);
  return holders;
}

/// Names of the network devices that share the innermost holder with the device, up to `outermost`; those of InfiniBand
/// if there are some.
std::vector<std::string> nearest_networks(hwloc_topology_t topology, hwloc_obj_t device, hwloc_obj_t outermost) {
  const std::vector<hwloc_obj_t> holders = holders_of(device);
  const auto end = std::ranges::find(holders, outermost);
  for (const auto type : {HWLOC_OBJ_OSDEV_OPENFABRICS, HWLOC_OBJ_OSDEV_NETWORK}) {
    auto nearest = end;
    std::vector<std::string> names;
    for (hwloc_obj_t os = nullptr; (os = hwloc_get_next_osdev(topology, os)) != nullptr;) {
      if (os->attr->osdev.type != type || os->name == nullptr) continue;
      hwloc_obj_t at = os->parent;
      while (at != nullptr && std::ranges::find(holders, at) == holders.end()) at = at->parent;
      const auto shared = std::ranges::find(holders, at);
      if (shared > nearest || shared == holders.end()) continue;
      if (shared < nearest) names.clear();
      nearest = shared;
      names.emplace_back(os->name);
    }
    if (!names.empty()) return names;
  }
  return {};
}

}  // namespace

std::string DevicePlace::text() const {
  std::string text = numa_node ? fmt::format("NUMA node {}", *numa_node) : std::string();
  if (!networks.empty()) text += fmt::format("{}network {}", text.empty() ? "" : ", ", fmt::join(networks, " "));
  return text;
}

DevicePlace place_of_device(const std::string& bus, const std::string& xml) {
  const Topology topology = load(xml);
  const hwloc_obj_t device = find_device(topology.get(), bus);
  if (device == nullptr) return {};
  const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology.get(), device);
  DevicePlace place;
  // A device that hangs on a machine of several NUMA nodes is near none of them: the system did not say where it is.
  const bool one_node = hwloc_bitmap_weight(near->nodeset) == 1;
  if (near->parent == nullptr && !one_node) return place;
  place.cpus = cpus_of(near->cpuset);
  if (one_node) place.numa_node = hwloc_bitmap_first(near->nodeset);
  place.networks = nearest_networks(topology.get(), device, near);
  return place;
}

}  // namespace trireme
