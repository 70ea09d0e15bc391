#include "train/start/run_end.h"

#include <cstdlib>
#include <exception>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_control.h"
#include "comm/agreement.h"
#include "comm/launcher.h"

namespace trireme {
namespace {

RunStatus status_of(const Error& error) {
  return {.state = error.kind() == ErrorKind::stopped ? RunState::stopped : RunState::failed,
          .code = exit_code(error.kind()),
          .step = -1,
          .message = error.what()};
}

/// mpirun and srun take seconds and print many lines for a code other than 0; a launch reads from the run folder how
/// its ranks ended. reported: this rank has written its status there.
int code_for_starter(bool reported) {
  const bool launch_reads = std::getenv(kLaunchPlaceVariable) != nullptr;
  return reported && launch_reads ? 0 : exit_code(ErrorKind::stopped);
}

}  // namespace

int run_to_end(std::optional<RunClaim>& claim, const Process& process, PeerWatch& peers,
               const std::function<RunEnd()>& work) {
  try {
    const RunEnd end = work();
    bool reported = claim.has_value();
    if (claim && process.rank() == 0)
      reported =
          claim->end({.state = end.code == 0 ? RunState::done : RunState::stopped, .code = end.code, .step = end.step});
    return end.code == 0 ? 0 : code_for_starter(reported);
  } catch (const CommonError& e) {
    bool reported = claim.has_value();
    if (claim && process.rank() == 0) reported = claim->end(status_of(e));
    if (e.kind() != ErrorKind::stopped) throw;
    log::write_once(log::Level::info, e.what());
    return code_for_starter(reported);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::comm || e.kind() == ErrorKind::peer) peers.wait_for_verdict();
    // A GPU's connection was ended by another rank, which says why first.
    if (e.kind() == ErrorKind::peer) peers.wait_for_verdict();
    if (claim) claim->end(status_of(e));
    throw;
  } catch (const std::exception& e) {  // out of memory or a bug: the folder must record that the run has ended
    if (claim) claim->end(status_of(Error(ErrorKind::io, e.what())));
    throw;
  }
}

}  // namespace trireme
