#include "cloud/provider.h"

#include <filesystem>

#include "base/file.h"

namespace trireme::cloud {
namespace {

/// Existing machines, reached by ssh.
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

void write_files(const std::vector<PlanFile>& files, const std::string& folder) {
  for (const PlanFile& file : files) {
    const std::filesystem::path path = std::filesystem::path(folder) / file.path;
    std::filesystem::create_directories(path.parent_path());
    write_text(path, file.text, file.is_script ? 0755 : 0644);
  }
}

std::unique_ptr<Provider> provider_of(ProviderChoice choice) {
  switch (choice) {
    case ProviderChoice::azure:
      return make_azure();
    case ProviderChoice::aws:
      return make_aws();
    case ProviderChoice::hosts:
      break;
  }
  return std::make_unique<Hosts>();
}

}  // namespace trireme::cloud
