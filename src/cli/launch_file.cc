#include "cli/launch_file.h"

#include <algorithm>
#include <cstdlib>

#include "base/count.h"
#include "base/error.h"
#include "config/dialect.h"
#include "config/yaml_reader.h"

namespace trireme {
namespace {

std::string with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

class LaunchFile {
 public:
  explicit LaunchFile(const std::string& path) : settings_(read_yaml(path, 0)) {
    const Dialect& dialect = find_dialect("accelerate");
    require(dialect.claims(path, settings_), ErrorKind::config,
            "--config-file {}: not a file of `trireme config wizard` or `accelerate config` (distributed_type is "
            "missing); put configuration files of training after `-- train`",
            path);
    for (const Setting& setting : translate(dialect, settings_, {}).settings)
      defaults_.push_back(setting.key + "=" + setting.text);
  }

  /// 0 if the file does not have the key.
  int number(std::string_view key, int64_t most) const {
    const Setting* setting = find(key);
    if (setting == nullptr || std::holds_alternative<std::monostate>(setting->value)) return 0;
    const auto* value = std::get_if<int64_t>(&setting->value);
    require(value != nullptr && *value >= 1 && *value <= most, ErrorKind::config, "{}: {} is {}, expected 1 to {}",
            setting->origin.text(), key, describe(*setting), most);
    return static_cast<int>(*value);
  }
  std::string text(std::string_view key) const {
    const Setting* setting = find(key);
    return setting == nullptr || setting->problem == "nothing" ? "" : setting->text;
  }
  const std::vector<std::string>& defaults() const { return defaults_; }

 private:
  const Setting* find(std::string_view key) const {
    for (const Setting& setting : settings_) {
      if (canonical(setting.key) == canonical(key)) return &setting;
    }
    return nullptr;
  }

  std::vector<Setting> settings_;
  std::vector<std::string> defaults_;
};

}  // namespace

int ranks_of_launch_file(int machines, int processes) {
  return processes < machines ? machines * processes : processes;
}

std::string apply_launch_file(const std::string& path, LaunchRequest& request) {
  const LaunchFile file(path);
  const int machines = std::max(1, file.number("num_machines", 100'000));
  const int processes = std::max(1, file.number("num_processes", 10'000'000));
  HostRequest& hosts = request.hosts;
  const bool told = !hosts.hostfile.empty() || !hosts.hosts.empty() || !hosts.sinfo.empty() || hosts.slurm;
  if (!told) hosts.hostfile = with_home(file.text("mpirun_config.mpirun_hostfile"));
  if (hosts.num_nodes == 0) hosts.num_nodes = machines;
  if (request.port == 0) request.port = file.number("main_process_port", 65535);
  request.defaults = file.defaults();
  PlacementRequest& placement = request.placement;
  const int total = ranks_of_launch_file(machines, processes);
  const int given = placement.processes > 0 ? placement.processes : placement.per_host * hosts.num_nodes;
  if (given > 0)
    return given == total ? ""
                          : fmt::format("{} are asked for, so num_processes {} of {} has no effect",
                                        count_text(given, "rank"), processes, path);
  require(total % machines == 0, ErrorKind::config,
          "{}: num_processes {} cannot be distributed evenly over num_machines {}; use a multiple, or add -n or -ppn",
          path, processes, machines);
  placement.per_host = total / machines;
  return total == processes
             ? ""
             : fmt::format("{}: num_processes {} is below num_machines {}, so it counts processes per machine: {}",
                           path, processes, machines, count_text(total, "rank"));
}

}  // namespace trireme
