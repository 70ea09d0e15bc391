#pragma once
// Every option of a cluster's file, declared once: name, field, default, help, range. The output of `trireme cluster
// init`, the allowed contents of the file and the table in docs/clouds.md are made from these declarations.

#include <cstdint>
#include <string>
#include <vector>

#include "base/names.h"

namespace trireme::cloud {

enum class ProviderChoice : uint8_t { azure, aws, hosts };
enum class SchedulerChoice : uint8_t { none, slurm, cyclecloud };
enum class StorageChoice : uint8_t { nfs, provider, existing };
enum class FastNetwork : uint8_t { automatic, on, off };
enum class PublicAddresses : uint8_t { all, head };

}  // namespace trireme::cloud

namespace trireme {

template <>
struct Names<cloud::ProviderChoice> {
  static constexpr Named<cloud::ProviderChoice> kAll[] = {{"azure", cloud::ProviderChoice::azure},
                                                          {"aws", cloud::ProviderChoice::aws},
                                                          {"hosts", cloud::ProviderChoice::hosts}};
};
template <>
struct Names<cloud::SchedulerChoice> {
  static constexpr Named<cloud::SchedulerChoice> kAll[] = {{"none", cloud::SchedulerChoice::none},
                                                           {"slurm", cloud::SchedulerChoice::slurm},
                                                           {"cyclecloud", cloud::SchedulerChoice::cyclecloud}};
};
template <>
struct Names<cloud::StorageChoice> {
  static constexpr Named<cloud::StorageChoice> kAll[] = {{"nfs", cloud::StorageChoice::nfs},
                                                         {"provider", cloud::StorageChoice::provider},
                                                         {"existing", cloud::StorageChoice::existing}};
};
template <>
struct Names<cloud::FastNetwork> {
  static constexpr Named<cloud::FastNetwork> kAll[] = {
      {"auto", cloud::FastNetwork::automatic}, {"on", cloud::FastNetwork::on}, {"off", cloud::FastNetwork::off}};
};
template <>
struct Names<cloud::PublicAddresses> {
  static constexpr Named<cloud::PublicAddresses> kAll[] = {{"all", cloud::PublicAddresses::all},
                                                           {"head", cloud::PublicAddresses::head}};
};

}  // namespace trireme

namespace trireme::cloud {

struct ClusterGroup {
  std::string name = "trireme", tags;
  ProviderChoice provider = ProviderChoice::hosts;
  int64_t nodes = 3;
  SchedulerChoice scheduler = SchedulerChoice::none;
  bool accounting = false;
  double lifetime_hours = 0;
  template <class V>
  void visit(V& v) {
    v.text("name", name, "names everything that is created: letters, digits and '-', at most 24");
    v.choice("provider", provider, "who provides the machines; hosts: existing machines, reached by ssh");
    v.integer("nodes", nodes,
              "number of machines; the first one is the head, which also trains; CycleCloud's scheduler comes to them",
              1, 200);
    v.choice("scheduler", scheduler,
             "none: `trireme launch` over ssh; slurm: set up on the nodes; cyclecloud (azure): `plan` writes a project "
             "for a CycleCloud server, which creates the machines");
    v.flag("accounting", accounting,
           "with scheduler slurm: slurmdbd and MariaDB on the head keep what each job used (sacct, sreport)");
    v.number("lifetime-hours", lifetime_hours,
             "hours after which the machines of azure and aws and their disks are deleted automatically (0: never)", 0,
             8760);
    v.text("tags", tags, "more tags for everything that is created: key=value,key=value");
  }
};

struct NodeGroup {
  std::string type, head_type, image;
  int64_t disk_gb = 64;
  bool spot = false;
  double wait_minutes = 20;
  template <class V>
  void visit(V& v) {
    v.text("type", type, "size of a machine, by the provider's name (empty: Standard_D32s_v5, c7i.16xlarge)");
    v.text("head-type", head_type,
           "size of the first machine (empty: as the others; of CycleCloud's scheduler, which does not train, "
           "Standard_D4s_v5)");
    v.text("image", image,
           "operating system, Debian or Ubuntu: an image of az, or the id of an AMI or its path in the parameter store "
           "(empty: Ubuntu 24.04; for sizes with NVIDIA GPUs the provider's image of it with driver, CUDA and NCCL)");
    v.integer("disk-gb", disk_gb, "system disk of each machine", 30, 4095);
    v.flag("spot", spot, "cheaper machines that the provider may reclaim; never used for the head");
    v.number("wait-minutes", wait_minutes, "minutes to wait for an unreachable machine before it is reported missing",
             0.01, 120);
  }
};

struct NetworkGroup {
  std::string region, zone, range = "10.60.0.0/24";
  FastNetwork fast = FastNetwork::automatic;
  PublicAddresses public_addresses = PublicAddresses::head;
  template <class V>
  void visit(V& v) {
    v.text("region", region, "location of the machines, by the provider's name (needed for azure and aws)");
    v.text("zone", zone,
           "availability zone of aws (empty: the first with all sizes), chosen once and kept while the cluster exists");
    v.text("range", range, "private addresses of azure and aws: the network of the cluster, /16 to /28");
    v.choice("fast", fast,
             "use InfiniBand (azure) or the Elastic Fabric Adapter (aws) of sizes that have it; auto: if the table of "
             "node types lists it; on: refuse sizes without it");
    v.choice("public-addresses", public_addresses,
             "which machines of azure and aws have a public address; head: the others are reached through the head, "
             "and reach the internet through a NAT gateway, which the provider charges for; all: no gateway; cannot "
             "change while the cluster exists");
  }
};

struct AccessGroup {
  std::string user = "trireme", key = "~/.ssh/id_ed25519.pub", from = "caller";
  template <class V>
  void visit(V& v) {
    v.text("user", user,
           "user for login; created on machines of azure and aws; on hosts it must exist and be root or have sudo");
    v.text("key", key, "file of the public key for login; the private key is not copied and never read");
    v.text("from", from, "addresses that may connect by ssh, a.b.c.d/32,...; caller: this machine's public address");
  }
};

struct StorageGroup {
  StorageChoice kind = StorageChoice::nfs;
  std::string path = "/cluster";
  int64_t gb = 100;
  template <class V>
  void visit(V& v) {
    v.choice("kind", kind,
             "the folder that all nodes share: nfs: on the head's disk; provider: Azure Files or EFS; existing: "
             "already mounted on every node, which is checked");
    v.text("path", path, "where it is mounted");
    v.integer("gb", gb, "size of Azure Files (at least 100); the others grow or use the disk", 100, 102400);
  }
};

struct SoftwareGroup {
  std::string package, source;
  template <class V>
  void visit(V& v) {
    v.text("package", package,
           "package of Trireme for the nodes: .deb or .tar.gz of scripts/package (empty: software.source)");
    v.text("source", source,
           "checkout of Trireme (its last commit), or a .tar.gz of one, which the head builds once for all nodes; both "
           "empty: the nodes already have Trireme (your own machines or image)");
  }
};

struct AzureGroup {
  std::string resource_group, cyclecloud_slurm = "4.0.0";
  template <class V>
  void visit(V& v) {
    v.text("resource-group", resource_group,
           "an existing group that is shared with others (empty: trireme-NAME, created and deleted with the cluster)");
    v.text("cyclecloud-slurm", cyclecloud_slurm, "version of CycleCloud's Slurm project on your server");
  }
};

struct HostsGroup {
  std::string list;
  template <class V>
  void visit(V& v) {
    v.text("list", list, "machines in order, by name or address: h1,h2,h3 or h[1-3]; the first cluster.nodes are used");
  }
};

struct ClusterOptions {
  ClusterGroup cluster;
  NodeGroup node;
  NetworkGroup network;
  AccessGroup access;
  StorageGroup storage;
  SoftwareGroup software;
  AzureGroup azure;
  HostsGroup hosts;
  template <class V>
  void visit(V& v) {
    v.group("cluster", "the cluster as a whole", cluster);
    v.group("node", "each machine", node);
    v.group("network", "location and network", network);
    v.group("access", "who may log in", access);
    v.group("storage", "the folder that all nodes share", storage);
    v.group("software", "the software on the nodes", software);
    v.group("azure", "only for provider azure", azure);
    v.group("hosts", "only for provider hosts", hosts);
  }
};

/// Reads a cluster's file. Throws Error::config with file and line for an unknown key, an invalid value, options that
/// contradict each other, and for anything that looks like a secret: those stay with the provider's command line, which
/// gets them from its login.
ClusterOptions read_options(const std::string& path);
ClusterOptions parse_options(const std::string& text, const std::string& path);

/// The file that `init` writes: every option that applies to this provider, each under its explanation, with its
/// default. parse_options() of it gives `options` back.
std::string options_file(const ClusterOptions& options);

/// The table of all options in docs/clouds.md.
std::string options_table();

/// The parts of "a,b" or "a, b", without blanks around them and without empty parts.
std::vector<std::string> split_list(const std::string& text);

}  // namespace trireme::cloud
