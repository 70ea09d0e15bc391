#include "cloud/node_files.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <zlib.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "cloud/node_types.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {
namespace {

std::string gzip(std::string_view text) {
  constexpr int kGzip = 15 + 16;
  z_stream stream{};
  require(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) == Z_OK, ErrorKind::io,
          "cannot start compression");
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int end = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  require(end == Z_STREAM_END, ErrorKind::io, "cannot compress {} bytes", text.size());
  return packed;
}

std::string names_and_addresses(const std::vector<Node>& nodes) {
  std::string text;
  for (const Node& node : nodes) text += (text.empty() ? "" : " ") + node.name + "=" + node.address;
  return text;
}

/// The number after a key in a line of slurm.conf; 0: it has none.
int64_t number_after(const std::string& line, const std::string& key) {
  const size_t at = (" " + line).find(" " + key);
  return at == std::string::npos ? 0 : std::strtoll(line.c_str() + at + key.size(), nullptr, 10);
}

}  // namespace

std::string packed_user_data(std::string_view text) {
  const std::string packed = gzip(text);
  std::string base64((packed.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock writes a zero behind it
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()),
                  reinterpret_cast<const unsigned char*>(packed.data()), static_cast<int>(packed.size()));
  base64.pop_back();
  return base64;
}

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
  if (options.cluster.accounting) text += "TRIREME_ACCOUNTING=yes\n";
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

SlurmHardware parse_slurm_hardware(const std::string& text) {
  SlurmHardware hardware;
  std::istringstream words(text);
  std::string cgroups;
  words >> hardware.host_name >> cgroups >> hardware.gpus >> std::ws;
  std::getline(words, hardware.line);
  require((cgroups == "yes" || cgroups == "no") && !hardware.line.empty(), ErrorKind::io,
          "cannot read the machine's hardware: slurmd -C printed \"{}\"", text);
  hardware.cgroups = cgroups == "yes";
  return hardware;
}

std::string slurm_conf(const Cluster& cluster, const std::vector<SlurmHardware>& hardware) {
  assert(hardware.size() == cluster.nodes.size());
  std::string nodes;
  bool cgroups = true, gpus = false;
  int64_t memory_per_cpu = 0;  // MiB
  for (size_t i = 0; i < hardware.size(); ++i) {
    const Node& node = cluster.nodes[i];
    const SlurmHardware& own = hardware[i];
    nodes += fmt::format("NodeName={} NodeHostname={} NodeAddr={} {}{} State=UNKNOWN\n", node.name, own.host_name,
                         node.address, own.line, own.gpus > 0 ? fmt::format(" Gres=gpu:{}", own.gpus) : "");
    cgroups = cgroups && own.cgroups;
    gpus = gpus || own.gpus > 0;
    const int64_t cpus = number_after(own.line, "CPUs="), memory = number_after(own.line, "RealMemory=");
    if (cpus == 0 || memory == 0) continue;
    memory_per_cpu = memory_per_cpu == 0 ? memory / cpus : std::min(memory_per_cpu, memory / cpus);
  }
  const bool accounts = cluster.options.cluster.accounting;
  return fmt::format(
             "# Made by `trireme cluster`.\n"
             "ClusterName={0}\n"
             "SlurmctldHost={1}({2})\n"
             "SlurmUser=slurm\n"
             "SlurmdUser=root\n"
             "AuthType=auth/munge\n"
             "CredType=cred/munge\n"
             "StateSaveLocation=/var/spool/trireme/slurmctld\n"
             "SlurmdSpoolDir=/var/spool/trireme/slurmd\n"
             "ProctrackType=proctrack/{3}\n"
             "TaskPlugin=task/{4}\n"
             "JobAcctGatherType=jobacct_gather/{5}\n"
             "AccountingStorageType=accounting_storage/{6}\n"
             "SelectType=select/cons_tres\n"
             "SelectTypeParameters=CR_Core_Memory\n",
             cluster.name(), hardware.front().host_name, cluster.nodes.front().address,
             cgroups ? "cgroup" : "linuxproc", cgroups ? "cgroup,task/affinity" : "affinity",
             accounts ? (cgroups ? "cgroup" : "linux") : "none", accounts ? "slurmdbd" : "none") +
         (accounts ? fmt::format("AccountingStorageHost={}\n", cluster.nodes.front().address) : "") +
         (accounts && gpus ? "AccountingStorageTRES=gres/gpu\n" : "") + (gpus ? "GresTypes=gpu\n" : "") +
         (memory_per_cpu > 0 ? fmt::format("DefMemPerCPU={}\n", memory_per_cpu) : "") +
         fmt::format(
             "PropagateResourceLimitsExcept=MEMLOCK\n"
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
             "{0}"
             "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
             nodes);
}

}  // namespace trireme::cloud
