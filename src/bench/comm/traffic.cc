#include "bench/comm/traffic.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "base/time.h"

namespace trireme::comm_bench {
namespace {

constexpr int64_t kMessage = 1 << 20;
constexpr size_t kWindow = 8;

Shape bytes_shape(int64_t bytes) { return Shape{bytes}; }

/// Handle::wait() sleeps to leave the core to others, which would be measured.
void spin(Handle& handle) {
  while (!handle.test()) std::this_thread::yield();
}

void send(Communicator& group, ConstView x, int peer) {
  Handle handle = group.send(x, peer, 0);
  spin(handle);
}

void receive(Communicator& group, View x, int peer) {
  Handle handle = group.receive(x, peer, 0);
  spin(handle);
}

}  // namespace

void Job::meet() {
  Handle handle = group.barrier();
  spin(handle);
}

double ping_pong_rate(Job& job, int64_t bytes, int rounds) {
  Communicator& group = job.group;
  const int last = group.size() - 1;
  std::vector<double> seconds;
  if (group.rank() == 0 || group.rank() == last) {
    std::vector<uint8_t> data(static_cast<size_t>(bytes), 1);
    const View view(data.data(), DType::u8, bytes_shape(bytes));
    const int peer = last - group.rank();
    for (int i = -2; i < rounds; ++i) {  // two to warm up
      const Clock::time_point start = Clock::now();
      if (group.rank() == 0) send(group, view, peer);
      receive(group, view, peer);
      if (group.rank() == last) send(group, view, peer);
      if (i >= 0) seconds.push_back(seconds_since(start) / 2);
    }
  }
  std::ranges::sort(seconds);
  const double median = group.rank() == 0 ? seconds[seconds.size() / 2] : 0;
  return static_cast<double>(bytes) / job.scalars.sum(median);
}

void two_way(Communicator& group, const void* send, void* receive, int64_t bytes) {
  const int next = (group.rank() + 1) % group.size(), before = (group.rank() + group.size() - 1) % group.size();
  std::deque<std::pair<Handle, Handle>> window;
  for (int64_t first = 0; first < bytes; first += kMessage) {
    const int64_t length = std::min(kMessage, bytes - first);
    Handle arrival =
        group.receive(View(static_cast<char*>(receive) + first, DType::u8, bytes_shape(length)), before, 0);
    Handle departure =
        group.send(ConstView(static_cast<const char*>(send) + first, DType::u8, bytes_shape(length)), next, 0);
    window.emplace_back(std::move(arrival), std::move(departure));
    if (window.size() < kWindow) continue;
    spin(window.front().first);
    spin(window.front().second);
    window.pop_front();
  }
  for (auto& [arrival, departure] : window) {
    spin(arrival);
    spin(departure);
  }
}

namespace {

/// Keeps some messages on their way; `start` begins the one at this offset.
template <class Start>
void windowed(int64_t bytes, Start start) {
  std::deque<Handle> window;
  for (int64_t first = 0; first < bytes; first += kMessage) {
    window.push_back(start(first, std::min(kMessage, bytes - first)));
    if (window.size() < kWindow) continue;
    spin(window.front());
    window.pop_front();
  }
  for (Handle& handle : window) spin(handle);
}

}  // namespace

void send_one_way(Communicator& group, const void* data, int64_t bytes, int peer) {
  windowed(bytes, [&](int64_t first, int64_t length) {
    return group.send(ConstView(static_cast<const char*>(data) + first, DType::u8, bytes_shape(length)), peer, 0);
  });
  uint8_t done = 0;
  receive(group, View(&done, DType::u8, bytes_shape(1)), peer);
}

void receive_one_way(Communicator& group, void* data, int64_t bytes, int peer) {
  windowed(bytes, [&](int64_t first, int64_t length) {
    return group.receive(View(static_cast<char*>(data) + first, DType::u8, bytes_shape(length)), peer, 0);
  });
  const uint8_t done = 1;
  send(group, ConstView(&done, DType::u8, bytes_shape(1)), peer);
}

int64_t exchange_token(Job& job, int to, int from) {
  int64_t own = job.rank(), got = -1;
  Handle arrival = job.group.receive(View(&got, DType::i64, Shape{1}), from, 1);
  Handle departure = job.group.send(ConstView(&own, DType::i64, Shape{1}), to, 1);
  spin(arrival);
  spin(departure);
  return got;
}

}  // namespace trireme::comm_bench
