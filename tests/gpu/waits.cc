// One run on devices whose streams are late, of which scripts/mutate_gpu_waits leaves out a wait:
//
//   gpu_waits RUN SKIPPED   prints what the run comes to: its hash, and each place of a wait with the number of its
//   calls
//
// RUN: a name of kRuns. SKIPPED: a file of address ranges, "begin end" in hex, of functions that only pass a wait on: a
// place is the first return address outside of them. In the environment WAIT_PLACE: the place that is left out;
// WAIT_CALL: which of its calls, default all; WAIT_LATE: "default" or "others", the streams that are late.

#include <dlfcn.h>
#include <execinfo.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "base/hash.h"
#include "tensor/pinned.h"
#include "tests/train/mesh_training.h"

namespace trireme::mesh_training {
namespace {

struct Waits {
  std::mutex mutex;
  std::vector<std::pair<uintptr_t, uintptr_t>> skipped;
  std::map<uintptr_t, int64_t> calls;  ///< by place
  uintptr_t place = 0;
  int64_t call = -1;
};
Waits waits;

uintptr_t base() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&waits), &info);
  return reinterpret_cast<uintptr_t>(info.dli_fbase);
}

/// Where the wait was asked for, relative to the program; 0: an event was only looked at.
[[gnu::noinline]] uintptr_t place_of_wait(bool asks) {
  void* frames[24];
  const int depth = backtrace(frames, 24);
  bool waits_inside = !asks;
  for (int i = 2; i < depth; ++i) {  // 0 to 2: here, drops(), and the event of the stream
    const uintptr_t at = reinterpret_cast<uintptr_t>(frames[i]) - base();
    const auto inside = [&](const auto& range) { return range.first < at && at <= range.second; };
    if (!std::ranges::any_of(waits.skipped, inside)) return waits_inside ? at : 0;
    waits_inside = waits_inside || i > 2;  // of a wait that looks at the event again and again
  }
  return 0;
}

[[gnu::noinline]] bool drops(bool asks) {
  const uintptr_t place = place_of_wait(asks);
  if (place == 0) return false;
  const std::lock_guard lock(waits.mutex);
  int64_t& calls = waits.calls[place];
  const int64_t call = asks ? calls : calls++;
  return place == waits.place && (waits.call < 0 || waits.call == call);
}

void read_environment(const char* skipped) {
  std::ifstream file(skipped);
  for (uintptr_t begin = 0, end = 0; file >> std::hex >> begin >> end;) waits.skipped.emplace_back(begin, end);
  const auto number = [](const char* name, int base_of) {
    const char* text = std::getenv(name);
    return text ? std::strtoll(text, nullptr, base_of) : -1;
  };
  waits.place = static_cast<uintptr_t>(std::max<int64_t>(number("WAIT_PLACE", 16), 0));
  waits.call = number("WAIT_CALL", 10);
  const char* late = std::getenv("WAIT_LATE");
  if (late && late == std::string("default")) apart_faults.late_default = std::chrono::microseconds(300);
  if (late && late == std::string("others")) apart_faults.late_others = std::chrono::microseconds(1500);
  apart_faults.drops = drops;
}

uint64_t hash_of(const Outcome& outcome) {
  const auto hash = [](const auto& values) { return xxh3(std::as_bytes(std::span(values))); };
  const std::array parts{hash(outcome.losses), hash(outcome.norms), hash(outcome.weights),
                         std::bit_cast<uint64_t>(outcome.evaluation)};
  return xxh3(std::as_bytes(std::span(parts)));
}

/// Steps of so many micro-batches that the host has to wait until pinned memory is free again, and a long read.
uint64_t run_alone() {
  Spec spec = gpt2();
  spec.layers = 1;
  const Outcome outcome = train(spec, {.mesh = {.data = 1},
                                       .dropout = true,
                                       .dtype = DType::bf16,
                                       .apart = true,
                                       .micro = 1,
                                       .global = 130,
                                       .steps = 2});
  ApartDevice device;
  constexpr int64_t kCount = 2'200'000;
  Arena memory(kCount * sizeof(float), device);
  const View x = memory.take(DType::f32, {kCount});
  std::vector<float> values(kCount), read;
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  device.stream().copy(View(std::span(values), x.shape()), x);
  PieceReader(device).read(x, {}, [&](int64_t, ConstView piece, ConstView) {
    read.insert(read.end(), piece.values<float>().begin(), piece.values<float>().end());
  });
  return hash_of(outcome) ^ xxh3(std::as_bytes(std::span(read)));
}

uint64_t run_connected(Layouts layouts) {
  layouts.connected = true;
  layouts.steps = 3;
  return hash_of(train(gpt2(), layouts));
}

const std::map<std::string, uint64_t (*)()> kRuns{
    {"alone", run_alone},
    {"data", [] { return run_connected({.mesh = {.data = 2}, .dtype = DType::bf16}); }},
    {"tensor", [] { return run_connected({.mesh = {.data = 1, .tensor = 2}, .dropout = true}); }},
    {"pipeline", [] { return run_connected({.mesh = {.data = 1, .pipeline = 2}, .dropout = true}); }},
    {"chunks", [] { return run_connected({.mesh = {.data = 1, .pipeline = 2, .chunks = 2}}); }},
    {"hosts",
     [] {
       return run_connected({.mesh = {.data = 4},
                             .wire = DType::bf16,
                             .shard = ShardChoice::optimizer,
                             .hosts = {0, 1, 0, 1},
                             .group = ShardGroup::host});
     }},
};

}  // namespace
}  // namespace trireme::mesh_training

int main(int arguments, char** words) {
  using namespace trireme::mesh_training;
  if (arguments != 3 || !kRuns.contains(words[1])) {
    std::fprintf(stderr, "gpu_waits RUN SKIPPED\n");
    return 2;
  }
  read_environment(words[2]);
  const uint64_t hash = kRuns.at(words[1])();
  std::printf("hash %016lx\n", hash);
  for (const auto& [place, calls] : waits.calls) std::printf("place %lx %ld\n", place, calls);
  return testing::Test::HasFailure() ? 1 : 0;
}
