#include "cloud/lifecycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cloud/node_types.h"
#include "cloud/provider.h"
#include "cloud/setup.h"
#include "cloud/state.h"
#include "cloud/validate.h"

namespace trireme::cloud {
namespace {

/// A cluster's file with its known state.
struct Opened {
  ClusterOptions options;
  StateFolder folder;
  std::unique_ptr<Provider> provider;
  State state;
  bool take_over = false;

  Opened(const std::string& file, bool writes)
      : options(read_options(file)), folder(file), provider(provider_of(options.cluster.provider)) {
    require(options.cluster.scheduler != SchedulerChoice::cyclecloud, ErrorKind::config,
            "{}: cluster.scheduler is cyclecloud, so a CycleCloud server creates and deletes the machines; `trireme "
            "cluster plan` writes its project and commands.sh, which uploads it",
            file);
    if (writes) folder.lock();
    state = folder.read();
  }

  Cluster cluster() const {
    Cluster whole = state.numbers.empty() ? lay_out(options) : lay_out(options, state.numbers, state.first);
    whole.pins = state.pins;
    whole.take_over = take_over;
    require(state.run.empty() || state.run == whole.run, ErrorKind::config,
            "{}: the cluster was created with another cluster.name or access.key, which identify its machines; restore "
            "them",
            folder.path());
    return whole;
  }
  void require_created(const std::string& file) const {
    require(!state.run.empty(), ErrorKind::config,
            "{}: the cluster does not exist yet; create it with `trireme cluster create {}`", file, file);
  }
  std::string plan_folder() const { return folder.path() + "/plan/"; }
  Remote remote(const Cluster& cluster) const {
    return {cluster, provider->keeps_machines() ? "" : folder.known_hosts()};
  }
};

void write_plan(const Opened& opened, Cluster& cluster) {
  if (!opened.provider->keeps_machines() && cluster.sources.empty()) cluster.sources = {public_address()};
  write_files(opened.provider->plan(cluster), opened.plan_folder());
}

/// Finds the address of every existing node. A node without a public address gets its private one after the head's
/// address is known, through which it is reached.
void find_logins(const Opened& opened, Cluster& cluster) {
  const std::vector<Machine> machines = opened.provider->machines(cluster);
  const auto head = std::ranges::find(machines, opened.cluster().nodes.front().name, &Machine::node);
  for (const Machine& machine : machines) {
    for (Node& node : cluster.nodes) {
      if (node.name != machine.node) continue;
      node.login = machine.login;
      node.machine = machine.identity;
      const bool jumps = node.login.empty() && !has_public_address(opened.options, node);
      if (!jumps || head == machines.end() || head->login.empty()) continue;
      node.jump = head->login;
      node.login = node.address;
    }
  }
}

/// The lines of known_hosts without those of the node, and whether one of these was pinned for its current machine,
/// which is named at the end of a line. Another machine, according to the provider, legitimately has other keys.
std::pair<std::string, bool> other_pins(const std::string& known_hosts, const Node& node) {
  std::istringstream lines(known_hosts);
  std::string others;
  bool pinned = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(node.login + " ")) {
      others += line + "\n";
    } else if (node.machine.empty() || line.ends_with(" " + node.machine)) {
      pinned = true;
    }
  }
  return {others, pinned};
}

/// Pins the host keys of a node's machine, once: later ones must be the same.
void pin_host_keys(const Opened& opened, const Cluster& cluster, const Node& node, std::mutex& guard) {
  if (opened.provider->keeps_machines()) return;
  require(!node.login.empty(), ErrorKind::io, "it has no address yet");
  const std::string path = opened.folder.known_hosts();
  const auto pins = [&] { return other_pins(std::filesystem::exists(path) ? read_text(path) : "", node); };
  {
    const std::lock_guard lock(guard);
    if (pins().second) return;
  }
  const auto keys = opened.provider->host_keys(cluster, node);
  require(keys && !keys->empty(), ErrorKind::io, "the provider does not report its host keys yet");
  const std::lock_guard lock(guard);
  std::string text = pins().first;
  for (const std::string& key : *keys) text += fmt::format("{} {} {}\n", node.login, key, node.machine);
  write_text(path, text);
}

/// Logs a line for each missing node; returns whether there are any.
bool tell_missing(const Failures& missing) {
  for (const auto& [name, problem] : missing) log::warning("{} is not part of the cluster: {}", name, problem);
  return !missing.empty();
}

/// Pin of network.public-addresses: another choice would recreate the machines.
constexpr const char* kAddresses = "public-addresses";

std::string addresses_asked(const ClusterOptions& options) {
  return options.network.public_addresses == PublicAddresses::head ? "head" : "all";
}

void require_same_addresses(const Opened& opened) {
  if (opened.provider->keeps_machines()) return;
  const auto pinned = opened.state.pins.find(kAddresses);
  const std::string before = pinned == opened.state.pins.end() ? "all" : pinned->second;
  require(
      before == addresses_asked(opened.options), ErrorKind::config,
      "network.public-addresses is {0}, but was {1} when the cluster was created; set it to {1} in the cluster's file, "
      "or delete the cluster first",
      addresses_asked(opened.options), before);
}

/// Brings the machines from the current to the requested state.
int converge(Opened& opened, const std::string& file) {
  if (opened.state.pins.empty()) {
    opened.state.pins = opened.provider->pins(opened.cluster());
    if (!opened.provider->keeps_machines()) opened.state.pins[kAddresses] = addresses_asked(opened.options);
    opened.folder.write(opened.state);
  }
  require_same_addresses(opened);
  const auto requested_image = opened.state.pins.find("asked-image");
  if (requested_image != opened.state.pins.end() && requested_image->second != opened.options.node.image) {
    log::warning(
        "node.image is \"{}\" now, but was \"{}\" when the cluster was created; all its machines keep the old image",
        opened.options.node.image, requested_image->second);
  }
  Cluster cluster = opened.cluster();
  const size_t wanted = cluster.nodes.size();
  write_plan(opened, cluster);
  Failures missing;
  for (const auto& [name, problem] : opened.provider->make(cluster, opened.plan_folder())) missing[name] = problem;
  std::erase_if(cluster.nodes, [&](const Node& node) { return missing.contains(node.name); });
  const std::string head_name = opened.cluster().nodes.front().name;
  if (const auto head = missing.find(head_name); head != missing.end()) {
    fail(ErrorKind::io, "cannot create the head: {}; run `trireme cluster create {}` to continue", head->second, file);
  }

  const Remote remote = opened.remote(cluster);
  std::mutex guard, asking;
  const Cluster asked = cluster;
  Node head_node = asked.nodes.front();  // under `asking`
  // sshd of a new machine may answer before the key is installed.
  const Patience patience{opened.options.node.wait_minutes * 60, opened.provider->keeps_machines() ? 0.0 : 60.0};
  const Failures unreached = wait_for_nodes(remote, cluster.nodes, patience, [&](Node& node) {
    Node behind;
    {
      const std::lock_guard lock(asking);
      if (node.login.empty()) {
        Cluster own = asked;
        own.nodes = {head_node, node};
        find_logins(opened, own);
        head_node = own.nodes.front();
        node = own.nodes.back();
      }
      behind = head_node;
    }
    // ssh reaches a node behind the head through it: both keys are needed, whichever thread is first.
    if (!node.jump.empty()) pin_host_keys(opened, asked, behind, guard);
    pin_host_keys(opened, asked, node, guard);
  });
  missing.insert(unreached.begin(), unreached.end());
  if (const auto head = unreached.find(head_name); head != unreached.end()) {
    fail(ErrorKind::io, "cannot reach the head: {}; run `trireme cluster create {}` to continue", head->second, file);
  }
  std::erase_if(cluster.nodes, [&](const Node& node) { return unreached.contains(node.name); });

  missing.merge(set_up(cluster, remote, opened.provider->shared_folder(cluster), opened.provider->end(cluster)));
  const bool proved = prove(cluster, remote);
  const bool lacks = tell_missing(missing);
  fmt::print("{} of {} {} up; log in with `trireme cluster ssh {}`; the hostfile is {}\n", cluster.nodes.size(),
             count_text(wanted, "node"), wanted == 1 ? "is" : "are", file, hostfile_path(cluster));
  return proved && !lacks ? 0 : 1;
}

void require_yes(const Confirm& confirm, const std::string& question) {
  require(confirm(question), ErrorKind::usage, "nothing was done; --yes skips the question");
}

/// Removes the cluster's files from machines that remain.
void take_off(const Remote& remote, const Node& node) {
  remote.require_as_root(node, "[ ! -e /usr/local/sbin/trireme-node ] || /usr/local/sbin/trireme-node leave");
}

/// "h4 | Healthy (at its last boot or setup, 2026-11-25 19:58 UTC, 12 min ago)" from the line, its time and the node's
/// current time. A failure since then is not shown.
std::string describe_health(const std::string& said) {
  std::istringstream lines(said);
  std::string line;
  std::time_t looked = 0, now = 0;
  std::getline(lines, line);
  if (!(lines >> looked >> now)) return line + " (at its last boot or setup)";
  std::tm utc{};
  gmtime_r(&looked, &utc);
  std::array<char, 32> when{};
  std::strftime(when.data(), when.size(), "%Y-%m-%d %H:%M UTC", &utc);
  const auto minutes = std::max<std::time_t>(now - looked, 0) / 60;
  const std::string age = minutes < 120    ? fmt::format("{} min", minutes)
                          : minutes < 2880 ? fmt::format("{} h", minutes / 60)
                                           : fmt::format("{} days", minutes / 1440);
  return fmt::format("{} (at its last boot or setup, {}, {} ago)", line, when.data(), age);
}

/// Possible reasons why a machine is gone.
const char* why_gone(const ClusterOptions& options, const Node& node) {
  if (options.node.spot && !node.is_head()) return "; the provider reclaims spot machines when it needs them";
  return options.cluster.lifetime_hours > 0 ? "; cluster.lifetime-hours may have ended it" : "";
}

}  // namespace

int create(const std::string& file, const Confirm& confirm, bool take_over) {
  Opened opened(file, true);
  require(!take_over || opened.provider->keeps_machines(), ErrorKind::usage,
          "--take-over is only for existing machines (cluster.provider hosts); those of {} are new",
          name_of(opened.options.cluster.provider));
  opened.take_over = take_over;
  require_software_for_new(opened.options);
  const Cluster cluster = opened.cluster();
  opened.provider->check(cluster);
  require_yes(confirm,
              fmt::format("{}\ncreate the cluster {}?",
                          describe_cost(opened.options, static_cast<int64_t>(cluster.nodes.size())), cluster.name()));
  if (opened.state.numbers.empty()) {
    opened.state = {cluster.run, static_cast<int>(cluster.nodes.size()), {}, {}};
    for (const Node& node : cluster.nodes) opened.state.numbers.push_back(node.index);
    opened.folder.write(opened.state);
  }
  return converge(opened, file);
}

int add_nodes(const std::string& file, int count, const Confirm& confirm) {
  Opened opened(file, true);
  opened.require_created(file);
  require_software(opened.options);
  State wanted = opened.state;
  for (int number = 1; count > 0; ++number) {
    if (std::ranges::find(opened.state.numbers, number) != opened.state.numbers.end()) continue;
    wanted.numbers.push_back(number);
    --count;
  }
  std::ranges::sort(wanted.numbers);
  const Cluster cluster = lay_out(opened.options, wanted.numbers, wanted.first);
  opened.provider->check(cluster);
  require_yes(confirm, fmt::format("{}\nextend the cluster to this size?",
                                   describe_cost(opened.options, static_cast<int64_t>(wanted.numbers.size()))));
  opened.state = wanted;
  opened.folder.write(wanted);
  return converge(opened, file);
}

int remove_nodes(const std::string& file, const std::vector<std::string>& names, const Confirm& confirm) {
  Opened opened(file, true);
  opened.require_created(file);
  const Cluster before = opened.cluster();
  std::vector<Node> leaving;
  for (const std::string& name : names) {
    const auto node = std::ranges::find(before.nodes, name, &Node::name);
    require(node != before.nodes.end(), ErrorKind::usage, "the cluster has no node {}; it has {} to {}", name,
            before.nodes.front().name, before.nodes.back().name);
    require(!node->is_head(), ErrorKind::usage,
            "{} is the head, which has the shared folder; delete the whole cluster with `trireme cluster delete {}`",
            name, file);
    leaving.push_back(*node);
  }
  require_yes(confirm, fmt::format("remove {} from {}?", count_text(leaving.size(), "node"), before.name()));
  for (const Node& node : leaving) {
    if (opened.provider->keeps_machines()) take_off(opened.remote(before), node);
    std::erase(opened.state.numbers, node.index);
    Cluster after = opened.cluster();
    write_plan(opened, after);
    opened.provider->remove(after, node, opened.plan_folder());
    opened.folder.write(opened.state);
  }
  return converge(opened, file);
}

int destroy(const std::string& file, const Confirm& confirm) {
  Opened opened(file, true);
  const Cluster cluster = opened.cluster();
  const bool keeps = opened.provider->keeps_machines();
  if (keeps) opened.require_created(file);
  require_yes(confirm, keeps ? fmt::format("remove the cluster {} from its machines, which stay?", cluster.name())
                             : fmt::format("delete the cluster {} and its disks?", cluster.name()));
  if (keeps) {
    const Remote remote = opened.remote(cluster);
    const Failures failures = for_each_node(cluster.nodes, [&](const Node& node) { take_off(remote, node); });
    for (const auto& [name, problem] : failures) log::error("{}: cannot remove the cluster's files: {}", name, problem);
    if (!failures.empty()) return 1;
  }
  for (const std::string& remains : opened.provider->destroy(cluster)) log::warning("{}", remains);
  opened.folder.forget();
  fmt::print("deleted the cluster {}\n", cluster.name());
  return 0;
}

int status(const std::string& file) {
  const Opened opened(file, false);
  opened.require_created(file);
  Cluster cluster = opened.cluster();
  const std::vector<Machine> machines = opened.provider->machines(cluster);
  find_logins(opened, cluster);
  const Remote remote = opened.remote(cluster);
  std::mutex guard;
  std::map<std::string, std::string> health;
  const Failures failures = for_each_node(cluster.nodes, [&](const Node& node) {
    const auto there = std::ranges::find(machines, node.name, &Machine::node);
    require(there != machines.end(), ErrorKind::io, "its machine does not exist{}", why_gone(opened.options, node));
    require(!node.login.empty(), ErrorKind::io, "it has no address");
    const std::string said =
        remote.require_as_user(node, "tail -n 1 /etc/trireme/health; stat -c %Y /etc/trireme/health; date +%s");
    const std::lock_guard lock(guard);
    health[node.name] = describe_health(said);
  });
  fmt::print("{:<24} {:<16} {:<16} {}\n", "node", "address", "machine", "health");
  for (const Node& node : cluster.nodes) {
    const auto there = std::ranges::find(machines, node.name, &Machine::node);
    const auto failed = failures.find(node.name);
    fmt::print("{:<24} {:<16} {:<16} {}\n", node.name, node.login.empty() ? "-" : node.login,
               there == machines.end() ? "missing" : there->state,
               failed != failures.end() ? "ERROR: " + failed->second : health[node.name]);
  }
  fmt::print("{}\n", describe_cost(opened.options, static_cast<int64_t>(machines.size())));
  return failures.empty() ? 0 : 1;
}

std::vector<std::string> ssh_to(const std::string& file, const std::string& name) {
  const Opened opened(file, false);
  opened.require_created(file);
  Cluster cluster = opened.cluster();
  find_logins(opened, cluster);
  const auto node = name.empty() ? cluster.nodes.begin() : std::ranges::find(cluster.nodes, name, &Node::name);
  require(node != cluster.nodes.end(), ErrorKind::usage, "the cluster has no node {}; it has {} to {}", name,
          cluster.nodes.front().name, cluster.nodes.back().name);
  require(!node->login.empty(), ErrorKind::io, "{} has no address; check it with `trireme cluster status {}`",
          node->name, file);
  return opened.remote(cluster).ssh_words(*node);
}

int run_on_all(const std::string& file, const std::string& command) {
  const Opened opened(file, false);
  opened.require_created(file);
  Cluster cluster = opened.cluster();
  find_logins(opened, cluster);
  const Remote remote = opened.remote(cluster);
  std::mutex mutex;
  std::map<std::string, std::string> said;
  bool failed = false;
  const Failures unreached = for_each_node(cluster.nodes, [&](const Node& node) {
    require(!node.login.empty(), ErrorKind::io, "no address; check it with `trireme cluster status {}`", file);
    const RemoteResult result = remote.run(node, command);
    std::string text = result.out + result.err;
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    const std::lock_guard lock(mutex);
    const bool good = result.exit_code == 0 && !result.timed_out;
    failed = failed || !good;
    said[node.name] = text + (good ? "" : fmt::format("({})\n", describe_end(result)));
  });
  std::vector<std::pair<std::string, std::string>> answers;
  for (const Node& node : cluster.nodes) {
    const auto lost = unreached.find(node.name);
    answers.emplace_back(node.name,
                         lost != unreached.end() ? "(not reached: " + lost->second + ")\n" : said[node.name]);
  }
  fmt::print("{}", folded(answers));
  return failed || !unreached.empty() ? 1 : 0;
}

std::string nodes_as_hostfile(const std::string& file) {
  const Opened opened(file, false);
  opened.require_created(file);
  return hostfile(opened.cluster());
}

std::string nodes_as_ssh_config(const std::string& file) {
  const Opened opened(file, false);
  opened.require_created(file);
  Cluster cluster = opened.cluster();
  find_logins(opened, cluster);
  std::string text;
  for (const Node& node : cluster.nodes) {
    if (node.login.empty()) {  // "HostName" without a value would invalidate all of ~/.ssh/config
      log::warning("skipped {}, which has no address; check it with `trireme cluster status {}`", node.name, file);
      continue;
    }
    text += fmt::format("Host {}\n  HostName {}\n  User {}\n  StrictHostKeyChecking yes\n", node.name, node.login,
                        opened.options.access.user);
    if (!node.jump.empty()) text += fmt::format("  ProxyJump {}\n", cluster.nodes.front().name);
    if (!opened.provider->keeps_machines())
      text += fmt::format("  UserKnownHostsFile {}\n", std::filesystem::absolute(opened.folder.known_hosts()).string());
  }
  return text;
}

}  // namespace trireme::cloud
