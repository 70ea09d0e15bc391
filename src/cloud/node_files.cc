#include "cloud/node_files.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <sstream>

#include "cloud/node_types.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {
namespace {

std::string names_and_addresses(const std::vector<Node>& nodes) {
  std::string text;
  for (const Node& node : nodes) text += (text.empty() ? "" : " ") + node.name + "=" + node.address;
  return text;
}

}  // namespace

std::string indented(const std::string& text, size_t blanks) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    result += (line.empty() ? "" : std::string(blanks, ' ') + line) + "\n";
  }
  return result;
}

std::string node_environment(const Cluster& cluster, const Node* node, const SharedFolder& shared, const End& end) {
  const ClusterOptions& options = cluster.options;
  const bool made = options.cluster.provider != ProviderChoice::hosts;
  const double minutes = options.cluster.lifetime_hours * 60;
  std::string text;
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"CLUSTER", cluster.name()},
           {"RUN", cluster.run},
           {"NODE", node != nullptr ? node->name : ""},
           {"HEAD", cluster.nodes.front().name},
           {"NODES", names_and_addresses(node != nullptr ? cluster.nodes : cluster.first_nodes)},
           {"FIRST", made ? first_address(options) : ""},
           {"RENAME", made ? "yes" : "no"},
           {"USER", options.access.user},
           {"STORAGE", std::string(name_of(options.storage.kind))},
           {"STORAGE_PATH", options.storage.path},
           {"STORAGE_SOURCE", shared.source},
           {"STORAGE_OPTIONS", shared.options},
           {"SCHEDULER", options.cluster.scheduler == SchedulerChoice::slurm ? "slurm" : "none"},
           {"END", end.how},
           {"END_MINUTES", fmt::format("{:.0f}", std::ceil(minutes))}}) {
    text += fmt::format("TRIREME_{}={}\n", name, value.empty() ? "''" : shell_quote(value));
  }
  if (made && uses_fast_network(options)) text += "TRIREME_FABRIC=yes\n";
  if (made && has_gpus(options)) text += "TRIREME_GPUS=yes\n";
  if (cluster.take_over) text += "TRIREME_TAKE_OVER=yes\n";
  return text;
}

std::string cloud_init(const Cluster& cluster, const Node* node, const SharedFolder& shared, const End& end) {
  const std::string& user = cluster.options.access.user;
  const bool root = user == "root";
  const std::string rights = root ? ""
                                  : "    shell: /bin/bash\n"
                                    "    sudo: \"ALL=(ALL) NOPASSWD:ALL\"\n"
                                    "    lock_passwd: true\n";
  return fmt::format(
      "#cloud-config\n"
      "# {0} of the cluster {1}; made by `trireme cluster plan`.\n"
      "preserve_hostname: true\n"
      "manage_etc_hosts: false\n"
      "users:\n"
      "  - name: {2}\n"
      "{3}"
      "    ssh_authorized_keys:\n"
      "      - \"{4}\"\n"
      "ssh_pwauth: false\n"
      "disable_root: {5}\n"
      "write_files:\n"
      "  - path: /etc/trireme/node.env\n"
      "    permissions: \"0644\"\n"
      "    content: |\n"
      "{6}"
      "  - path: /usr/local/sbin/trireme-node\n"
      "    permissions: \"0755\"\n"
      "    content: |\n"
      "{7}"
      "runcmd:\n"
      "  - [/usr/local/sbin/trireme-node, boot]\n",
      node != nullptr ? node->name : "Every machine", cluster.name(), user, rights, cluster.public_key, !root,
      indented(node_environment(cluster, node, shared, end), 6), indented(node_setup_script(), 6));
}

std::string slurm_conf(const Cluster& cluster, const std::vector<SlurmHardware>& hardware) {
  assert(hardware.size() == cluster.nodes.size());
  std::string nodes;
  for (size_t i = 0; i < hardware.size(); ++i) {
    const Node& node = cluster.nodes[i];
    nodes += fmt::format("NodeName={} NodeHostname={} NodeAddr={} {} State=UNKNOWN\n", node.name, hardware[i].host_name,
                         node.address, hardware[i].line);
  }
  return fmt::format(
      "# Made by `trireme cluster`.\n"
      "ClusterName={0}\n"
      "SlurmctldHost={1}({2})\n"
      "SlurmUser=root\n"
      "SlurmdUser=root\n"
      "AuthType=auth/munge\n"
      "CredType=cred/munge\n"
      "StateSaveLocation=/var/spool/trireme/slurmctld\n"
      "SlurmdSpoolDir=/var/spool/trireme/slurmd\n"
      "ProctrackType=proctrack/linuxproc\n"
      "TaskPlugin=task/none\n"
      "JobAcctGatherType=jobacct_gather/none\n"
      "AccountingStorageType=accounting_storage/none\n"
      "SelectType=select/linear\n"
      "SlurmdParameters=config_overrides\n"
      "MpiDefault=pmix\n"
      "ReturnToService=2\n"
      "HealthCheckProgram=/etc/trireme/slurm-health\n"
      "HealthCheckInterval=600\n"
      "HealthCheckNodeState=IDLE\n"
      "Prolog=/etc/trireme/slurm-prolog\n"
      "PrologFlags=Alloc\n"
      "Epilog=/etc/trireme/slurm-epilog\n"
      "SchedulerParameters=nohold_on_prolog_fail\n"
      "{3}"
      "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
      cluster.name(), hardware.front().host_name, cluster.nodes.front().address, nodes);
}

}  // namespace trireme::cloud
