#include "train/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"

namespace trireme {
namespace {

/// All calls of one operator.
struct Sum {
  std::string op;
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

template <class Calls>
std::vector<Sum> sums_of(const Calls& calls) {
  std::map<std::string, Sum> by_name;
  for (const auto& call : calls) {
    Sum& sum = by_name[call.op];
    sum.op = call.op;
    ++sum.calls;
    sum.seconds += call.seconds;
    sum.flops += call.flops;
    sum.bytes += call.bytes;
  }
  std::vector<Sum> sums;
  for (auto& [name, sum] : by_name) sums.push_back(std::move(sum));
  std::ranges::sort(sums, std::greater(), &Sum::seconds);
  return sums;
}

Json event(const std::string& name, double start, double seconds, int rank, int thread) {
  return {{"name", name}, {"ph", "X"}, {"ts", 1e6 * start}, {"dur", 1e6 * seconds}, {"pid", rank}, {"tid", thread}};
}

}  // namespace

void StepProfile::begin_step() {
  recording_ = warm_ && left_ > 0;
  if (!recording_) return;
  stream_.finish();
  step_start_ = mark();
  steps_.push_back({seconds_since(start_), 0, 0});
}

bool StepProfile::end_step(double exposed) {
  warm_ = true;
  if (!recording_) return false;
  recording_ = false;
  const Event end = mark();
  end.wait();
  Step& step = steps_.back();
  step.seconds = end.seconds_since(step_start_);
  step.exposed = exposed;
  for (OpCall& call : calls_)
    timed_.push_back({.op = std::move(call.op),
                      .start = step.start + call.start.seconds_since(step_start_),
                      .seconds = call.end.seconds_since(call.start),
                      .flops = call.flops,
                      .bytes = call.bytes});
  calls_.clear();
  return --left_ == 0;
}

std::string StepProfile::table(const ProfileCeilings& ceilings) const {
  double total = 0, exposed = 0, known = 0;
  for (const Step& step : steps_) {
    total += step.seconds;
    exposed += step.exposed;
  }
  const auto n = static_cast<double>(steps_.size());
  std::string text = fmt::format("{:<36} {:>6} {:>11} {:>7} {:>13} {:>9}\n", "operator", "calls", "ms per step",
                                 "share", "rate", "of ceiling");
  const auto line = [&](const std::string& name, const std::string& calls, double seconds, const std::string& rate) {
    text += fmt::format("{:<36} {:>6} {:>11.2f} {:>6.1f}% {}\n", name, calls, 1e3 * seconds / n, 100 * seconds / total,
                        rate);
    known += seconds;
  };
  for (const Sum& sum : sums_of(timed_)) {
    const bool product = sum.flops > 0;
    const double rate = (product ? sum.flops : sum.bytes) / std::max(sum.seconds, 1e-12);
    line(sum.op, fmt::format("{:g}", static_cast<double>(sum.calls) / n), sum.seconds,
         fmt::format("{:>6.1f} {:<6} {:>8.0f}%", rate / 1e9, product ? "GFLOP/s" : "GB/s",
                     100 * rate / (product ? ceilings.flops_per_s : ceilings.bytes_per_s)));
  }
  line("waiting for the gradient exchange", "", exposed, "");
  line("other (batches, scalars)", "", std::max(total - known, 0.0), "");
  return text + fmt::format("a step takes {:.2f} ms; ceilings: GEMM {:.1f} GFLOP/s, copy {:.1f} GB/s", 1e3 * total / n,
                            ceilings.flops_per_s / 1e9, ceilings.bytes_per_s / 1e9);
}

void StepProfile::write_trace(const std::string& path, int rank) const {
  Json events = Json::array();
  for (const Step& step : steps_) events.push_back(event("step", step.start, step.seconds, rank, 0));
  for (const TimedCall& call : timed_) events.push_back(event(call.op, call.start, call.seconds, rank, 1));
  write_text(path, dump_valid_json(Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}) + "\n");
}

double measure_copy_rate(Ops& ops, int threads) {
  constexpr int64_t kElements = int64_t{16} << 20;  // 64 MB each for source and target, larger than the caches
  Device& device = ops.device();
  Arena arena(2 * kElements * sizeof(float) + 1024, device), scratch(1024, device);
  Context context{threads, &scratch, &device.stream()};
  const View x = arena.take(DType::f32, {kElements}), y = arena.take(DType::f32, {kElements});
  ops.zero(context, x);
  device.stream().finish();
  double best = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < 3 || seconds_since(begin) < 0.2; ++i) {
    const Event start = device.stream().record_time();
    ops.cast(context, x, y);
    const Event end = device.stream().record_time();
    device.stream().finish();
    best = std::max(best, static_cast<double>(x.bytes() + y.bytes()) / end.seconds_since(start));
  }
  return best;
}

}  // namespace trireme
