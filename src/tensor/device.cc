#include "tensor/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/size.h"
#include "base/time.h"

namespace trireme {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

struct HostPoint final : Event::State {
  void wait() override {}
  bool reached() override { return true; }
  double seconds_since(const State& earlier) const override {
    return std::chrono::duration<double>(time - dynamic_cast<const HostPoint&>(earlier).time).count();
  }
  Clock::time_point time = Clock::now();
};

/// Work runs when it is issued.
class HostStream final : public DeviceStream {
 public:
  Event record() override { return {}; }
  Event record_time() override { return Event(std::make_shared<HostPoint>()); }
  void copy(ConstView from, View to) override { std::memcpy(to.data(), from.data(), from.bytes()); }
  void copy_later(ConstView from, View to) override { copy(from, to); }
};

class Host final : public Device {
 public:
  std::string_view name() const override { return "host"; }
  bool is_host() const override { return true; }

  /// Requests transparent huge pages.
  std::byte* allocate(size_t bytes) override {
    // Reserves one huge page more than needed to find an aligned start, then returns both ends.
    void* raw =
        mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(raw != MAP_FAILED, ErrorKind::io,
            "cannot allocate {:.2f} GB of memory for tensors; use a smaller model, micro-batch or sequence",
            static_cast<double>(bytes) / 1e9);
    auto* start = static_cast<std::byte*>(raw);
    const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(start) % kHugePage) % kHugePage;
    if (head > 0) munmap(start, head);
    if (head < kHugePage) munmap(start + head + bytes, kHugePage - head);
    madvise(start + head, bytes, MADV_HUGEPAGE);  // advice only: without it the memory is slower
    return start + head;
  }
  void free(std::byte* memory, size_t bytes) noexcept override { munmap(memory, bytes); }
  void release(std::byte* memory, size_t bytes) override {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t first = (begin + page - 1) / page * page, last = (begin + bytes) / page * page;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }

  DeviceStream& stream() override { return stream_; }
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<HostStream>(); }

 private:
  HostStream stream_;
};

}  // namespace

std::byte* Device::allocate_pinned(size_t bytes) { return host_device().allocate(bytes); }
void Device::free_pinned(std::byte* memory, size_t bytes) noexcept { host_device().free(memory, bytes); }

double Event::State::seconds_since(const State&) const {
  fail(ErrorKind::shape, "the event was recorded without its time");
}

Device& host_device() {
  static Host device;
  return device;
}

namespace detail {
void refuse_host_access(const Device& device) {
  fail(ErrorKind::shape, "a tensor of device {} cannot be read or written on the host; copy it there first",
       device.name());
}
}  // namespace detail

}  // namespace trireme
