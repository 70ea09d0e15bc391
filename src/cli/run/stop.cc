// trireme stop RUN: asks the job of a run folder to save a snapshot and stop, and waits for it.

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/run/contact.h"

namespace trireme {
namespace {

constexpr double kTurnSeconds = 0.2;

/// The process that can stop the whole job: with --now rank 0, which records it in the run folder; otherwise the
/// launch, which also handles restarts.
std::unique_ptr<StatusClient> ask(RunContact& contact, bool now) {
  auto call = now ? contact.ask_job("stop", true) : contact.ask_launch("stop");
  if (!call) call = now ? contact.ask_launch("stop", true) : contact.ask_job("stop");
  return call;
}

int tell(const std::optional<RunStatus>& status, const std::string& run, double seconds) {
  if (!status) {
    log::error("{}", kNoLastStatus);
    return 1;
  }
  if (status->state == RunState::stopped && status->message.empty()) {
    fmt::print("stopped after step {}, {:.1f} s after the request; newest snapshot: {}\n", status->step, seconds,
               newest_snapshot(run));
    return 0;
  }
  const auto local = local_snapshot(run);
  fmt::print("the job {}; newest snapshot: {}{}\n", describe(*status), newest_snapshot(run),
             local ? "; " + *local : std::string());
  return 0;
}

}  // namespace

int run_stop(CommandLine command_line) {
  Flags app(std::move(command_line), "trireme stop",
            "Asks the job of a run folder to save a snapshot and stop, and waits for it.");
  app.set_footer(
      "A job that was stopped like this is not restarted by a launch or requeued by Slurm: start it again to resume "
      "the run. The exit code is 0 when no job is running. Ctrl-C ends only the wait, not the request.");
  std::string run;
  bool now = false;
  app.add("RUN", run, "run folder").required();
  app.add_switch("--now", now, "end it at once without a snapshot: progress since the last snapshot is lost");
  if (const auto code = app.parse()) return *code;

  const std::atomic<bool>& interrupted = stop::watch();
  const auto start = Clock::now();
  RunContact contact(run);
  auto call = ask(contact, now);
  if (!call) {
    require(contact.life() != RunContact::Life::unknown, ErrorKind::io, "{}", contact.absence());
    fmt::print("{}\n", contact.absence());
    return 0;
  }
  Json end;
  while (!interrupted && !call->closed()) {
    const auto line = call->next(kTurnSeconds);
    if (!line) continue;
    const Json message = parse_json(*line, "the job's answer");
    if (message.contains("end")) end = message["end"];
  }
  if (interrupted && !call->closed()) {
    log::info("not waiting: the job will still stop after its current step; trireme stop --now {} ends it at once",
              run);
    return 1;
  }
  return tell(contact.end(end), run, seconds_since(start));
}

}  // namespace trireme
