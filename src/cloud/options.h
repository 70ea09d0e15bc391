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
  double lifetime_hours = 0;
  template <class V>
  void visit(V& v) {
    v.text("name", name, "names everything that is made: letters, digits and '-', 24 at most");
    v.choice("provider", provider, "who gives the machines; hosts: machines that exist, reached by ssh");
    v.integer("nodes", nodes, "machines in all; the first one is the head, which trains as well", 1, 200);
    v.choice("scheduler", scheduler,
             "none: `trireme launch` over ssh; slurm: set up on the nodes; cyclecloud (azure): `plan` writes a project "
             "for a CycleCloud server, which makes the machines");
    v.number("lifetime-hours", lifetime_hours,
             "hours after which the machines of azure and aws end by themselves, their disks with them (0: never)", 0,
             8760);
    v.text("tags", tags, "more tags on everything that is made: key=value,key=value");
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
    v.text("head-type", head_type, "size of the first machine (empty: that of the others)");
    v.text("image", image,
           "operating system, Debian or Ubuntu: an image of az, or an AMI's id or path in the parameter store (empty: "
           "Ubuntu 24.04)");
    v.integer("disk-gb", disk_gb, "system disk of each machine", 30, 4095);
    v.flag("spot", spot, "cheaper machines that the provider may take back; the head never is one");
    v.number("wait-minutes", wait_minutes, "after that a machine that cannot be reached is given up and named", 0.01,
             120);
  }
};

struct NetworkGroup {
  std::string region, zone, range = "10.60.0.0/24";
  FastNetwork fast = FastNetwork::automatic;
  PublicAddresses public_addresses = PublicAddresses::all;
  template <class V>
  void visit(V& v) {
    v.text("region", region, "where the machines stand, by the provider's name (azure and aws need it)");
    v.text(
        "zone", zone,
        "availability zone of aws (empty: the first that has all sizes), chosen once and kept as long as the cluster "
        "is there");
    v.text("range", range, "private addresses of azure and aws: the network of a cluster of its own, /16 to /28");
    v.choice("fast", fast,
             "InfiniBand (azure) or the Elastic Fabric Adapter (aws) of sizes that have it; auto: where the table of "
             "node types says so; on: refused for a size that has none");
    v.choice("public-addresses", public_addresses,
             "which machines of azure and aws have one; head: the others are reached through the head, and reach the "
             "internet through a NAT gateway, which the provider charges for; stays as it is while the cluster exists");
  }
};

struct AccessGroup {
  std::string user = "trireme", key = "~/.ssh/id_ed25519.pub", from = "caller";
  template <class V>
  void visit(V& v) {
    v.text("user", user, "who logs in; made on machines of azure and aws, must exist and be root or use sudo on hosts");
    v.text("key", key, "file of the public key that logs in; its private half stays where it is and is never read");
    v.text("from", from,
           "addresses from which ssh is let in, a.b.c.d/32,...; caller: this machine's own as seen from outside");
  }
};

struct StorageGroup {
  StorageChoice kind = StorageChoice::nfs;
  std::string path = "/cluster";
  int64_t gb = 100;
  template <class V>
  void visit(V& v) {
    v.choice("kind", kind,
             "the folder that all nodes share: nfs: the head's disk; provider: Azure Files or EFS; existing: every "
             "node has it mounted already, which is looked at");
    v.text("path", path, "where it is mounted");
    v.integer("gb", gb, "size of Azure Files (100 at least); the others grow or have the disk's", 100, 102400);
  }
};

struct SoftwareGroup {
  std::string package, source;
  template <class V>
  void visit(V& v) {
    v.text("package", package,
           "file of Trireme that is put on the nodes: .deb or .tar.gz of scripts/package (empty: software.source)");
    v.text("source", source,
           "checkout of Trireme (its last commit), or a .tar.gz of one, which the head builds once for all nodes; both "
           "empty: the nodes have Trireme already: your own machines, or an image that you made");
  }
};

struct AzureGroup {
  std::string resource_group, cyclecloud_slurm = "4.0.0";
  template <class V>
  void visit(V& v) {
    v.text("resource-group", resource_group,
           "one that exists and is shared with others (empty: trireme-NAME, made and deleted with the cluster)");
    v.text("cyclecloud-slurm", cyclecloud_slurm, "version of CycleCloud's Slurm project that your server has");
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
    v.group("cluster", "what there shall be", cluster);
    v.group("node", "each machine", node);
    v.group("network", "where, and how they are joined", network);
    v.group("access", "who may log in", access);
    v.group("storage", "the folder that all nodes share", storage);
    v.group("software", "what runs on them", software);
    v.group("azure", "of provider azure only", azure);
    v.group("hosts", "of provider hosts only", hosts);
  }
};

/// Reads a cluster's file. Throws Error::config with file and line for a key that is not known, a value that does not
/// fit, options that contradict each other, and for anything that looks like a secret: those stay with the provider's
/// command line, which has them from its own login.
ClusterOptions read_options(const std::string& path);
ClusterOptions parse_options(const std::string& text, const std::string& path);

/// The file that `init` writes: every option that applies to this provider, each under its explanation, with its
/// default. parse_options() of it gives `options` back.
std::string options_file(const ClusterOptions& options);

/// The table of all options in docs/clouds.md.
std::string options_table();

/// The parts of "a,b" or "a, b"; blanks around them are dropped, empty ones too.
std::vector<std::string> split_list(const std::string& text);

}  // namespace trireme::cloud
