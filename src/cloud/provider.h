#pragma once
// Who gives machines. A further provider is one file: its Provider, and a line in provider_of().

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
  std::string login;          ///< address from which it can be reached from here; empty: not yet known
  std::string state;          ///< the provider's word, as `status` shows it
  std::string identity = {};  ///< the provider's unique identity, never reused; empty: none exists
};

class Provider {
 public:
  virtual ~Provider() = default;

  /// Everything that make() will use, made from the options alone. Precondition: cluster.sources is not empty where
  /// the provider lets in by address.
  virtual std::vector<PlanFile> plan(const Cluster& cluster) const = 0;
  /// Throws Error::config where the provider would not take the plan, whatever the account allows.
  virtual void check_plan(const Cluster&) const {}
  /// Choices made once, queried from the provider before the first machine is made: the exact image, a zone that has
  /// the sizes. For an existing cluster: the values of its machines. Throws Error::config where nothing fits.
  virtual Pins pins(const Cluster&) const { return {}; }
  /// Where the nodes mount their shared folder from, and how they end automatically; empty if not applicable.
  virtual SharedFolder shared_folder(const Cluster& cluster) const = 0;
  virtual End end(const Cluster& cluster) const = 0;

  /// Looks, before anything is made: logged in, size in the region, quota, names that somebody else has. Throws
  /// Error::config with all that was found.
  virtual void check(const Cluster& cluster) const = 0;
  /// Creates missing resources; `folder` is the written plan. Existing ones remain. Throws Error::io naming the step.
  /// Returns nodes that the provider could not give, with the reason.
  virtual std::vector<std::pair<std::string, std::string>> make(const Cluster& cluster,
                                                                const std::string& folder) const = 0;
  /// The existing machines, by the cluster's tag.
  virtual std::vector<Machine> machines(const Cluster& cluster) const = 0;
  /// Host keys of the node from the provider's own channel, "ssh-ed25519 AAAA..." each; empty: not yet. Nothing: the
  /// provider has no such channel, the caller's known_hosts decides.
  virtual std::optional<std::vector<std::string>> host_keys(const Cluster& cluster, const Node& node) const = 0;
  /// Ends one machine and its own resources. `cluster` is without it.
  virtual void remove(const Cluster& cluster, const Node& node, const std::string& folder) const = 0;
  /// Ends everything with the cluster's tag and nothing else. Returns the remaining resources and the reasons, for the
  /// user.
  virtual std::vector<std::string> destroy(const Cluster& cluster) const = 0;
  /// Machines that outlive the cluster: its files are removed from them.
  virtual bool keeps_machines() const { return false; }
};

/// Writes them below the folder, scripts executable. Throws Error::io.
void write_files(const std::vector<PlanFile>& files, const std::string& folder);

std::unique_ptr<Provider> provider_of(ProviderChoice choice);

// One line each, of the providers' own files.
std::unique_ptr<Provider> make_azure();
std::unique_ptr<Provider> make_aws();
std::unique_ptr<Provider> make_hosts();

/// The plan of a cluster that CycleCloud makes: its project, and the commands that bring it to the server.
std::vector<PlanFile> cyclecloud_plan(const Cluster& cluster);

}  // namespace trireme::cloud
