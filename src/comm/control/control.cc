#include "comm/control/control.h"

#include <fmt/ranges.h>

#include <sstream>

#include "base/error.h"
#include "comm/control/secret.h"
#include "comm/launcher.h"

namespace trireme {

ControlChannel::ControlChannel(Scalars& scalars, const std::string& host, const Heartbeat& own,
                               ControlOptions options) {
  // A listener of what MPI sends must not learn the secret: it is the launch's, or ranks agree on one with rank 0.
  const bool agrees = scalars.broadcast(options.secret.empty() ? "keys" : "launch") == "keys";
  const KeyAgreement key;
  std::string secret = options.secret;
  if (agrees && scalars.size() > 1) {
    const std::vector<std::string> keys = scalars.gather(key.public_key());
    secret = key.secret_with(keys[0]);
    for (const std::string& other : keys) options.rank_secrets.push_back(key.secret_with(other));
  }
  if (scalars.rank() == 0) hub_ = std::make_unique<ControlHub>(scalars.size(), host, own, options);
  std::istringstream lines(scalars.broadcast(hub_ ? fmt::format("{}", fmt::join(hub_->addresses(), "\n")) : ""));
  std::vector<std::string> addresses;
  for (std::string line; std::getline(lines, line);) addresses.push_back(line);
  if (!hub_) {
    require(!secret.empty(), ErrorKind::comm,
            "the launch's secret is missing in the environment of this rank ({}), but rank 0 has it; pass the variable "
            "on to all ranks",
            kControlSecretVariable);
    client_ = std::make_unique<ControlClient>(addresses, secret, scalars.rank(), host, &own, std::move(options));
  }
  scalars.barrier();
}

std::vector<std::string> ControlChannel::addresses() const {
  return hub_ ? hub_->addresses() : std::vector<std::string>();
}

void ControlChannel::dismiss() {
  if (hub_) hub_->dismiss();
}

std::optional<StopRequest> ControlChannel::stop_request() const { return hub_ ? hub_->stop_request() : std::nullopt; }

void ControlChannel::report_trouble() {
  if (hub_) hub_->report_trouble();
  if (client_) client_->report_trouble();
}

std::vector<PeerView> ControlChannel::views() const { return hub_ ? hub_->views() : std::vector<PeerView>(); }

}  // namespace trireme
