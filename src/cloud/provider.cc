#include "cloud/provider.h"

#include <filesystem>

#include "base/file.h"

namespace trireme::cloud {

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
  return make_hosts();
}

}  // namespace trireme::cloud
