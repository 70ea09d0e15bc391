#include "cluster/health/slurm_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "cluster/health/check.h"

namespace trireme::health {
namespace {

using Kind = SlurmAction::Kind;

constexpr std::string_view kMark = "NHC:";

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::ranges::any_of(starts, [&](std::string_view start) { return text.starts_with(start); });
}

/// "check_hw_eth" of "check_hw_eth lo" and of "check_hw_eth: no network interface ib0"; else empty.
std::string_view check_name(std::string_view text) {
  if (!text.starts_with("check_")) return "";
  return text.substr(0, text.find_first_of(" \t:\""));
}

/// What a reason blames.
struct Blame {
  std::string_view check;  ///< the name of a check; empty: it names none
  std::string_view line;   ///< begins with the text of a line; empty: it quotes none

  bool is_known() const { return !check.empty() || !line.empty(); }
  bool fits(const Result& result) const {
    if (!line.empty() && !result.check.empty() && line.starts_with(result.check)) return true;
    return !check.empty() && (check_name(result.check) == check ||
                              std::ranges::find(result.outcome.called, check) != result.outcome.called.end());
  }
};

Blame blame_of(std::string_view reason) {
  if (is_own_reason(reason)) reason.remove_prefix(kMark.size());
  reason = trim_blanks(reason);
  Blame blame;
  // How this program and NHC quote a line that ran too long, crashed, or ended with a code.
  for (const std::string_view before :
       {"watchdog: Script timed out while executing \"", "Script timed out while executing \"", "`", "Check "}) {
    if (!reason.starts_with(before) || (before == "Check " && reason.find(" returned ") == reason.npos)) continue;
    reason.remove_prefix(before.size());
    blame.line = reason;
    break;
  }
  blame.check = check_name(reason);
  return blame;
}

/// What became of the cause of a reason.
struct Cause {
  enum class Kind { passed, failed, open } kind = Kind::open;
  const Result* failure = nullptr;  ///< of failed: again
  std::string why = {};             ///< of open
};

Cause cause_now(const Report& report, std::string_view reason) {
  const Blame blame = blame_of(reason);
  bool passed = false;
  for (const Result& result : report.results) {
    if (blame.is_known() && !blame.fits(result)) continue;
    if (result.outcome.kind == Outcome::Kind::pass) {
      passed = true;
    } else if (result.outcome.kind != Outcome::Kind::fail) {
      return {.why = fmt::format("`{}` was not checked: {}", result.check, result.outcome.text)};
    } else if (blame.is_known()) {
      return {.kind = Cause::Kind::failed, .failure = &result};
    } else {
      return {.why = "its reason names no check, so all of them have to pass"};
    }
  }
  if (passed) return {.kind = Cause::Kind::passed};
  const std::string_view name = blame.check.empty() ? blame.line : blame.check;
  return {.why = fmt::format("{} did not run", blame.is_known() ? fmt::format("`{}`", name) : "a check")};
}

std::string not_ours(std::string_view state, std::string_view reason) {
  if (reason.empty() || lower_case(reason) == "none")
    return fmt::format("the node is {} without a reason, so somebody else drained it", state);
  return fmt::format("the node is {} for another reason, which Trireme did not set: {}", state, reason);
}

/// A failure's text, which begins with the name of its check if that has one.
std::string problem_of(const Result& failure) {
  const std::string_view name = check_name(failure.check);
  if (name.empty() || blame_of(failure.outcome.text).is_known()) return failure.outcome.text;
  return fmt::format("{}: {}", name, failure.outcome.text);
}

/// What is done with the node, in words.
std::string mark(const Machine& machine, const MarkOptions& options, const Report& report) {
  const ProcessResult asked = machine.command({"sinfo", "-h", "-n", options.node, "-o", "%t|%E"});
  require(asked.exit_code == 0, ErrorKind::io, "sinfo {}: {}", describe_end(asked),
          asked.err.substr(0, asked.err.find('\n')));
  const auto lines = split_lines(asked.out);
  require(!lines.empty() && lines[0].find('|') != std::string_view::npos, ErrorKind::io,
          "Slurm does not know the node \"{}\"; give its name with --name", options.node);
  const size_t bar = lines[0].find('|');
  const std::string_view state = trim_blanks(lines[0].substr(0, bar)), reason = trim_blanks(lines[0].substr(bar + 1));
  SlurmAction action = decide(report, state, reason);
  if (action.kind == Kind::resume && options.require_all && !report.not_checked().empty())
    action = {.why = "not everything was checked, which --require-all asks for"};
  if (action.kind == Kind::none) return "not changed: " + action.why;
  const bool drains = action.kind == Kind::drain;
  if (options.dry_run) return drains ? "would be drained: " + action.reason : "would be resumed";
  std::vector<std::string> command = {"scontrol", "update", "NodeName=" + options.node};
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

}  // namespace

bool is_own_reason(std::string_view reason) { return reason.starts_with(kMark); }

SlurmAction decide(const Report& report, std::string_view state_text, std::string_view reason) {
  const std::string state = lower_case(state_text);
  const bool healthy = report.healthy();
  if (state.find_first_of("@#^~%!") != std::string::npos || starts_with_any(state, {"boot", "pow", "reb"}))
    return {.why = fmt::format("the node is {}: it is restarting or changing its power state", state_text)};
  if (starts_with_any(state, {"down", "fut"}))
    return {.why = fmt::format("the node is {}: it is not in service, and no health check drained it", state_text)};
  // A node in a maintenance reservation is "maint", or another state with "$", for example "drain$".
  const bool out = starts_with_any(state, {"drain", "drng", "fail"});
  if (!out && (state.starts_with("maint") || state.ends_with('$')))
    return {.why = fmt::format("the node is {}: it is in a maintenance reservation", state_text)};
  if (healthy && !out) return {.why = "the node is in service"};
  if (out && !is_own_reason(reason)) return {.why = not_ours(state_text, reason)};
  const Cause cause = out ? cause_now(report, reason) : Cause{};
  if (healthy) {
    if (cause.kind == Cause::Kind::passed) return {.kind = Kind::resume};
    return {.why = fmt::format("it stays {} ({}), because {}; once it is repaired: scontrol update NodeName={} "
                               "State=RESUME",
                               state_text, reason, cause.why, report.host)};
  }
  const Result& failure = cause.failure != nullptr ? *cause.failure : *report.failures().front();
  std::string text = fmt::format("{} {}", kMark, problem_of(failure));
  std::ranges::replace(text, '\n', ' ');
  if (out && text == reason) return {.why = "the node is already drained for this reason"};
  if (out && cause.kind == Cause::Kind::open)
    return {.why = fmt::format("the node is {} already ({}), and keeps that reason, because {}", state_text, reason,
                               cause.why)};
  return {.kind = Kind::drain, .reason = std::move(text)};
}

void mark_in_slurm(const Machine& machine, const MarkOptions& options, Report& report) {
  if (report.healthy() && report.checked() == 0) {
    report.slurm = "not changed: nothing was checked";
    return;
  }
  try {
    report.slurm = mark(machine, options, report);
  } catch (const Error& e) {
    report.slurm = std::string("not marked: ") + e.what();
    report.slurm_failed = true;
  }
}

}  // namespace trireme::health
