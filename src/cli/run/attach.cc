// trireme attach RUN: follows the log of the job of a run folder. It only reads, so the job does not depend on it.

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/stop.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/run/contact.h"

namespace trireme {
namespace {

constexpr double kTurnSeconds = 0.2;

}  // namespace

int run_attach(CommandLine command_line) {
  Flags app(std::move(command_line), "trireme attach",
            "Follows the log of the job of a run folder, until the job ends or Ctrl-C.");
  app.set_footer(
      "Ctrl-C ends this command, not the job. When the job ends, its exit code is the exit code of this command.");
  std::string run;
  app.add("RUN", run, "run folder").required();
  if (const auto code = app.parse()) return *code;

  const std::atomic<bool>& detach = stop::watch();
  RunContact contact(run);
  auto call = contact.ask_launch("attach");
  if (!call) call = contact.ask_job("attach");
  require(call != nullptr, ErrorKind::io, "{}", contact.absence());
  Json end;
  while (!detach) {
    const auto line = call->next(kTurnSeconds);
    if (!line) {
      if (call->closed()) break;
      continue;
    }
    const Json message = parse_json(*line, "the job's answer");
    if (message.contains("line")) {
      fmt::print("{}\n", printable(message.value("line", ""), size_t{64} << 10));
      if (std::fflush(stdout) != 0) return 0;  // the reader is closed
    }
    if (message.contains("end")) end = message["end"];
  }
  if (detach) {
    log::info("detached; the job continues (trireme stop {} stops it)", run);
    return 0;
  }
  const auto status = contact.end(end);
  if (!status) {
    log::error("{}", kNoLastStatus);
    return 1;
  }
  log::info("the job {}", describe(*status));
  return status->code;
}

}  // namespace trireme
