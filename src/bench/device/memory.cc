#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "base/affinity.h"
#include "base/device_place.h"
#include "base/hash.h"
#include "base/time.h"
#include "bench/device/checks.h"
#include "bench/device/rates.h"
#include "comm/scalars.h"
#include "tensor/pinned.h"

namespace trireme::device_check {
namespace {

/// Bytes that differ from place to place, so that a part that is missing or elsewhere shows.
std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> values(bytes);
  for (size_t i = 0; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t)) {
    const uint64_t word = (i + seed) * 0x9E3779B97F4A7C15;
    std::memcpy(&values[i], &word, sizeof word);
  }
  return values;
}

/// "byte 17 of 4096 is 3, not 5"; empty: all are equal.
std::string first_difference(std::span<const std::byte> got, std::span<const std::byte> want) {
  const auto [g, w] = std::ranges::mismatch(got, want);
  if (g == got.end()) return "";
  return fmt::format("byte {} of {} is {:#04x}, not {:#04x}", g - got.begin(), want.size(), static_cast<unsigned>(*g),
                     static_cast<unsigned>(*w));
}

View bytes_of(std::span<std::byte> memory) { return {memory.data(), DType::u8, {static_cast<int64_t>(memory.size())}}; }

/// Seconds of the stream's clock.
double timed(DeviceStream& stream, const std::function<void()>& issue) {
  const Event begin = stream.record_time();
  issue();
  const Event end = stream.record_time();
  end.wait();
  return end.seconds_since(begin);
}

/// Seconds of the fastest of several: the first one makes what all need, and others may be disturbed.
double fastest(DeviceStream& stream, const std::function<void()>& issue) {
  constexpr int kRepeats = 5;
  double least = timed(stream, issue);
  for (int i = 1; i < kRepeats; ++i) least = std::min(least, timed(stream, issue));
  return least;
}

/// None of this process's cores is near the GPU.
bool is_far(const std::string& place) {
  const Cpus near = place_of_device(place).cpus, own = inherited_cpus();
  return !near.empty() && std::ranges::none_of(own, [&](int cpu) { return std::ranges::binary_search(near, cpu); });
}

/// Rates of pinned memory beside that of the PCIe link.
Judgement judge(const Bench& bench, double to, double from) {
  if (!bench.judges_rates) return not_judged("a quick check copies too little");
  Judgement judgement = judge_copies(to, from, read_node_gpus(), bench.gpu.gpu);
  if (!judgement.slow) return judgement;
  if (is_far(bench.gpu.gpu))
    judgement.causes.emplace_back("this rank's cores are not those of the GPU's NUMA node: bind ranks near their GPUs");
  if (judgement.causes.empty())
    judgement.causes.emplace_back(
        "another program copies, or an IOMMU translates every access (start Linux with iommu=pt)");
  return judgement;
}

Result copies_of_one(const Bench& bench) {
  Device& device = bench.gpu.ops->device();
  DeviceStream& stream = device.stream();
  const auto count = static_cast<int64_t>(bench.copy_bytes);
  Arena arena(2 * bench.copy_bytes, device);
  const View a = arena.take(DType::u8, {count}), b = arena.take(DType::u8, {count});
  PinnedMemory pinned(bench.copy_bytes, device);
  const std::span fast(pinned.data(), pinned.bytes());

  std::vector<std::byte> sent = pattern(bench.copy_bytes, 1), back(bench.copy_bytes);
  stream.copy(bytes_of(sent), a);  // the first copy makes what all need
  const double to = timed(stream, [&] { stream.copy(bytes_of(sent), a); });
  const double on = timed(stream, [&] { stream.copy(a, b); });
  const double from = timed(stream, [&] { stream.copy(b, bytes_of(back)); });
  if (const std::string other = first_difference(back, sent); !other.empty())
    return failed("what went to the GPU and back through pageable memory is not what was sent: " + other);

  sent = pattern(bench.copy_bytes, 2);
  std::ranges::copy(sent, fast.begin());
  const double pinned_to = fastest(stream, [&] { stream.copy_later(bytes_of(fast), a); });
  std::ranges::fill(fast, std::byte{0});
  const double pinned_from = fastest(stream, [&] { stream.copy_later(a, bytes_of(fast)); });
  if (const std::string other = first_difference(fast, sent); !other.empty())
    return failed("what went to the GPU and back through pinned memory is not what was sent: " + other);

  const auto rate = [&](double seconds) { return static_cast<double>(bench.copy_bytes) / seconds; };
  Result result{
      .text = fmt::format("GB/s to the GPU and from it: pageable {:.1f} and {:.1f}, pinned {:.1f} and {:.1f}; on it "
                          "{:.1f} (read and written)",
                          rate(to) / 1e9, rate(from) / 1e9, rate(pinned_to) / 1e9, rate(pinned_from) / 1e9,
                          2 * rate(on) / 1e9),
      .figures = {{"to_gpu_bytes_per_s", rate(to)},
                  {"from_gpu_bytes_per_s", rate(from)},
                  {"pinned_to_gpu_bytes_per_s", rate(pinned_to)},
                  {"pinned_from_gpu_bytes_per_s", rate(pinned_from)},
                  {"on_gpu_bytes_per_s", 2 * rate(on)}}};
  const Judgement judgement = judge(bench, rate(pinned_to), rate(pinned_from));
  if (judgement.expected > 0) result.figures.push_back({"pcie_bytes_per_s", judgement.expected});
  add(judgement, result);
  return result;
}

}  // namespace

Result check_copies(const Bench& bench) {
  Scalars scalars(bench.rank.world);
  const int64_t turns = scalars.max(static_cast<int64_t>(bench.rank.local_size()));
  Result result;
  for (int turn = 0; turn < turns; ++turn) {
    if (turn == bench.rank.local_rank()) {
      try {
        result = copies_of_one(bench);
      } catch (const std::exception& e) {  // the others have their turns
        result = failed(e.what());
      }
    }
    scalars.barrier();
  }
  return result;
}

Result check_events(const Bench& bench) {
  constexpr int kBefore = 8;  // copies that a stream which does not wait would overtake
  Device& device = bench.gpu.ops->device();
  DeviceStream& first = device.stream();
  const std::unique_ptr<DeviceStream> second = device.make_stream();
  const auto count = static_cast<int64_t>(bench.copy_bytes);
  Arena arena(2 * bench.copy_bytes, device);
  const View a = arena.take(DType::u8, {count}), b = arena.take(DType::u8, {count});
  PinnedMemory out(bench.copy_bytes, device), in(bench.copy_bytes, device);
  const std::span target(in.data(), in.bytes());
  const std::vector<std::byte> sent = pattern(bench.copy_bytes, 3);
  std::memcpy(out.data(), sent.data(), sent.size());
  std::ranges::fill(target, std::byte{0});

  const auto start = Clock::now();
  const Event begin = first.record_time();
  for (int i = 0; i < kBefore; ++i) first.copy(b, a);
  first.copy_later(bytes_of({out.data(), out.bytes()}), b);
  const Event written = first.record();
  second->wait(written);
  second->copy_later(b, bytes_of(target));
  const Event end = second->record_time();
  end.wait();
  first.finish();  // before its memory ends
  const double host = seconds_since(start), own = end.seconds_since(begin);
  if (const std::string other = first_difference(target, sent); !other.empty())
    return failed("a stream that waits for an event of another one did not see its work: " + other);
  if (!written.reached()) return failed("event pending although work that waits for it has finished");
  // The clocks of host and GPU differ by less than the host needs to notice the end.
  if (!(own > 0) || own > 1.1 * host + 1e-3)
    return failed(fmt::format("events are {:.6f} s apart, but the host saw them within {:.6f} s", own, host));
  return {.text = fmt::format("a second stream waited for the first one; {:.2f} ms by events, {:.2f} ms by the host",
                              1e3 * own, 1e3 * host),
          .figures = {{"event_seconds", own}, {"host_seconds", host}}};
}

}  // namespace trireme::device_check
