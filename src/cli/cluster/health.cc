// trireme health: checks this node, or every node of a hostfile, with an NHC configuration file.

#include "cli/cluster/health.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/opened_file.h"
#include "base/output_path.h"
#include "base/printable.h"
#include "cli/cluster/host_flags.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cluster/health/run.h"
#include "cluster/health/slurm_state.h"

extern char** environ;

namespace trireme {
namespace {

using namespace health;

constexpr int kUnusableCheck = 2;  // as for other invalid requests
constexpr const char* kDefaultConfig = "/etc/nhc/nhc.conf";

Plan read_plan(const HealthOptions& options, const Machine& machine) {
  Variables fixed;
  for (const std::string& assignment : options.variables) {
    const size_t equals = assignment.find('=');
    require(equals != std::string::npos && equals > 0, ErrorKind::usage,
            "\"{}\" is neither a flag nor NAME=VALUE nor gen", assignment);
    fixed[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  Settings settings = read_settings(machine.full_host, fixed);
  if (!options.check.empty()) {  // one check only shows its result; it never marks a node because a file says so
    for (const char* name : {"MARK_OFFLINE", "DETACHED_MODE"}) {
      if (!fixed.contains(name)) settings.variables.erase(name);
    }
  }
  if (options.verbose) settings.variables["VERBOSE"] = "1";
  return make_plan(parse_nhc_config(health_config_text(options)), machine.full_host, settings);
}

bool is_set(const Plan& plan, const char* name) {
  const auto found = plan.variables.find(name);
  return found != plan.variables.end() && !found->second.empty() && found->second != "0";
}

const char* kind_name(const Step& step) {
  switch (step.kind) {
    case StepKind::variables:
      return "variables";
    case StepKind::native:
      return "native";
    case StepKind::not_implemented:
      return "not implemented";
    case StepKind::bad:
      return "not checked";
    default:
      return "command";
  }
}

int list_plan(const Plan& plan, bool json) {
  Json document = Json::array();
  for (const Step& step : plan.steps) {
    const bool whole = step.kind == StepKind::command || step.kind == StepKind::bad;
    const std::string name = whole ? "" : step.name, arguments = whole ? step.text : shell_join(step.words);
    if (json) {
      document.push_back({{"line", step.number},
                          {"target", step.target},
                          {"applies", step.applies},
                          {"kind", kind_name(step)},
                          {"check", step.name},
                          {"arguments", whole ? std::vector<std::string>{step.text} : step.words}});
      if (!step.problem.empty()) document.back()["problem"] = step.placed_problem();
    } else {
      const std::string line =
          fmt::format("{:<12} {:<15} {}{}{}{}{}", step.target, kind_name(step), name, name.empty() ? "" : " ",
                      arguments, step.applies ? "" : "   (not for this host)",
                      step.problem.empty() ? "" : "   (" + step.placed_problem() + ")");
      fmt::print("{:>4}  {}\n", step.number, printable(line));
    }
  }
  if (json) fmt::print("{}\n", dump_json(document, 2));
  return 0;
}

const char* kind_word(Outcome::Kind kind) {
  if (kind == Outcome::Kind::pass) return ": ok";
  return kind == Outcome::Kind::skipped ? ": skipped" : ": not checked";
}

}  // namespace

void print_results(const Report& report, const std::string& prefix) {
  for (const Result& result : report.results) {
    if (result.outcome.kind == Outcome::Kind::fail) continue;
    const std::string remark = result.outcome.text.empty() ? "" : ": " + result.outcome.text;
    fmt::print("{}line {}: {}{}{}\n", prefix, result.line, result.check, kind_word(result.outcome.kind), remark);
  }
}

namespace {

void print_report(const Report& report, const HealthOptions& options) {
  if (options.json) {
    fmt::print("{}\n", dump_json(to_json(report), options.json_indent));
    return;
  }
  if (options.verbose) print_results(report, "");
  print_node(report, options.quiet);
  if (options.verbose && report.healthy() && report.checked() > 0) {
    log::info("Node Health Check completed successfully ({:.0f}s).", report.seconds);
  }
}

void append_log(const HealthOptions& options, const Report& report) {
  if (options.log_file.empty() || options.log_file == "-") return;
  const OutputTarget target = output_target(options.log_file);
  const int fd = target.is_stream ? open_stream(target, kReaderSeconds)
                                  : open_for_writing(options.log_file, O_WRONLY | O_CREAT | O_APPEND);
  const std::string line = one_line_per_node(report);
  const bool written = fd >= 0 && write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (fd >= 0) close(fd);
  require(written, ErrorKind::io, "cannot write {}", options.log_file);
}

/// Runs the checks, marks the node in Slurm if requested, and returns the report.
Report look(const HealthOptions& options, const Plan& plan, const Machine& machine, bool background) {
  health::CheckOptions run;
  run.all = options.all || is_set(plan, "NHC_CHECK_ALL");
  run.seconds = watchdog_seconds(options.seconds, plan);
  if (options.verbose && !background) {
    run.announce = [](const Step& step) { log::info("Running check:  \"{}\"", step.text); };
  }
  Report report = run_plan(plan, machine, run);
  if (options.drain || is_set(plan, "MARK_OFFLINE"))
    mark_in_slurm(machine, {machine.host, options.dry_run, options.require_all}, report);
  if (options.require_all) require_all_checked(report);
  append_log(options, report);
  return report;
}

int run_detached(const HealthOptions& options, const Plan& plan, const Machine& machine) {
  const std::string boot = this_boot_id();
  const auto last = last_report(options.result_file, boot);
  std::filesystem::create_directories(std::filesystem::path(options.result_file).parent_path());
  const bool started = run_in_background(
      options.result_file, [&] { save_report(options.result_file, boot, look(options, plan, machine, true)); });
  if (!started) log::warning("the last background run is still running; no new one was started");
  if (!last) {
    log::info("{}: no result since boot; the first run started in the background", machine.host);
    if (!is_set(plan, "DETACHED_MODE_FAIL_NODATA")) return 0;
    fmt::print("{} | ERROR: nhc: Health check failed: Detached mode -- pending checks (no data found)\n", machine.host);
    return 1;
  }
  print_report(*last, options);
  return exit_code(*last, options.all || is_set(plan, "NHC_CHECK_ALL"));
}

/// `gen` reads no configuration, checks nothing and marks nothing.
void refuse_with_gen(const Flags& app) {
  require(app.count("--config") == 0, ErrorKind::usage,
          "gen prints a configuration file and does not read one: use `trireme health gen > FILE` instead of --config "
          "FILE");
  for (const char* flag : {"--check", "--list", "--all", "--timeout", "--name", "--json", "--log", "--no-repair",
                           "--skip-gpu", "--detached", "--drain", "--dry-run", "--require-all"}) {
    require(app.count(flag) == 0, ErrorKind::usage, "{} is for checks, but gen runs no checks", flag);
  }
}

}  // namespace

void print_node(const Report& report, bool quiet) {
  if (!quiet || !report.healthy()) fmt::print("{}", one_line_per_node(report));
  if (report.checked() == 0) {
    log::warning(
        "{}: nothing was checked: {}", report.host,
        report.results.empty() ? "no line of the configuration applies to it" : "none of its checks can run there");
  }
  const auto unknown = std::ranges::count(report.results, Outcome::Kind::not_checked,
                                          [](const Result& result) { return result.outcome.kind; });
  if (unknown > 0) {
    log::warning("{}: {} of the configuration cannot run; --json and -v show why", report.host,
                 count_text(unknown, "check"));
  }
  if (!report.slurm.empty()) {
    log::write(report.slurm_failed ? log::Level::warning : log::Level::info,
               fmt::format("{} in Slurm: {}", report.host, report.slurm));
  }
}

std::string health_config_text(const HealthOptions& options) {
  if (!options.check.empty()) {  // NHC does not read it as a line of a file: backslashes are kept
    std::string text = "* || ";
    for (const char c : options.check) text += c == '\\' ? "\\\\" : std::string(1, c);
    return text + "\n";
  }
  if (options.config == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  return read_nhc_config(options.config);
}

void require_usable(const HealthOptions& options, const Plan& plan) {
  if (options.check.empty()) return;
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::bad || step.number == 0) continue;
    fail(ErrorKind::config, "--check: {}", step.problem);
  }
}

int check_this_node(const HealthOptions& options) {
  Machine machine = Machine::local();
  if (!options.name.empty()) machine.host = machine.full_host = options.name;
  machine.repair = !options.no_repair;
  machine.skip_gpu = options.skip_gpu;
  const Plan plan = read_plan(options, machine);
  require_usable(options, plan);
  if (options.list) return list_plan(plan, options.json);
  if (options.detached || is_set(plan, "DETACHED_MODE")) return run_detached(options, plan, machine);
  const Report report = look(options, plan, machine, false);
  print_report(report, options);
  const bool nothing_known =
      std::ranges::any_of(report.results, [](const Result& result) { return result.outcome.unusable; });
  if (!options.check.empty() && report.checked() == 0 && nothing_known) return kUnusableCheck;
  return exit_code(report, options.all || is_set(plan, "NHC_CHECK_ALL"));
}

int run_health(CommandLine line) {
  Flags app(std::move(line), "trireme health", "Checks a node with an NHC configuration file.");
  app.set_footer(
      "`trireme health gen` prints a configuration file from this node, which it then passes; with -f or --hosts from "
      "several.");
  HealthOptions options;
  options.config = kDefaultConfig;
  app.add("-c,--config", options.config, "NHC configuration file, - for standard input").not_empty().show_default();
  app.add("-e,--check", options.check, "run only this check").not_empty();
  app.add_switch("--list", options.list, "print the parsed checks and run none");
  app.add_switch("-a,--all", options.all, "run all checks; the exit code is the number of failures");
  app.add("-t,--timeout", options.seconds,
          "watchdog for the whole run in seconds (0: none); default: the file's TIMEOUT, otherwise 30, or 500 where a "
          "line measures GPUs or InfiniBand")
      .not_negative();
  app.add("-n,--name", options.name, "host name that targets are compared with, and Slurm's name of this node")
      .not_empty();
  app.add_switch("-v,--verbose", options.verbose, "print each check before and after it runs");
  app.add_switch("-q,--quiet", options.quiet, "print failures only");
  app.add_switch("--json", options.json, "print the report as JSON");
  app.add("-l,--log", options.log_file, "append the result to this file (- : standard output, the default)");
  app.add_switch("--no-repair", options.no_repair, "never run repairs of the file (service start, remount, ...)");
  app.add_switch("--skip-gpu", options.skip_gpu, "skip checks of GPUs where there is no GPU (default: they fail)");
  app.add_switch("--detached", options.detached, "print the last result at once and check again in the background");
  app.add("--result-file", options.result_file, "file for the result of detached mode").show_default();
  app.add_switch("--drain", options.drain,
                 "drain this node in Slurm if it is unhealthy, resume it if only trireme drained it");
  app.add_switch("--dry-run", options.dry_run, "with --drain: only print what would be done in Slurm");
  app.add_switch("--require-all", options.require_all,
                 "count checks that cannot run as failures, which do not drain the node");
  app.add("variables", options.variables, "NAME=VALUE for the file's lines (overrides the file), or gen");
  HostRequest hosts;
  hosts.states = "all";  // checks do not need exclusive nodes
  launch::RemoteOptions remote;
  add_host_flags(app, hosts);
  add_remote_flags(app, remote);
  if (const auto code = app.parse()) return *code;
  require_sinfo(app, hosts);
  complete_remote_options(app, remote);
  const bool several = names_hosts(hosts);
  if (options.variables == std::vector<std::string>{"gen"}) {
    refuse_with_gen(app);
    const HostSet set = several ? resolve_hosts(hosts, environment_variable) : HostSet();
    remote.ports = launch::remote_ports(set.hosts);
    return generate_for(set, remote);
  }
  require(!options.dry_run || options.drain, ErrorKind::usage, "--dry-run needs --drain");
  hosts.may_all_be_out = options.drain;
  if (several) {
    HostSet set = resolve_hosts(hosts, environment_variable);
    remote.ports = launch::remote_ports(set.hosts);
    return check_nodes(options, std::move(set), remote);
  }
  require_no_host_selection(hosts, remote);
  return check_this_node(options);
}

}  // namespace trireme
