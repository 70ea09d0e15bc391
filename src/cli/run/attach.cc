// trireme attach RUN: follows the log of the job that works in a run folder. It is only a reader: what becomes of it is
// nothing to the job.

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

int run_attach(std::vector<std::string> arguments) {
  Flags app("trireme attach", "Follows the log lines of the job that works in a run folder, until it ends or Ctrl-C.");
  app.set_footer("Ctrl-C ends this command and not the job. At the end of the job the exit code is the job's.");
  std::string run;
  app.add("RUN", run, "run folder").required();
  if (const auto code = app.parse(std::move(arguments))) return *code;

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
      if (std::fflush(stdout) != 0) return 0;  // nobody reads any more
    }
    if (message.contains("end")) end = message["end"];
  }
  if (detach) {
    log::info("detached; the job goes on (trireme stop {} stops it)", run);
    return 0;
  }
  const auto status = contact.end(end);
  if (!status) {
    log::error("{}", kGoneWithoutAWord);
    return 1;
  }
  log::info("the job {}", describe(*status));
  return status->code;
}

}  // namespace trireme
