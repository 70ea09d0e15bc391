#include "cluster/health/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "base/count.h"
#include "base/text.h"
#include "cluster/health/check.h"
#include "cluster/health/gpu_condition.h"
#include "cluster/health/run.h"
#include "cluster/hostlist.h"

namespace trireme::health {
namespace {

class Writer {
 public:
  void section(std::string title) { section_ = std::move(title); }
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    lines_.push_back({section_, fmt::format(format, std::forward<Args>(args)...)});
  }
  std::vector<GeneratedLine> lines() && { return std::move(lines_); }

 private:
  std::string section_;
  std::vector<GeneratedLine> lines_;
};

/// "*" for all, "n3" for one, "{n[1-2],n5}" for several hosts.
std::string target_of(const std::vector<std::string>& hosts, size_t all) {
  if (hosts.size() == all) return "*";
  return hosts.size() == 1 ? hosts[0] : "{" + compress_hostlist(hosts) + "}";
}

struct Mounted {
  std::string source, point, type;
  bool read_only = false;
};

/// The visible mounts: the last of several mounts on one point hides the others.
std::vector<Mounted> visible_mounts(const Machine& machine) {
  std::vector<Mounted> mounts;
  const std::string text = machine.read("/proc/mounts").value_or("");
  for (std::string_view line : split_lines(text)) {
    std::istringstream fields{std::string(line)};
    Mounted mount;
    std::string options;
    if (!(fields >> mount.source >> mount.point >> mount.type >> options)) continue;
    mount.read_only = ("," + options + ",").find(",ro,") != std::string::npos;
    const auto hidden = std::ranges::find(mounts, mount.point, &Mounted::point);
    if (hidden == mounts.end()) {
      mounts.push_back(std::move(mount));
    } else {
      *hidden = std::move(mount);
    }
  }
  return mounts;
}

void write_mounts(Writer& out, const Machine& machine) {
  static const std::set<std::string> kKernelTypes = {"overlay", "squashfs", "autofs", "nsfs", "cgroup",
                                                     "cgroup2", "bpf",      "ramfs",  "fuse", "tracefs"};
  static const std::set<std::string> kStorage = {"ext2", "ext3", "ext4",   "xfs",  "btrfs", "zfs",
                                                 "nfs",  "nfs4", "lustre", "vfat", "gpfs",  "beegfs"};
  out.section("File systems");
  std::vector<std::string> storage;
  for (const auto& [source, point, type, read_only] : visible_mounts(machine)) {
    const bool transient = point.find('\\') != std::string::npos || point.starts_with("/run/user") ||
                           point.starts_with("/var/lib") || point.starts_with("/snap");
    if (kKernelTypes.contains(type) || transient) continue;
    out.line("check_fs_mount_{} -t \"{}\" -s \"{}\" -f \"{}\"", read_only ? "ro" : "rw", type, source, point);
    if (kStorage.contains(type) || point == "/") storage.push_back(point);
  }
  for (const std::string& point : storage) {
    const auto space = machine.space(machine.root + point);
    if (!space || space->used_percent() > 90) continue;
    out.line("check_fs_used {} 90%", shell_quote(point));
    if (space->inodes > 0 && space->inodes_used_percent() < 98) out.line("check_fs_iused {} 98%", shell_quote(point));
  }
}

void write_hardware(Writer& out, const Machine& machine) {
  out.section("Hardware");
  std::set<std::string> sockets;
  std::set<std::string> cores;
  size_t threads = 0;
  std::string socket;
  const std::string info = machine.read("/proc/cpuinfo").value_or("");
  for (std::string_view line : split_lines(info)) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim_blanks(line.substr(0, colon));
    const std::string value(trim_blanks(line.substr(colon + 1)));
    if (key == "processor") ++threads;
    if (key == "physical id") sockets.insert(socket = value);
    if (key == "core id") cores.insert(socket + "/" + value);
  }
  out.line("check_hw_cpuinfo {} {} {}", std::max<size_t>(sockets.size(), 1), cores.empty() ? threads : cores.size(),
           threads);
  const std::string memory = machine.read("/proc/meminfo").value_or("");
  for (std::string_view line : split_lines(memory)) {
    std::istringstream fields{std::string(line)};
    std::string key, kb;
    fields >> key >> kb;
    if (key == "MemTotal:") out.line("check_hw_physmem {0}kB {0}kB 3%", kb);
    if (key == "SwapTotal:") out.line("check_hw_swap {0}kB {0}kB 3%", kb);
  }
  double load = 0;
  std::istringstream(machine.read("/proc/loadavg").value_or("0")) >> load;
  out.line("check_ps_loadavg {:.0f}", std::max(2.0 * static_cast<double>(threads), std::ceil(load) + 1));
}

void write_network(Writer& out, const Machine& machine) {
  out.section("Network");
  for (const std::string& device : machine.list("/sys/class/net")) {
    const bool transient = device.starts_with("veth") || device.starts_with("docker") || device.starts_with("br-") ||
                           device == "bonding_masters";
    if (!transient) out.line("check_hw_eth {}", shell_quote(device));
  }
  for (const std::string& device : machine.list("/sys/class/infiniband")) {
    const std::string ports = "/sys/class/infiniband/" + device + "/ports";
    for (const std::string& port : machine.list(ports)) {
      std::istringstream rate(machine.read(ports + "/" + port + "/rate").value_or(""));
      const std::string state = machine.read(ports + "/" + port + "/state").value_or("");
      double gbit = 0;
      if (rate >> gbit && state.find("ACTIVE") != std::string::npos) {
        out.line("check_hw_ib {} {}:{}", gbit, device, port);
      }
    }
  }
}

void write_gpus(Writer& out, const Machine& machine) {
  out.section("GPUs");
  if (!has_gpu(machine)) return;
  const GpuConditions found = gpu_conditions(machine);
  if (!found.problem.empty()) return;
  out.line("check_gpu_count {}", found.gpus.size());
  for (const char* check : {"check_nvsmi_healthmon", "check_gpu_persistence", "check_gpu_ecc", "check_gpu_pcie",
                            "check_gpu_clock_throttling", "check_gpu_xid", "check_nvlink_status"}) {
    out.line("{}", check);
  }
}

}  // namespace

std::vector<GeneratedLine> describe_node(const Machine& machine) {
  Writer out;
  write_mounts(out, machine);
  write_hardware(out, machine);
  write_network(out, machine);
  write_gpus(out, machine);
  return std::move(out).lines();
}

std::string generate_config(const std::vector<GeneratedNode>& nodes) {
  std::vector<std::string> sections;
  std::vector<std::pair<GeneratedLine, std::vector<std::string>>> merged;  // lines and the hosts that have them
  for (const GeneratedNode& node : nodes) {
    for (const GeneratedLine& line : node.lines) {
      if (std::ranges::find(sections, line.section) == sections.end()) sections.push_back(line.section);
      const auto known = std::ranges::find(merged, line, &decltype(merged)::value_type::first);
      if (known == merged.end()) {
        merged.emplace_back(line, std::vector<std::string>{node.host});
      } else if (known->second.back() != node.host) {
        known->second.push_back(node.host);
      }
    }
  }
  std::string text = fmt::format("# Written by `trireme health gen` from {}. Lines are TARGET || CHECK.\n",
                                 count_text(nodes.size(), "live node"));
  for (const std::string& section : sections) {
    text += fmt::format("\n# {}\n", section);
    for (const auto& [line, hosts] : merged) {
      if (line.section == section) text += fmt::format("{} || {}\n", target_of(hosts, nodes.size()), line.check);
    }
  }
  return text;
}

}  // namespace trireme::health
