#include "train/run_claim.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"

namespace trireme {

RunClaim::RunClaim(const Config& config, const Process& process, const std::vector<std::string>& control)
    : dir_(config.run.dir), process_(process) {
  if (process.rank() != 0) return;
  lock_.emplace(dir_, this_owner(), config.run.take_over);
  write({.state = "running", .control = fmt::format("{}", fmt::join(control, ","))});
}

void RunClaim::check() const {
  if (lock_) lock_->check();
}

void RunClaim::end(RunStatus status) const {
  try {
    check();
  } catch (const Error&) {
    return;  // what the folder says is its new owner's business
  }
  try {
    write(std::move(status));
  } catch (const Error& e) {
    log::warning("{}", e.what());  // it must hide neither why the run ends nor its exit code
  }
}

void RunClaim::write(RunStatus status) const {
  status.rank = process_.rank();
  status.host = process_.host();
  write_status(dir_, status);
}

}  // namespace trireme
