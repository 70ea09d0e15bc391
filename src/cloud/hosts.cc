// Existing machines, reached by ssh.

#include "cloud/provider.h"

namespace trireme::cloud {
namespace {

class Hosts final : public Provider {
 public:
  std::vector<PlanFile> plan(const Cluster& cluster) const override {
    std::vector<PlanFile> files = {{"trireme-node", node_setup_script(), true}};
    for (const Node& node : cluster.nodes) {
      files.push_back({"env/" + node.name + ".env", node_environment(cluster, &node, {}, {}), false});
      files.push_back({"cloud-init/" + node.name + ".yaml", cloud_init(cluster, &node, {}, {}), false});
    }
    return files;
  }

  SharedFolder shared_folder(const Cluster&) const override { return {}; }
  End end(const Cluster&) const override { return {}; }

  // They exist; setup shows whether they can be reached.
  void check(const Cluster&) const override {}
  std::vector<std::pair<std::string, std::string>> make(const Cluster&, const std::string&) const override {
    return {};
  }
  std::vector<Machine> machines(const Cluster& cluster) const override {
    std::vector<Machine> all;
    for (const Node& node : cluster.nodes) all.push_back({node.name, node.login, "own machine"});
    return all;
  }
  std::optional<std::vector<std::string>> host_keys(const Cluster&, const Node&) const override { return {}; }
  void remove(const Cluster&, const Node&, const std::string&) const override {}
  std::vector<std::string> destroy(const Cluster&) const override { return {}; }
  bool keeps_machines() const override { return true; }
};

}  // namespace

std::unique_ptr<Provider> make_hosts() { return std::make_unique<Hosts>(); }

}  // namespace trireme::cloud
