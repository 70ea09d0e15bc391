#include "cluster/health/slurm_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "cluster/health/check.h"

namespace trireme::health {
namespace {

constexpr std::string_view kMark = "NHC:";

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::ranges::any_of(starts, [&](std::string_view start) { return text.starts_with(start); });
}

}  // namespace

bool is_own_reason(std::string_view reason) { return reason.starts_with(kMark); }

SlurmAction decide(bool healthy, std::string_view problem, std::string_view state_text, std::string_view reason) {
  using Kind = SlurmAction::Kind;
  const std::string state = lower_case(state_text);
  if (state.find_first_of("@#^~%!") != std::string::npos || starts_with_any(state, {"boot", "plan", "pow", "reboot"})) {
    return {Kind::none, fmt::format("the node is {}: it is restarting or changing its power state", state_text), ""};
  }
  const bool ours = is_own_reason(reason);
  const bool no_reason = reason.empty() || lower_case(reason) == "none";
  const bool out = starts_with_any(state, {"drain", "drng", "down", "fail", "maint"});
  if (healthy) {
    if (!out) return {Kind::none, "the node is in service", ""};
    if (!ours)
      return {Kind::none,
              fmt::format("the node is {} for another reason, which Trireme did not set: {}", state_text, reason), ""};
    return {Kind::resume, "", ""};
  }
  if (starts_with_any(state, {"down"})) return {Kind::none, "the node is already down", ""};
  if (out && !ours) {
    return {Kind::none,
            no_reason
                ? std::string("the node is drained without a reason, so somebody else drained it")
                : fmt::format("the node is {} for another reason, which Trireme did not set: {}", state_text, reason),
            ""};
  }
  std::string text = fmt::format("{} {}", kMark, problem);
  std::ranges::replace(text, '\n', ' ');
  if (out && text == reason) return {Kind::none, "the node is already drained for this reason", ""};
  return {Kind::drain, "", std::move(text)};
}

std::string mark_in_slurm(const Machine& machine, const std::string& node, bool healthy, std::string_view problem,
                          bool dry_run) {
  const ProcessResult asked = machine.command({"sinfo", "-h", "-n", node, "-o", "%t|%E"});
  require(asked.exit_code == 0, ErrorKind::io, "sinfo {}: {}", describe_end(asked),
          asked.err.substr(0, asked.err.find('\n')));
  const auto lines = split_lines(asked.out);
  require(!lines.empty() && lines[0].find('|') != std::string_view::npos, ErrorKind::io,
          "Slurm does not know the node \"{}\"; give its name with --name", node);
  const size_t bar = lines[0].find('|');
  const std::string_view state = trim_blanks(lines[0].substr(0, bar)), reason = trim_blanks(lines[0].substr(bar + 1));
  const SlurmAction action = decide(healthy, problem, state, reason);
  if (action.kind == SlurmAction::Kind::none) return "not changed: " + action.why;
  const bool drains = action.kind == SlurmAction::Kind::drain;
  if (dry_run) return drains ? "would be drained: " + action.reason : "would be resumed";
  std::vector<std::string> command = {"scontrol", "update", "NodeName=" + node};
  if (drains) {
    command.insert(command.end(), {"State=DRAIN", "Reason=" + action.reason});
  } else {
    command.push_back("State=RESUME");
  }
  const ProcessResult done = machine.command(command);
  require(done.exit_code == 0, ErrorKind::io, "`{}` {}: {}", shell_join(command), describe_end(done),
          done.err.substr(0, done.err.find('\n')));
  return drains ? "drained: " + action.reason : "resumed";
}

void mark_in_slurm(const Machine& machine, const MarkOptions& options, Report& report) {
  const auto failures = report.failures();
  if (failures.empty() && report.checked() == 0) {
    report.slurm = "not changed: nothing was checked";
    return;
  }
  try {
    report.slurm = mark_in_slurm(machine, options.node, failures.empty(),
                                 failures.empty() ? "" : failures.front()->outcome.text, options.dry_run);
  } catch (const Error& e) {
    report.slurm = std::string("not marked: ") + e.what();
    report.slurm_failed = true;
  }
}

}  // namespace trireme::health
