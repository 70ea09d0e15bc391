// A CycleCloud project: a CycleCloud server creates the machines and has its own Slurm; cluster-init installs Trireme
// with its node checks. All roles use one image, every parameter has a value, and the project contains its files, so
// nothing else has to be copied to the server.

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "cloud/azure.h"
#include "cloud/node_types.h"
#include "cloud/provider.h"

namespace trireme::cloud {
namespace {

std::string project_ini(const Cluster& cluster) {
  return fmt::format(
      "[project]\n"
      "name = trireme-{}\n"
      "label = Trireme\n"
      "version = 1.0.0\n"
      "type = application\n",
      cluster.name());
}

/// Parameters of the template with their values: the template declares and uses each of them.
Json parameters(const Cluster& cluster) {
  const ClusterOptions& options = cluster.options;
  std::string lines;
  for (const char* line : {"HealthCheckProgram=/etc/trireme/slurm-health", "HealthCheckInterval=600",
                           "HealthCheckNodeState=IDLE", "Prolog=/etc/trireme/slurm-prolog", "PrologFlags=Alloc",
                           "Epilog=/etc/trireme/slurm-epilog", "SchedulerParameters=nohold_on_prolog_fail"}) {
    lines += std::string(lines.empty() ? "" : "\n") + line;
  }
  return Json{{"Region", options.network.region},
              {"SchedulerMachineType", type_of_head(options)},
              {"HPCMachineType", type_of_nodes(options)},
              {"ImageName", azure_image(options)},
              {"MaxHPCExecuteNodeCount", options.cluster.nodes},
              {"UseSpot", options.node.spot},
              {"Autoscale", false},
              {"BootDiskSize", options.node.disk_gb},
              {"FilesystemSize", options.storage.gb},
              {"AdditionalSlurmConfig", lines}};
}

const char* parameter_type(const std::string& name) {
  if (name == "Region") return "Cloud.Region";
  if (name.ends_with("MachineType")) return "Cloud.MachineType";
  if (name.ends_with("Autoscale") || name == "UseSpot") return "Boolean";
  return name.ends_with("Size") || name.ends_with("Count") ? "Integer" : "String";
}

std::string cluster_template(const Cluster& cluster, const Json& values) {
  const std::string slurm = cluster.options.azure.cyclecloud_slurm, project = "trireme-" + cluster.name();
  std::string text = fmt::format(
      "# The cluster {0} for CycleCloud; made by `trireme cluster plan`. Its parameters are those of parameters.json, "
      "and\n"
      "# SubnetId and Credentials, which commands.sh sets.\n"
      "[cluster {0}]\n"
      "FormLayout = selectionpanel\n"
      "Category = Schedulers\n"
      "Autoscale = $Autoscale\n"
      "\n"
      "    [[node defaults]]\n"
      "    Credentials = $Credentials\n"
      "    SubnetId = $SubnetId\n"
      "    Region = $Region\n"
      "    ImageName = $ImageName\n"
      "    UsePublicNetwork = false\n"
      "    ShutdownPolicy = terminate\n"
      "\n"
      "        [[[configuration]]]\n"
      "        slurm.accounting.enabled = false\n"
      "        slurm.additional.config = $AdditionalSlurmConfig\n"
      "\n"
      "        [[[cluster-init cyclecloud/slurm:default:{1}]]]\n"
      "        [[[cluster-init {2}:default:1.0.0]]]\n"
      "\n"
      "        [[[volume boot]]]\n"
      "        Size = $BootDiskSize\n"
      "        SSD = true\n"
      "\n"
      "    [[node scheduler]]\n"
      "    MachineType = $SchedulerMachineType\n"
      "    IsReturnProxy = false\n"
      "\n"
      "        [[[configuration]]]\n"
      "        slurm.role = scheduler\n"
      "\n"
      "        [[[cluster-init cyclecloud/slurm:scheduler:{1}]]]\n"
      "\n"
      "        [[[volume shared]]]\n"
      "        Size = $FilesystemSize\n"
      "        SSD = true\n"
      "        Mount = builtinshared\n"
      "        Persistent = true\n"
      "\n"
      "        [[[configuration cyclecloud.mounts.builtinshared]]]\n"
      "        mountpoint = /shared\n"
      "        fs_type = xfs\n"
      "\n"
      "        [[[configuration cyclecloud.exports.builtinshared]]]\n"
      "        export_path = /shared\n"
      "        type = nfs\n"
      "\n"
      "    [[nodearray hpc]]\n"
      "    MachineType = $HPCMachineType\n"
      "    MaxCount = $MaxHPCExecuteNodeCount\n"
      "    InitialCount = $MaxHPCExecuteNodeCount\n"
      "    Azure.MaxScalesetSize = $MaxHPCExecuteNodeCount\n"
      "    Interruptible = $UseSpot\n"
      "\n"
      "        [[[configuration]]]\n"
      "        slurm.role = execute\n"
      "        slurm.autoscale = true\n"
      "        slurm.hpc = true\n"
      "        slurm.partition = hpc\n"
      "        slurm.default_partition = true\n"
      "\n"
      "        [[[cluster-init cyclecloud/slurm:execute:{1}]]]\n"
      "\n"
      "[parameters Settings]\n"
      "Order = 10\n"
      "\n"
      "    [[parameters Cluster]]\n"
      "    Order = 10\n",
      cluster.name(), slurm, project);
  const auto declare = [&](const std::string& name, const std::string& type) {
    text += fmt::format(
        "\n        [[[parameter {0}]]]\n        Label = {0}\n        ParameterType = {1}\n        Required = true\n",
        name, type);
  };
  declare("Credentials", "Cloud.Credentials");
  declare("SubnetId", "Azure.Subnet");
  for (const auto& [name, value] : values.items()) declare(name, parameter_type(name));
  return text;
}

constexpr const char* kInstall =
    "#!/bin/bash\n"
    "# Installs Trireme from the project's files, and Open MPI, which it needs.\n"
    "set -euo pipefail\n"
    "export DEBIAN_FRONTEND=noninteractive\n"
    "apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=600 update\n"
    "apt-get -q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends openmpi-bin ca-certificates\n"
    "package=$CYCLECLOUD_SPEC_PATH/files/PACKAGE\n"
    "case $package in\n"
    "  *.deb) apt-get -q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends \"$package\" ;;\n"
    "  *) mkdir -p /opt/trireme && tar -xzf \"$package\" -C /opt/trireme --strip-components=1 &&\n"
    "    ln -sfn /opt/trireme/bin/trireme /usr/local/bin/trireme ;;\n"
    "esac\n"
    "trireme --version\n";

constexpr const char* kHealth =
    "#!/bin/bash\n"
    "# The node checks: the current state of this node (except its load) becomes the expected state, which Slurm's "
    "programs check.\n"
    "set -euo pipefail\n"
    "mkdir -p /etc/trireme\n"
    "if [[ ! -s /etc/trireme/nhc.conf ]]; then\n"
    "  trireme health gen >/etc/trireme/nhc.found\n"
    "  grep -v check_ps_loadavg /etc/trireme/nhc.found >/etc/trireme/nhc.new\n"
    "  mv /etc/trireme/nhc.new /etc/trireme/nhc.conf\n"
    "fi\n"
    "for name in health prolog epilog; do\n"
    "  detached=\n"
    "  [[ $name != health ]] || detached=' --detached'\n"
    "  printf '#!/bin/sh\\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\\nexec trireme health -c "
    "/etc/trireme/nhc.conf --drain%s\\n' \"$detached\" \\\n"
    "    >\"/etc/trireme/slurm-$name\"\n"
    "  chmod 755 \"/etc/trireme/slurm-$name\"\n"
    "done\n"
    "trireme health -c /etc/trireme/nhc.conf\n";

std::string commands(const Cluster& cluster) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# The cluster {0} on a CycleCloud server: run `cyclecloud initialize` before. Its locker, credentials and "
      "subnet:\n"
      "# commands.sh LOCKER CREDENTIALS RESOURCE-GROUP/NETWORK/SUBNET\n"
      "set -euo pipefail\n"
      "cd \"$(dirname \"$0\")/cyclecloud\"\n"
      "locker=${{1:?the name of a locker: cyclecloud locker list shows them}}\n"
      "credentials=${{2:?the name of the credentials: cyclecloud account list shows them}}\n"
      "subnet=${{3:?resource group/network/subnet}}\n"
      "\n"
      "cyclecloud project upload \"$locker\"\n"
      "cyclecloud import_cluster {0} --cluster {0} --file templates/trireme.txt --parameters parameters.json \\\n"
      "  --parameter-override \"Credentials=$credentials\" --parameter-override \"SubnetId=$subnet\"\n"
      "cyclecloud start_cluster {0}\n",
      cluster.name());
}

}  // namespace

std::vector<PlanFile> cyclecloud_plan(const Cluster& cluster) {
  const std::string package = expand_home(cluster.options.software.package);
  require(!package.empty(), ErrorKind::config,
          "cluster.scheduler is cyclecloud, but software.package is empty; name the .deb or .tar.gz of "
          "scripts/package, which the project installs on its nodes");
  const std::string name = std::filesystem::path(package).filename();
  std::string install = kInstall;
  install.replace(install.find("PACKAGE"), 7, name);
  const Json values = parameters(cluster);
  const std::string folder = "cyclecloud/", init = folder + "specs/default/cluster-init/";
  return {{"commands.sh", commands(cluster), true},
          {folder + "project.ini", project_ini(cluster), false},
          {folder + "templates/trireme.txt", cluster_template(cluster, values), false},
          {folder + "parameters.json", dump_json(values, 2) + "\n", false},
          {init + "scripts/010-trireme.sh", install, true},
          {init + "scripts/020-health.sh", kHealth, true},
          {init + "files/" + name, read_text(package), false}};
}

}  // namespace trireme::cloud
