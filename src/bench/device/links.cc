// Sums between GPUs: the library's own, and those of training: its messages, our operator that adds in rank order.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "base/time.h"
#include "bench/data_sheet.h"
#include "bench/device/checks.h"
#include "bench/device/rates.h"
#include "comm/scalars.h"
#include "exchange/mesh_devices.h"
#include "exchange/message_group.h"
#include "tensor/device_network.h"

namespace trireme::device_check {
namespace {

constexpr int kRepeats = 5;
constexpr size_t kCopies = 4;  ///< times Bench::copy_bytes: 256 MiB reach the links' rate

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

/// An array whose sum over the ranks is known.
class Summed {
 public:
  Summed(const Bench& bench, int64_t count)
      : ranks_(bench.rank.size()),
        rank_(bench.rank.rank()),
        arena_(static_cast<size_t>(count) * sizeof(float), bench.gpu.ops->device()),
        x_(arena_.take(DType::f32, {count})) {
    fill();
  }
  View x() const { return x_; }
  void fill() const {
    write_values<float>(x_, [&](auto to) {
      for (size_t i = 0; i < to.size(); ++i) to[i] = contribution(rank_, static_cast<int64_t>(i));
    });
  }
  /// Where the sum is wrong; empty: nowhere.
  std::string fault(const char* of) const {
    const HostValues<float> values(x_);
    for (size_t i = 0; i < values.get().size(); ++i) {
      float want = 0;
      for (int r = 0; r < ranks_; ++r) want += contribution(r, static_cast<int64_t>(i));
      if (const float got = values.get()[i]; got != want)
        return fmt::format("{} over {} is wrong at element {} of {}: {}, not {}", of, count_text(ranks_, "GPU"), i,
                           values.get().size(), got, want);
    }
    return "";
  }

 private:
  int ranks_, rank_;
  Arena arena_;
  View x_;
};

/// Collective: all ranks go on, or none does. What `check` gives, or its error as a failure; a failure, too, if that of
/// another rank failed.
Result agreed(Scalars& scalars, const char* of, const std::function<Result()>& check) {
  Result result;
  try {
    result = check();
  } catch (const Error& e) {
    result = failed(e.what());
  }
  const std::vector<std::string> faults = scalars.gather(result.verdict == Verdict::failed ? result.text : "");
  for (size_t r = 0; r < faults.size() && result.verdict != Verdict::failed; ++r)
    if (!faults[r].empty()) result = failed(fmt::format("{} failed on rank {}", of, r));
  return result;
}

/// Collective. Sums once and looks at the result, then times more. sum: issues one. of: "the library's own sum". The
/// result's text is empty unless it fails; rate: bytes per second of the bus, as nccl-tests counts them.
Result check_sums(const Bench& bench, Scalars& scalars, DeviceNetwork& network, const Summed& array, const char* of,
                  const std::function<Event()>& sum, double& rate) {
  const auto late = [&] {
    return failed(fmt::format("{} over {} did not complete within {:.0f} s", of, count_text(bench.rank.size(), "GPU"),
                              bench.longest_sum));
  };
  const Result first = agreed(scalars, of, [&] {
    if (!reach(sum(), network, bench.longest_sum)) return late();
    const std::string fault = array.fault(of);
    return fault.empty() ? Result{} : failed(fault);
  });
  if (first.verdict == Verdict::failed) return first;
  return agreed(scalars, of, [&]() -> Result {
    const auto start = Clock::now();
    for (int i = 0; i < kRepeats; ++i)
      if (!reach(sum(), network, bench.longest_sum)) return late();
    const double seconds = seconds_since(start) / kRepeats, ranks = bench.rank.size();
    rate = 2 * (ranks - 1) / ranks * static_cast<double>(array.x().bytes()) / seconds;
    return {};
  });
}

/// Collective: the rate beside that of the links.
Judgement judge(const Bench& bench, Scalars& scalars, double rate) {
  if (!bench.judges_rates) return not_judged("a quick check sums too little");
  if (!bench.rank.one_host()) return not_judged("the GPUs are on several hosts");
  const std::vector<std::string> places = scalars.gather(bench.gpu.gpu);
  return judge_links(rate, data_sheet_of(bench.gpu.hardware), read_node_gpus(), places);
}

/// At the end of a scope.
struct Disconnect {
  explicit Disconnect(Communicator& of) : world(of) {}
  ~Disconnect() { world.set_devices({}); }
  Disconnect(const Disconnect&) = delete;
  Disconnect& operator=(const Disconnect&) = delete;
  Communicator& world;
};

Result check_network(const Bench& bench, Scalars& scalars, DeviceNetwork& network) {
  const int ranks = bench.rank.size();
  const auto count = static_cast<int64_t>(kCopies * bench.copy_bytes / sizeof(float));
  DeviceStream& stream = bench.gpu.ops->device().stream();
  Communicator& world = bench.rank.world;
  connect_devices(world, bench.gpu.ops->device());
  const Disconnect disconnect{world};
  const std::unique_ptr<DeviceLinks> links = world.devices()->split(0, world.rank(), LinkUse::tensors);
  const std::vector<ElementRange> pieces = equal_pieces(count, ranks);
  std::unique_ptr<StreamGroup> group;
  if (ranks > 1) group = make_stream_group(world, *bench.gpu.ops, {.sums = {{DType::f32, longest_of(pieces)}}});
  const Summed array(bench, count);
  double of_library = 0, of_ours = 0;
  Result result = check_sums(
      bench, scalars, network, array, "the library's own sum",
      [&] {
        links->collective(stream, DeviceCollective::all_reduce, array.x(), array.x(), 0);
        return stream.record();
      },
      of_library);
  if (result.verdict == Verdict::failed) return result;
  if (ranks == 1) {
    result.text = fmt::format(
        "{}: a right sum over one GPU; start one rank per GPU (mpirun -n N) to check the links "
        "between GPUs",
        network.name());
    return result;
  }
  array.fill();
  result = check_sums(
      bench, scalars, network, array, "training's sum",
      [&] { return group->sum(array.x(), pieces, {DType::f32}, stream.record()); }, of_ours);
  if (result.verdict == Verdict::failed) return result;
  result.text = fmt::format(
      "{}: right sums over {} GPUs, {:.1f} GB/s bus bandwidth by the library's own sum, {:.1f} by "
      "training's",
      network.name(), ranks, of_library / 1e9, of_ours / 1e9);
  result.figures = {{"library_bus_bytes_per_s", of_library}, {"training_bus_bytes_per_s", of_ours}};
  const Judgement judgement = judge(bench, scalars, of_library);
  if (judgement.expected > 0) result.figures.push_back({"link_bytes_per_s", judgement.expected});
  add(judgement, result);
  return result;
}

}  // namespace

Result check_links(const Bench& bench) {
  DeviceNetwork* const network = bench.gpu.ops->device().network();
  Scalars scalars(bench.rank.world);
  const std::vector<std::string> reasons = scalars.gather(network == nullptr ? bench.why_no_network : "");
  for (const std::string& reason : reasons)
    if (!reason.empty()) return not_checked(reason);
  return check_network(bench, scalars, *network);
}

}  // namespace trireme::device_check
