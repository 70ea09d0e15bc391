// check_hw_topology: which devices are near which NUMA node, by an NCCL topology file.

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/count.h"
#include "base/error.h"
#include "base/text.h"
#include "cluster/health/check.h"
#include "ops/nvml.h"

namespace trireme::health {
namespace {

struct Placed {
  std::string bus, kind;  ///< "0001:00:00.0"; "GPU"
  std::string numa;       ///< the number of its node
};

/// The value of an attribute of a tag; empty if it has none.
std::string attribute(std::string_view tag, const std::string& name) {
  const size_t at = tag.find(" " + name + "=\"");
  if (at == std::string_view::npos) return "";
  const size_t begin = at + name.size() + 3;
  return std::string(tag.substr(begin, tag.find('"', begin) - begin));
}

/// What a device with this class of PCI is; empty: a bridge or what a topology does not need.
std::string kind_of(std::string_view pci_class) {
  constexpr std::array<std::pair<std::string_view, const char*>, 4> kKinds = {
      {{"0x03", "GPU"}, {"0x0207", "InfiniBand adapter"}, {"0x0200", "network adapter"}, {"0x0108", "NVMe drive"}}};
  for (const auto& [start, kind] : kKinds) {
    if (pci_class.starts_with(start)) return kind;
  }
  return "";
}

/// Devices of a topology file, each with the NUMA node of the <cpu> that contains it. Throws Error::data for other
/// text.
std::vector<Placed> parse_topology(std::string_view text, const std::string& file) {
  require(text.find("<system") != std::string_view::npos, ErrorKind::data,
          "{} is not a topology file of NCCL: it has no <system>", file);
  std::vector<Placed> devices;
  std::string numa = "0";
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view tag = text.substr(at, text.find('>', at) - at);
    if (tag.starts_with("<cpu ")) numa = attribute(tag, "numaid");
    if (!tag.starts_with("<pci ")) continue;
    const std::string kind = kind_of(attribute(tag, "class"));
    if (!kind.empty()) devices.push_back({nvml::linux_bus(attribute(tag, "busid")), kind, numa});
  }
  return devices;
}

/// The file for this kind of Azure node; empty for other nodes.
std::string file_of_azure(const Machine& machine) {
  const ProcessResult asked =
      machine.command({"curl", "-s", "--max-time", "10", "-H", "Metadata:true",
                       "http://169.254.169.254/metadata/instance/compute/vmSize?api-version=2021-01-01&format=text"});
  if (asked.exit_code != 0) return "";
  const std::string size = lower_case(asked.out);
  const auto has = [&](const char* part) { return size.find(part) != std::string::npos; };
  if (has("nd96") && has("_v4")) return "ndv4-topo.xml";
  if (has("nc") && has("a100_v4")) return "ncv4-topo.xml";
  if (has("nd96") && has("_h100_v5")) return "ndv5-topo.xml";
  return "";
}

/// [FILE]: without it, the file of this kind of Azure node.
Check make_topology(Words words) {
  require_words(words, 0, 1, "[TOPOLOGY-FILE]");
  const std::string given = words.empty() ? "" : words[0];
  return [given](const Machine& machine) {
    std::string file = given;
    if (file.empty()) {
      const std::string name = file_of_azure(machine);
      if (name.empty())
        return not_checked("its line names no topology file, and this is not an Azure node of a known kind");
      const char* const root = std::getenv("AZ_NHC_ROOT");
      const std::string own = fmt::format("{}/topofiles/{}", root == nullptr ? "" : root, name);
      file = root != nullptr && machine.exists(own) ? own : "/opt/microsoft/" + name;
    }
    const auto text = machine.read(file);
    if (!text) {
      return not_checked(fmt::format("the topology file {} is missing{}", file,
                                     given.empty() ? "; name it: check_hw_topology FILE" : ""));
    }
    const std::vector<Placed> expected = parse_topology(*text, file);
    if (expected.empty()) return not_checked(fmt::format("{} names no GPU and no adapter", file));
    std::vector<std::string> wrong;
    for (const Placed& device : expected) {
      const std::string folder = "/sys/bus/pci/devices/" + device.bus;
      if (!machine.exists(folder)) {
        wrong.push_back(fmt::format("the {} {} of NUMA node {} is missing", device.kind, device.bus, device.numa));
        continue;
      }
      const std::string text_of_node = machine.read(folder + "/numa_node").value_or("");
      const std::string node(trim_blanks(text_of_node.substr(0, text_of_node.find('\n'))));
      if (node != device.numa && !node.empty() && node != "-1") {  // -1: the system does not know
        wrong.push_back(
            fmt::format("the {} {} is at NUMA node {}, expected {}", device.kind, device.bus, node, device.numa));
      }
    }
    if (wrong.empty()) return passed(fmt::format("{} as {} says", count_text(expected.size(), "device"), file));
    return failed("{} ({}); restart the node, and if that does not help, have it repaired or replaced",
                  fmt::join(wrong, "; "), file);
  };
}

constexpr KnownCheck kChecks[] = {{"check_hw_topology", make_topology}};

}  // namespace

std::span<const KnownCheck> topology_checks() { return kChecks; }

}  // namespace trireme::health
