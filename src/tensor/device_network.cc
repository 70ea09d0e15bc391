#include "tensor/device_network.h"

#include <utility>

namespace trireme {

void DeviceNetwork::abort() noexcept {
  awaited_.clear();
  abort_all();
}

void DeviceNetwork::await(Awaited work) {
  awaited();
  awaited_.push_back(std::move(work));
}

const DeviceNetwork::Awaited* DeviceNetwork::awaited() {
  while (!awaited_.empty() && awaited_.front().event.reached()) awaited_.pop_front();
  return !awaited_.empty() && awaited_.front().before.reached() ? &awaited_.front() : nullptr;
}

}  // namespace trireme
