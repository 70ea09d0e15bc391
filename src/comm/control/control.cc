#include "comm/control/control.h"

#include <fmt/ranges.h>

#include <sstream>

namespace trireme {

ControlChannel::ControlChannel(Scalars& scalars, const std::string& host, const Heartbeat& own,
                               ControlOptions options) {
  std::string invitation;
  if (scalars.rank() == 0) {
    hub_ = std::make_unique<ControlHub>(scalars.size(), host, own, options);
    invitation = fmt::format("{}\n{}", hub_->secret(), fmt::join(hub_->addresses(), "\n"));
  }
  std::istringstream lines(scalars.broadcast(invitation));
  std::string secret;
  std::getline(lines, secret);
  std::vector<std::string> addresses;
  for (std::string line; std::getline(lines, line);) addresses.push_back(line);
  if (!hub_) {
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

std::vector<PeerView> ControlChannel::views() const { return hub_ ? hub_->views() : std::vector<PeerView>(); }

}  // namespace trireme
