#include "train/run_end.h"

#include <exception>

#include "base/error.h"
#include "base/log.h"
#include "comm/agreement.h"

namespace trireme {
namespace {

RunStatus status_of(const Error& error) {
  return {.state = error.kind() == ErrorKind::stopped ? "stopped" : "failed",
          .code = exit_code(error.kind()),
          .step = -1,
          .message = error.what()};
}

}  // namespace

int run_to_end(std::optional<RunClaim>& claim, const Process& process, const PeerWatch& peers,
               const std::function<RunEnd()>& work) {
  try {
    const RunEnd end = work();
    if (claim && process.rank() == 0)
      claim->end({.state = end.code == 0 ? "done" : "stopped", .code = end.code, .step = end.step});
    return end.code;
  } catch (const CommonError& e) {
    if (claim && process.rank() == 0) claim->end(status_of(e));
    if (e.kind() != ErrorKind::stopped) throw;
    log::write_once(log::Level::info, e.what());
    return exit_code(e.kind());
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::comm) peers.wait_for_verdict();
    if (claim) claim->end(status_of(e));
    throw;
  } catch (const std::exception& e) {  // out of memory, or a fault of ours: the folder says that the run has ended
    if (claim) claim->end(status_of(Error(ErrorKind::io, e.what())));
    throw;
  }
}

}  // namespace trireme
