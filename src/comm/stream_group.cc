#include "comm/stream_group.h"

#include <utility>

#include "comm/heartbeat.h"

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

}  // namespace

Event both(Event a, Event b) { return Event(std::make_shared<Both>(std::move(a), std::move(b))); }

void StreamGroup::wait(const Event& event, const char* what, uint64_t bytes) const {
  if (event.reached()) return;
  const Waiting waiting(heartbeat(), what, bytes);
  event.wait();
}

}  // namespace trireme
