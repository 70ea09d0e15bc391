#include "comm/stream_group.h"

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/time.h"
#include "comm/heartbeat.h"
#include "tensor/device_network.h"

namespace trireme {
namespace {

struct Both final : Event::State {
  Both(Event x, Event y) : a(std::move(x)), b(std::move(y)) {}
  void wait() override {
    a.wait();
    b.wait();
  }
  bool reached() override { return a.reached() && b.reached(); }
  void hold(DeviceStream& stream) override {
    a.hold(stream);
    b.hold(stream);
  }
  Event a, b;
};

/// After a failure no group waits for others any more.
void check(DeviceNetwork& network) {
  try {
    network.check();
  } catch (...) {
    network.abort();
    throw;
  }
}

}  // namespace

Event both(Event a, Event b) { return Event(std::make_shared<Both>(std::move(a), std::move(b))); }

void StreamGroup::wait(const Event& event, const char* what, uint64_t bytes) const {
  if (event.reached()) return;
  const Waiting waiting(heartbeat(), what, bytes);
  event.wait();
}

void wait_watching(const Event& event, Device& device, Heartbeat* heartbeat) {
  DeviceNetwork* network = device.network();
  if (network == nullptr) return event.wait();
  constexpr std::chrono::microseconds kLook{20};
  constexpr std::chrono::milliseconds kCheck{20};
  std::optional<Waiting> waiting;
  const DeviceNetwork::Awaited* told = nullptr;
  auto checked = Clock::now();
  while (!event.reached()) {
    if (const DeviceNetwork::Awaited* awaited = network->awaited(); awaited != told) {
      waiting.reset();
      told = awaited;
      if (told) waiting.emplace(heartbeat, told->what, told->bytes);
    }
    if (const auto now = Clock::now(); now - checked > kCheck) {
      check(*network);
      checked = now;
    }
    std::this_thread::sleep_for(kLook);
  }
  waiting.reset();
  check(*network);  // what an aborted message leaves counts as done
  event.wait();
}

}  // namespace trireme
