#include "cloud/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace trireme::cloud {
namespace {

constexpr const char* kNode = "/usr/local/sbin/trireme-node";
constexpr std::chrono::hours kBuildTime{3};  // on two slow cores, including the compiler's packages

/// Shell commands that write a file atomically.
std::string writes(const std::string& path, const std::string& text, const char* mode) {
  return fmt::format(
      "mkdir -p {0}\ncat >{1}.new <<'TRIREME_END_OF_FILE'\n{2}TRIREME_END_OF_FILE\nchmod {3} {1}.new\nmv {1}.new {1}\n",
      std::filesystem::path(path).parent_path().string(), path, text, mode);
}

/// Logs what the node's script warns of.
void pass_on_warnings(const Node& node, const std::string& said) {
  constexpr std::string_view kWarning = "trireme-node: warning: ";
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kWarning)) log::warning("{}: {}", node.name, line.substr(kWarning.size()));
  }
}

/// Runs `work` on all nodes, or on all except the head; nodes that fail are removed from the cluster.
class Stages {
 public:
  explicit Stages(Cluster& cluster) : cluster_(cluster) {}

  void on_head(const std::string& what, const std::function<void(const Node&)>& work) {
    log::info("{}: {}", cluster_.nodes.front().name, what);
    work(cluster_.nodes.front());
  }
  void on_others(const std::string& what, const std::function<void(const Node&)>& work) {
    const std::vector<Node> others(cluster_.nodes.begin() + 1, cluster_.nodes.end());
    if (others.empty()) return;
    log::info("{}: {}", count_text(others.size(), "other node"), what);
    for (const auto& [name, problem] : for_each_node(others, work)) {
      log::warning("skipping {}: {}", name, problem);
      failures_[name] = problem;
      std::erase_if(cluster_.nodes, [&failed = name](const Node& node) { return node.name == failed; });
    }
  }
  void on_all(const std::string& what, const std::function<void(const Node&)>& work) {
    on_head(what, work);
    on_others(what, work);
  }
  Failures take() { return std::move(failures_); }

 private:
  Cluster& cluster_;
  Failures failures_;
};

/// Writes a file into the shared folder; returns its path there.
std::string bring_file(const Cluster& cluster, const Remote& remote, const std::string& name, const std::string& text) {
  const std::string folder = cluster.options.storage.path + "/.trireme", target = folder + "/" + name;
  remote.require_as_root(cluster.nodes.front(),
                         fmt::format("mkdir -p {0} && cat >{1}.new && mv {1}.new {1}", folder, shell_quote(target)),
                         text);
  return target;
}

/// The sources as .tar.gz; for a checkout its last commit.
std::string packed_source(const std::string& source) {
  if (source.ends_with(".tar.gz")) return read_text(source);
  ProcessRequest request;
  request.arguments = {"git", "-C", source, "archive", "--format=tar.gz", "--prefix=trireme/", "HEAD"};
  request.timeout = std::chrono::minutes(5);
  request.max_output = size_t{1} << 30;
  const ProcessResult packed = run_process(request);
  require(packed.exit_code == 0 && !packed.timed_out, ErrorKind::config, "software.source: `git archive` of {} {}: {}",
          source, describe_end(packed), packed.err);
  return packed.out;
}

/// The program's package in the shared folder, built there if only the sources are given; "-" if the nodes have the
/// program.
std::string bring_package(const Cluster& cluster, const Remote& remote, Stages& stages) {
  const std::string file = expand_home(cluster.options.software.package),
                    source = expand_home(cluster.options.software.source);
  if (!file.empty()) {
    return bring_file(cluster, remote, std::filesystem::path(file).filename().string(), read_text(file));
  }
  if (source.empty()) return "-";
  std::string package;
  stages.on_head("building Trireme from its sources, unless already built", [&](const Node& head) {
    const std::string archive = bring_file(cluster, remote, "source.tar.gz", packed_source(source));
    package = remote.require_as_root(head, fmt::format("{} build {}", kNode, shell_quote(archive)), "", kBuildTime);
  });
  while (package.ends_with('\n')) package.pop_back();
  return package;
}

/// The kind of the package, on which the nodes' files depend; checked before anything is changed.
std::string package_kind(const Cluster& cluster) {
  return cluster.options.software.package.ends_with(".tar.gz") ? "tar.gz" : "other";
}

std::string known_hosts_lines(const Cluster& cluster, const Remote& remote) {
  std::string lines;
  for (const Node& node : cluster.nodes) {
    const std::vector<std::string> keys = remote.host_keys(node);
    require(!keys.empty(), ErrorKind::io, "{}: the host key of {} is unknown here; log in to it once with ssh",
            node.name, node.login);
    for (const std::string& key : keys) lines += fmt::format("{},{} {}\n", node.name, node.address, key);
  }
  return lines;
}

void set_up_slurm(Cluster& cluster, const Remote& remote, Stages& stages) {
  std::map<std::string, SlurmHardware> seen;
  std::mutex guard;
  stages.on_all("Slurm's packages", [&](const Node& node) {
    const SlurmHardware hardware =
        parse_slurm_hardware(remote.require_as_root(node, fmt::format("{} slurm-hardware", kNode)));
    const std::lock_guard lock(guard);
    seen[node.name] = hardware;
  });
  std::vector<SlurmHardware> hardware;
  for (const Node& node : cluster.nodes) {
    hardware.push_back(seen.at(node.name));
    if (!hardware.back().cgroups) {
      log::warning(
          "{} has neither systemd nor control groups of version 1 that can be changed: Slurm cannot confine jobs to "
          "their cores and memory on any node",
          node.name);
    }
  }
  const std::string key = remote.require_as_root(cluster.nodes.front(), fmt::format("{} munge-key", kNode));
  const std::string input = key + slurm_conf(cluster, hardware);
  stages.on_all("Slurm",
                [&](const Node& node) { remote.require_as_root(node, fmt::format("{} slurm", kNode), input); });
}

}  // namespace

std::string hostfile_path(const Cluster& cluster) { return cluster.options.storage.path + "/hosts"; }

std::string hostfile(const Cluster& cluster) {
  std::string text;
  for (const Node& node : cluster.nodes) text += node.name + "\n";
  return text;
}

Failures set_up(Cluster& cluster, const Remote& remote, const SharedFolder& shared, const End& end) {
  Stages stages(cluster);
  const Cluster whole = cluster;  // names of nodes that fail later are harmless in the files
  stages.on_all("names, packages, shared folder", [&](const Node& node) {
    remote.run(node, "! command -v cloud-init >/dev/null || cloud-init status --wait >/dev/null");
    const std::string files = writes("/etc/trireme/node.env", node_environment(whole, &node, shared, end), "644") +
                              writes(kNode, node_setup_script(), "755");
    const std::string said = remote.require_as_root(
        node, "sh -s", "set -eu\numask 022\n" + files + kNode + " boot " + package_kind(whole) + "\n");
    pass_on_warnings(node, said);
  });
  std::string trusted;
  stages.on_head("the nodes' key",
                 [&](const Node& head) { trusted = remote.require_as_root(head, fmt::format("{} head-key", kNode)); });
  trusted += known_hosts_lines(cluster, remote);
  stages.on_all("keys of the nodes",
                [&](const Node& node) { remote.require_as_root(node, fmt::format("{} trust", kNode), trusted); });
  const std::string package = bring_package(cluster, remote, stages);
  stages.on_all("Trireme and the node checks", [&](const Node& node) {
    pass_on_warnings(node, remote.require_as_root(
                               node, fmt::format("{0} install {1} && {0} set-health", kNode, shell_quote(package))));
  });
  if (cluster.options.cluster.scheduler == SchedulerChoice::slurm) set_up_slurm(cluster, remote, stages);
  remote.require_as_root(cluster.nodes.front(), fmt::format("{} hostfile", kNode), hostfile(cluster));
  return stages.take();
}

bool prove(const Cluster& cluster, const Remote& remote) {
  const std::string hosts = hostfile_path(cluster);
  bool well = true;
  std::vector<std::string> commands = {
      fmt::format("trireme hosts -f {}", hosts), fmt::format("trireme health -f {} -c /etc/trireme/nhc.conf", hosts),
      fmt::format("trireme launch -f {} --ppn 1 -- bench comm all_reduce -b 8 -e 4M -f 8 -n 5", hosts)};
  if (cluster.options.cluster.scheduler == SchedulerChoice::slurm) {
    commands.push_back(fmt::format("srun -N {} -t 5 --mpi=pmix trireme bench comm all_reduce -b 8 -e 4M -f 8 -n 5",
                                   cluster.nodes.size()));
  }
  for (const std::string& command : commands) {
    fmt::print("$ {}\n", command);
    const ProcessResult result = remote.run(cluster.nodes.front(), command, "", std::chrono::minutes(10));
    fmt::print("{}{}", result.out, result.err);
    if (result.exit_code == 0 && !result.timed_out) continue;
    log::error("`{}` {}", command, describe_end(result));
    well = false;
  }
  return well;
}

}  // namespace trireme::cloud
