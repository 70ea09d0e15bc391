// trireme cluster: creates, shows, changes and deletes a cluster of machines described by one file.

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/output_path.h"
#include "base/write_signals.h"
#include "cli/cluster/cluster_forecast.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cloud/lifecycle.h"
#include "cloud/node_types.h"
#include "cloud/provider.h"
#include "cloud/terraform.h"
#include "cloud/validate.h"

namespace trireme {
namespace {

/// Placeholder for an unknown address; no provider accepts it as an address.
constexpr const char* kCallerUnknown = "ADDRESS-OF-CALLER/32";

struct InitRequest {
  cloud::ProviderChoice provider = cloud::ProviderChoice::hosts;
  std::string output, name, type, region, hosts, from, package;
  int nodes = 3;
  bool overwrite = false;
};

/// The given options, and defaults of the provider for the rest.
cloud::ClusterOptions first_options(const InitRequest& request) {
  cloud::ClusterOptions options;
  options.cluster.provider = request.provider;
  options.cluster.nodes = request.nodes;
  if (!request.name.empty()) options.cluster.name = request.name;
  if (!request.from.empty()) options.access.from = request.from;
  options.hosts.list = request.hosts;
  options.node.type = request.type;
  options.software.package = request.package;
  options.network.region = request.region;
  if (options.cluster.provider == cloud::ProviderChoice::hosts) {
    const char* user = environment_variable("USER");
    options.access.user = user != nullptr ? user : "root";
    if (options.hosts.list.empty()) options.hosts.list = fmt::format("h[1-{}]", request.nodes);
    return options;
  }
  if (options.node.type.empty()) options.node.type = cloud::type_of_nodes(options);
  if (cloud::has_gpus(options)) options.node.disk_gb = 2 * cloud::kLeastGpuDiskGb;
  if (options.network.region.empty()) {
    options.network.region = cloud::price_region(options.cluster.provider, options.node.type);
  }
  return options;
}

int init(const InitRequest& request) {
  const cloud::ClusterOptions options = first_options(request);
  const std::string text = cloud::options_file(options);
  cloud::parse_options(text, request.output.empty() ? "init" : request.output);  // checks that the options are valid
  if (request.output.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  require(
      request.overwrite || output_target(request.output).is_stream || !std::filesystem::is_regular_file(request.output),
      ErrorKind::usage, "{} already exists; name another file, or overwrite it with --overwrite", request.output);
  write_text(request.output, text);
  log::info("wrote {}; check it, then run: trireme cluster plan {} --output plan", request.output, request.output);
  return 0;
}

/// run: configuration files of a run to plan for these machines, if any; node: their type, where its rates are unknown.
int plan(const std::string& file, const std::string& folder, cloud::PlanFormat format,
         const std::vector<std::string>& run, const std::string& node) {
  const cloud::ClusterOptions options = cloud::read_options(file);
  cloud::require_software(options);
  require(!folder.empty(), ErrorKind::usage, "--output is empty; name a new folder");
  cloud::Cluster cluster = cloud::lay_out(options);
  const bool terraform = format == cloud::PlanFormat::terraform;
  const bool by_address = options.cluster.provider != cloud::ProviderChoice::hosts &&
                          (terraform || options.cluster.scheduler != cloud::SchedulerChoice::cyclecloud);
  if (by_address && cluster.sources.empty()) {
    try {
      cluster.sources = {cloud::public_address()};
    } catch (const Error& e) {  // a plan creates nothing, so `create` can ask again
      if (terraform) {
        log::warning("access.from is caller: {}; terraform will ask for allowed_sources", e.what());
      } else {
        log::warning("access.from is caller: {}; the plan has {} instead, and create will determine it again", e.what(),
                     kCallerUnknown);
        cluster.sources = {kCallerUnknown};
      }
    }
  }
  require(
      !std::filesystem::exists(folder) || std::filesystem::is_empty(folder), ErrorKind::usage,
      "--output {} exists and is not empty; name a new folder, to avoid mixing files of an older plan into this one",
      folder);
  const auto provider = cloud::provider_of(options.cluster.provider);
  if (!terraform) provider->check_plan(cluster);
  const std::vector<cloud::PlanFile> files = terraform ? cloud::terraform_plan(cluster) : provider->plan(cluster);
  const std::string forecast = run.empty() ? "" : cluster_forecast(options, run, node);
  cloud::write_files(files, folder);
  fmt::print("{}\n{}", cloud::describe_cost(options, options.cluster.nodes), forecast);
  for (const cloud::PlanFile& written : files)
    fmt::print("{}\n", (std::filesystem::path(folder) / written.path).string());
  fmt::print("nothing was created{}", terraform ? "; " + cloud::describe_terraform(cluster) : "\n");
  return 0;
}

/// Replaces this program, so that ssh has the terminal.
[[noreturn]] void become(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  restore_write_signals();
  execvp(argv[0], argv.data());
  fail(ErrorKind::io, "cannot start {}: {}", words[0], std::strerror(errno));
}

bool ask(const std::string& question) {
  fmt::print("{} [y/N] ", question);
  std::fflush(stdout);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

}  // namespace

int run_cluster(CommandLine line) {
  Flags app(std::move(line), "trireme cluster", "Creates and manages a cluster for training, described by one file.");
  app.set_footer(
      "docs/clouds.md describes all options of the file; docs/cluster-azure.md, -aws.md and -hosts.md start from "
      "scratch.");
  InitRequest first;
  std::string file, folder, node, planned_node;
  std::vector<std::string> names, command, run;
  int count = 1;
  cloud::PlanFormat format = cloud::PlanFormat::native;
  bool yes = false, as_ssh_config = false, take_over = false, on_all = false;
  app.takes_program(command);

  Flags& init_flags = app.add_action("init", "writes a file for a cluster, with every option explained");
  init_flags.choice("--provider", first.provider, "provider of the machines");
  init_flags.add("--nodes", first.nodes, "number of machines").positive().show_default();
  init_flags.add("--output", first.output, "the file (default: standard output)").output_file();
  init_flags.add("--name", first.name, "name of the cluster");
  init_flags.add("--type", first.type, "size of the machines");
  init_flags.add("--region", first.region, "region of the machines");
  init_flags.add("--hosts", first.hosts, "for provider hosts: h1,h2 or h[1-3]");
  init_flags.add("--from", first.from, "addresses from which ssh is allowed");
  init_flags.add("--package", first.package, "Trireme package for the nodes: .deb or .tar.gz of scripts/package");
  init_flags.add_switch("--overwrite", first.overwrite, "overwrite an existing file");
  const auto of_file = [&](const char* name, const char* purpose) -> Flags& {
    Flags& flags = app.add_action(name, purpose);
    flags.add("FILE", file, "the cluster's file").required();
    return flags;
  };
  const auto asks = [&](Flags& flags) -> Flags& {
    flags.add_switch("--yes", yes, "do not ask");
    return flags;
  };
  Flags& plan_flags = of_file("plan", "writes all files that create will use, and creates nothing");
  plan_flags.add("--output", folder, "a new folder").required();
  plan_flags.choice("--format", format,
                    "native: commands and templates of the provider, as create uses them; terraform: the same cluster "
                    "as configuration of Terraform");
  plan_flags.add("--run", run, "configuration of a run: also prints its memory, time and cost on these machines")
      .one_value();
  plan_flags.add("--node", planned_node, "with --run: type of the machines for trireme plan, or its .yaml file");
  Flags& create_flags = asks(of_file("create", "creates the cluster, or its missing parts, and checks that it works"));
  create_flags.add_switch("--take-over", take_over,
                          "for provider hosts: move existing files of the machines aside (slurm.conf, munge.key, "
                          "/opt/trireme); delete restores them");
  const Flags& status_flags = of_file("status", "shows the machines and their health");
  Flags& add_flags = asks(of_file("add", "adds machines"));
  add_flags.add("--nodes", count, "number of machines to add").positive().show_default();
  Flags& remove_flags = asks(of_file("remove", "removes machines"));
  remove_flags.add("NODE", names, "names of the nodes").required();
  Flags& ssh_flags = of_file("ssh", "logs in to a node, or runs the command after -- there");
  ssh_flags.add("NODE", node, "name of the node (default: the head)");
  ssh_flags.add_switch("--all", on_all, "run the command after -- on all nodes at once; equal output is printed once");
  Flags& hosts_flags = of_file("hosts", "prints the nodes as a hostfile");
  hosts_flags.add_switch("--ssh-config", as_ssh_config, "in the format of ~/.ssh/config");
  const Flags& options_flags = app.add_action("options", "prints the tables of docs/clouds.md: options, node types");
  const Flags& delete_flags = asks(of_file("delete", "deletes everything that belongs to the cluster"));
  if (const auto code = app.parse()) return *code;
  require(command.empty() || ssh_flags.chosen(), ErrorKind::usage,
          "trireme cluster: only ssh accepts a command after --");

  const cloud::Confirm confirm = [yes](const std::string& question) {
    if (yes) fmt::print("{} yes\n", question);
    std::fflush(stdout);  // before messages on standard error
    return yes || ask(question);
  };
  if (options_flags.chosen()) {
    fmt::print("{}\n{}", cloud::options_table(), cloud::node_types_table());
    return 0;
  }
  if (init_flags.chosen()) return init(first);
  if (plan_flags.chosen()) return plan(file, folder, format, run, planned_node);
  if (create_flags.chosen()) return cloud::create(file, confirm, take_over);
  if (status_flags.chosen()) return cloud::status(file);
  if (add_flags.chosen()) return cloud::add_nodes(file, count, confirm);
  if (remove_flags.chosen()) return cloud::remove_nodes(file, names, confirm);
  if (delete_flags.chosen()) return cloud::destroy(file, confirm);
  if (hosts_flags.chosen()) {
    fmt::print("{}", as_ssh_config ? cloud::nodes_as_ssh_config(file) : cloud::nodes_as_hostfile(file));
    return 0;
  }
  if (on_all) {
    require(node.empty() && !command.empty(), ErrorKind::usage,
            "trireme cluster ssh --all: expected a command for all nodes: trireme cluster ssh FILE --all -- COMMAND");
    return cloud::run_on_all(file, fmt::format("{}", fmt::join(command, " ")));
  }
  std::vector<std::string> words = cloud::ssh_to(file, node);
  words.insert(words.end(), command.begin(), command.end());
  become(words);
}

}  // namespace trireme
