// trireme device: the GPUs of this node, or of every node of a host list, and what keeps them from being used.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/host.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cluster/host_flags.h"
#include "cli/command.h"
#include "cluster/launch/node_gpus.h"
#include "cluster/launch/node_session.h"
#include "ops/gpu_library.h"
#include "ops/gpu_node.h"

namespace trireme {
namespace {

struct Node {
  std::string host;
  NodeGpus gpus = {};
  UsableGpu usable = {};
  std::string no_answer = {};  ///< why the node did not say

  void take(launch::HostGpus&& answer) {
    gpus = std::move(answer.gpus);
    usable = std::move(answer.usable);
  }
};

/// "NCCL 2.28.9", or why the GPUs of several ranks are not connected.
std::string network_text(const UsableGpu& usable) {
  return usable.network.empty() ? "nothing: " + usable.why_no_network : usable.network;
}

std::string version_text(int cuda) { return fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10); }

std::string gpu_line(const NodeGpu& gpu) {
  if (!gpu.fault.empty()) return fmt::format("{}{}", gpu.bus.empty() ? "" : gpu.bus + ", ", gpu.fault);
  std::string text = fmt::format("{}, compute capability {}.{}, {}, {} free, {}", gpu.name, gpu.major, gpu.minor,
                                 human_bytes(gpu.memory_bytes), human_bytes(gpu.free_bytes), gpu.bus);
  if (gpu.numa_node) text += fmt::format(", NUMA node {}", *gpu.numa_node);
  if (gpu.pcie_generation && gpu.pcie_width)
    text += fmt::format(", PCIe {} x{}", *gpu.pcie_generation, *gpu.pcie_width);
  return text;
}

/// "busy 0 %, 34 C, 71 of 700 W, no uncorrected memory errors"
std::string state_line(const NodeGpu& gpu) {
  std::vector<std::string> parts;
  if (gpu.busy_percent) parts.push_back(fmt::format("busy {} %", *gpu.busy_percent));
  if (gpu.celsius) parts.push_back(fmt::format("{} C", *gpu.celsius));
  if (gpu.watts)
    parts.push_back(gpu.most_watts ? fmt::format("{:.0f} of {:.0f} W", *gpu.watts, *gpu.most_watts)
                                   : fmt::format("{:.0f} W", *gpu.watts));
  parts.push_back(gpu.uncorrected_errors
                      ? fmt::format("{} uncorrected by ECC", count_text(*gpu.uncorrected_errors, "memory error"))
                      : "no ECC");
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_links(const NodeGpus& node) {
  if (node.gpus.size() < 2) return;
  fmt::print("{:<11}", "links");
  for (size_t j = 0; j < node.gpus.size(); ++j) fmt::print("{:>6}", fmt::format("GPU{}", j));
  fmt::print("\n");
  for (size_t i = 0; i < node.gpus.size(); ++i) {
    fmt::print("  {:<9}", fmt::format("GPU{}", i));
    for (const std::string& link : node.links[i]) fmt::print("{:>6}", link.empty() ? "-" : link);
    fmt::print("\n");
  }
}

void print_node(const Node& node) {
  const NodeGpus& gpus = node.gpus;
  if (!gpus.driver.empty()) fmt::print("driver     {}, CUDA up to {}\n", gpus.driver, version_text(gpus.cuda));
  for (size_t i = 0; i < gpus.gpus.size(); ++i) {
    const NodeGpu& gpu = gpus.gpus[i];
    fmt::print("{:<11}{}\n", fmt::format("GPU {}", i), gpu_line(gpu));
    if (gpu.fault.empty()) fmt::print("{:<11}{}\n", "", state_line(gpu));
  }
  print_links(gpus);
  for (const std::string& complaint : complaints_of(gpus)) fmt::print("warning    {}\n", complaint);
  if (!gpus.why_none.empty()) fmt::print("no GPU     {}\n", gpus.why_none);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr && !gpus.gpus.empty())
    fmt::print("visible    CUDA_VISIBLE_DEVICES is \"{}\": programs see only these\n", visible);
  if (gpus.gpus.empty() && node.usable.hardware.empty()) return;
  fmt::print("usable     {}\n", node.usable.hardware.empty() ? "none: " + node.usable.why_none : node.usable.hardware);
  if (!node.usable.hardware.empty()) fmt::print("connected  by {}\n", network_text(node.usable));
}

Json document_of(const Node& node) {
  if (!node.no_answer.empty()) return {{"host", node.host}, {"no_answer", node.no_answer}};
  Json document = to_json(node.gpus);
  document["host"] = node.host;
  document["usable"] = node.usable.hardware;
  if (!node.usable.why_none.empty()) document["why_not_usable"] = node.usable.why_none;
  if (!node.usable.network.empty()) document["network"] = node.usable.network;
  if (!node.usable.why_no_network.empty()) document["why_no_network"] = node.usable.why_no_network;
  document["warnings"] = complaints_of(node.gpus);
  return document;
}

/// One line of a node among several.
void print_summary(const Node& node) {
  if (!node.no_answer.empty()) return fmt::print("{}: no answer: {}\n", node.host, node.no_answer);
  const NodeGpus& gpus = node.gpus;
  const std::vector<std::string> complaints = complaints_of(gpus);
  if (gpus.gpus.empty() && !node.usable.hardware.empty()) {
    fmt::print("{}: usable: {}; no details: {}\n", node.host, node.usable.hardware, gpus.why_none);
  } else if (gpus.gpus.empty()) {
    fmt::print("{}: no GPU: {}\n", node.host, gpus.why_none);
  } else {
    const NodeGpu& first = gpus.gpus[0];
    fmt::print("{}: {} x {}, {}, driver {}; {}\n", node.host, gpus.gpus.size(), first.name,
               human_bytes(first.memory_bytes), gpus.driver,
               node.usable.hardware.empty() ? "none is usable: " + node.usable.why_none : "usable");
  }
  for (const std::string& complaint : complaints) fmt::print("{}: warning: {}\n", node.host, complaint);
}

/// What differs between nodes that have GPUs and must not, for one job.
std::vector<std::string> differences(const std::vector<Node>& nodes) {
  std::vector<std::string> found;
  const Node* first = nullptr;
  for (const Node& node : nodes) {
    if (!node.no_answer.empty() || node.gpus.gpus.empty()) continue;
    if (first == nullptr) {
      first = &node;
      continue;
    }
    auto ours = shared_facts_of(first->gpus), theirs = shared_facts_of(node.gpus);
    ours.emplace_back("NCCL", first->usable.network);
    theirs.emplace_back("NCCL", node.usable.network);
    for (size_t i = 0; i < ours.size(); ++i) {
      if (ours[i].second != theirs[i].second)
        found.push_back(fmt::format("{}: {} {}, but {} has {}", node.host, theirs[i].first, theirs[i].second,
                                    first->host, ours[i].second));
    }
  }
  return found;
}

std::vector<Node> ask_nodes(const HostSet& hosts, const launch::RemoteOptions& remote) {
  const std::vector<std::string> names = names_of(hosts);
  launch::NodeSessions sessions(names, std::filesystem::read_symlink("/proc/self/exe"), remote);
  const std::vector<Json> answers = sessions.ask_all({{"do", "gpus"}}, 60);
  std::vector<Node> nodes;
  for (size_t i = 0; i < names.size(); ++i) {
    Node node{.host = names[i]};
    if (answers[i].is_null()) {
      node.no_answer = sessions.why_no_answer(names[i]);
    } else {
      node.take(launch::host_gpus_from_json(answers[i]));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

bool is_usable(const Node& node) {
  return node.no_answer.empty() && !node.usable.hardware.empty() && obstacles_of(node.gpus).empty();
}

}  // namespace

int run_device(CommandLine line) {
  Flags app(std::move(line), "trireme device",
            "Shows the GPUs of this node, or of the nodes of a host list, and what keeps them from use");
  app.add_command("check", run_device_check);
  require(app.words().empty() || app.words()[0].starts_with("-") || app.words()[0] == "check", ErrorKind::usage,
          "trireme device: \"{}\" is not an action, the only one is check; name nodes with -f or --hosts",
          app.words().empty() ? "" : app.words()[0]);
  HostRequest request;
  launch::RemoteOptions remote;
  bool json = false;
  app.add_switch("-J,--json", json, "print JSON; for several nodes, an array");
  add_host_flags(app, request);
  add_remote_flags(app, remote);
  app.set_footer(
      "GPUs, memory, links and errors are what NVIDIA's driver reports; the last line is what this program can train "
      "on.\n"
      "Links: NV18: 18 NVLinks; PIX, PXB, PHB: through one PCIe switch, several, the host bridge; NODE, SYS: through "
      "the\n"
      "memory of one or two processors. Exit code 1 where a node has no GPU that this program can use, or one that it "
      "cannot.\n"
      "`trireme device check` checks that a GPU computes what the CPU computes; `trireme device check --help`.");
  if (const auto code = app.parse()) return *code;
  require_sinfo(app, request);
  complete_remote_options(app, remote);
  if (!names_hosts(request)) {
    require_no_host_selection(request, remote);
    Node node{.host = host_name()};
    node.take(launch::read_host_gpus());
    if (json)
      fmt::print("{}\n", dump_json(document_of(node), 2));
    else
      print_node(node);
    return is_usable(node) ? 0 : 1;
  }
  const HostSet set = resolve_hosts(request, environment_variable);
  remote.ports = launch::remote_ports(set.hosts);
  const std::vector<Node> nodes = ask_nodes(set, remote);
  const std::vector<std::string> unequal = differences(nodes);
  if (json) {
    Json document = Json::array();
    for (const Node& node : nodes) document.push_back(document_of(node));
    fmt::print("{}\n", dump_json(document, 2));
  } else {
    for (const Node& node : nodes) print_summary(node);
    for (const std::string& difference : unequal) fmt::print("warning: {}\n", difference);
  }
  return std::ranges::all_of(nodes, is_usable) && unequal.empty() ? 0 : 1;
}

}  // namespace trireme
