// Sums between GPUs as training makes them: the library's messages, our operator that adds in rank order.

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/time.h"
#include "bench/data_sheet.h"
#include "bench/device/checks.h"
#include "comm/scalars.h"
#include "exchange/message_group.h"
#include "tensor/device_network.h"

namespace trireme::device_check {
namespace {

constexpr double kLeastShare = 0.5;  ///< of the link's rate: below it a link is down or messages take another way
constexpr int kRepeats = 5;

float contribution(int rank, int64_t i) { return static_cast<float>((i * 7 + rank * 13) % 101); }

/// Waits so many seconds at most; whether the event was reached.
bool reach(const Event& event, DeviceNetwork& network, double longest) {
  const auto start = Clock::now();
  while (!event.reached()) {
    if (seconds_since(start) > longest) return false;
    network.check();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  event.wait();
  return true;
}

Result check_one(DeviceNetwork& network) {
  const std::unique_ptr<DeviceLinks> links = network.connect(network.make_id(), 0, 1);
  links->check();
  return {.text = fmt::format("{} connects one rank; start one rank per GPU (mpirun -n N) to check the links between "
                              "GPUs",
                              network.name())};
}

Result check_several(const Bench& bench, DeviceNetwork& network) {
  const int ranks = bench.rank.size(), rank = bench.rank.rank();
  const auto count = static_cast<int64_t>(bench.copy_bytes / sizeof(float));
  const std::vector<ElementRange> pieces = equal_pieces(count, ranks);
  const auto group = make_stream_group(bench.rank.world, *bench.gpu.ops, {.sums = {{DType::f32, longest_of(pieces)}}});
  Arena arena(bench.copy_bytes, bench.gpu.ops->device());
  const View x = arena.take(DType::f32, {count});
  {
    HostWriter<float> values(x);
    for (int64_t i = 0; i < count; ++i) values.get()[static_cast<size_t>(i)] = contribution(rank, i);
  }
  const auto sum = [&] {
    return reach(group->sum(x, pieces, {DType::f32}, bench.gpu.ops->device().stream().record()), network,
                 bench.longest_sum);
  };
  const std::string late = fmt::format("a sum over {} GPUs was not done after {:.0f} s", ranks, bench.longest_sum);
  if (!sum()) return failed(late);
  {
    const HostValues<float> values(x);
    for (int64_t i = 0; i < count; ++i) {
      float want = 0;
      for (int r = 0; r < ranks; ++r) want += contribution(r, i);
      if (const float got = values.get()[static_cast<size_t>(i)]; got != want)
        return failed(
            fmt::format("the sum over {} GPUs is wrong at element {} of {}: {}, not {}", ranks, i, count, got, want));
    }
  }
  const auto start = Clock::now();
  for (int i = 0; i < kRepeats; ++i)
    if (!sum()) return failed(late);
  const double seconds = seconds_since(start) / kRepeats;
  const double rate = 2.0 * (ranks - 1) / ranks * static_cast<double>(bench.copy_bytes) / seconds;
  Result result{
      .text = fmt::format("{}: right sums over {} GPUs, {:.1f} GB/s bus bandwidth", network.name(), ranks, rate / 1e9),
      .figures = {{"bus_bytes_per_s", rate}}};
  const DataSheet sheet = data_sheet_of(bench.gpu.hardware);
  if (!bench.rank.one_host() || sheet.link == 0) {
    result.text += bench.rank.one_host() ? "; no rate of the links is known for this GPU" : "; on several hosts";
    return result;
  }
  result.figures.push_back({"link_bytes_per_s", sheet.link});
  const std::string share =
      fmt::format("{:.0f} % of the {:.0f} GB/s of a {}'s links", 1e2 * rate / sheet.link, sheet.link / 1e9, sheet.card);
  result.text += ", " + share;
  if (rate >= kLeastShare * sheet.link) return result;
  result.verdict = Verdict::failed;
  result.text += fmt::format(
      "; at least {:.0f} % is expected: `trireme device` shows the links, NCCL_DEBUG=INFO the way "
      "that messages take",
      1e2 * kLeastShare);
  return result;
}

}  // namespace

Result check_links(const Bench& bench) {
  DeviceNetwork* const network = bench.gpu.ops->device().network();
  Scalars scalars(bench.rank.world);
  const std::vector<std::string> reasons = scalars.gather(network == nullptr ? bench.why_no_network : "");
  for (const std::string& reason : reasons)
    if (!reason.empty()) return not_checked(reason);
  return bench.rank.size() == 1 ? check_one(*network) : check_several(bench, *network);
}

}  // namespace trireme::device_check
