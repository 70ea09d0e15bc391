#pragma once
// Providers of machines. A new provider is one file with its Provider, and a line in provider_of().

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cloud/layout.h"
#include "cloud/node_files.h"

namespace trireme::cloud {

struct PlanFile {
  std::string path;  ///< below the plan's folder
  std::string text;
  bool is_script = false;
};

/// An existing machine of the cluster.
struct Machine {
  std::string node;           ///< Node::name
  std::string login;          ///< its address from this machine; empty: not yet known
  std::string state;          ///< the provider's word, shown by `status`
  std::string identity = {};  ///< the provider's unique identity, never reused; empty: none exists
};

class Provider {
 public:
  virtual ~Provider() = default;

  /// All files that make() will use, made from the options alone. Precondition: cluster.sources is not empty if the
  /// provider restricts addresses.
  virtual std::vector<PlanFile> plan(const Cluster& cluster) const = 0;
  /// Throws Error::config if the provider would refuse the plan for any account.
  virtual void check_plan(const Cluster&) const {}
  /// Choices made once, queried from the provider before the first machine is created: the exact image, a zone with the
  /// sizes. For an existing cluster: the values of its machines. Throws Error::config if nothing fits.
  virtual Pins pins(const Cluster&) const { return {}; }
  /// The source of the nodes' shared folder, and how they end automatically; empty if not applicable.
  virtual SharedFolder shared_folder(const Cluster& cluster) const = 0;
  virtual End end(const Cluster& cluster) const = 0;

  /// Checks before anything is created: login, size in the region, quota, names used by others. Throws Error::config
  /// with all problems.
  virtual void check(const Cluster& cluster) const = 0;
  /// Creates missing resources; `folder` is the written plan. Existing ones remain. Throws Error::io naming the step.
  /// Returns nodes that the provider could not create, with the reason.
  virtual std::vector<std::pair<std::string, std::string>> make(const Cluster& cluster,
                                                                const std::string& folder) const = 0;
  /// The existing machines, by the cluster's tag.
  virtual std::vector<Machine> machines(const Cluster& cluster) const = 0;
  /// Host keys of the node from the provider's own channel, "ssh-ed25519 AAAA..." each; empty: not yet available.
  /// Nullopt: the provider has no such channel, so the caller's known_hosts decides.
  virtual std::optional<std::vector<std::string>> host_keys(const Cluster& cluster, const Node& node) const = 0;
  /// Deletes one machine and its resources. `cluster` does not contain it.
  virtual void remove(const Cluster& cluster, const Node& node, const std::string& folder) const = 0;
  /// Deletes everything with the cluster's tag and nothing else. Returns the remaining resources and the reasons, for
  /// the user.
  virtual std::vector<std::string> destroy(const Cluster& cluster) const = 0;
  /// Whether the machines outlive the cluster: then its files are removed from them.
  virtual bool keeps_machines() const { return false; }
};

/// Writes the files below the folder, scripts executable. Throws Error::io.
void write_files(const std::vector<PlanFile>& files, const std::string& folder);

std::unique_ptr<Provider> provider_of(ProviderChoice choice);

// One line per provider that creates machines, defined in its file.
std::unique_ptr<Provider> make_azure();
std::unique_ptr<Provider> make_aws();

/// The plan of a CycleCloud cluster: its project, and the commands that upload it to the server.
std::vector<PlanFile> cyclecloud_plan(const Cluster& cluster);

}  // namespace trireme::cloud
