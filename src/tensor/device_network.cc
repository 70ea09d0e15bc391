#include "tensor/device_network.h"

#include <chrono>
#include <thread>

#include "base/time.h"
#include "tensor/device.h"

namespace trireme {

void wait_watching(const Event& event, Device& device) {
  if (DeviceNetwork* network = device.network()) {
    constexpr std::chrono::microseconds kLook{20};
    constexpr std::chrono::milliseconds kCheck{20};
    auto checked = Clock::now();
    while (!event.reached()) {
      if (const auto now = Clock::now(); now - checked > kCheck) {
        network->check();
        checked = now;
      }
      std::this_thread::sleep_for(kLook);
    }
    network->check();  // what an aborted message leaves counts as done
  }
  event.wait();
}

}  // namespace trireme
