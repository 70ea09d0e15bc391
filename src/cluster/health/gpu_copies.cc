#include "cluster/health/gpu_copies.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "base/affinity.h"
#include "base/error.h"
#include "ops/gpu_library.h"
#include "ops/nvml.h"
#include "tensor/pinned.h"

namespace trireme::health {
namespace {

constexpr size_t kBytes = size_t{64} << 20;  // long enough that the start of a copy does not count
constexpr int kCopies = 8, kRounds = 3;

/// The best of the rounds.
double speed_of(Device& device, ConstView from, View to) {
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Event begin = device.stream().record_time();
    for (int i = 0; i < kCopies; ++i) device.stream().copy_later(from, to);
    const Event end = device.stream().record_time();
    end.wait();
    if (const double seconds = end.seconds_since(begin); seconds > 0)
      best = std::max(best, static_cast<double>(kBytes) * kCopies / seconds / 1e9);
  }
  return best;
}

/// Calls of this thread, and the memory that it allocates, then stay near the GPU.
void move_to(const std::string& bus) {
  std::ifstream file("/sys/bus/pci/devices/" + nvml::linux_bus(bus) + "/local_cpulist");
  std::string cpus;
  if (std::getline(file, cpus) && !cpus.empty()) pin_this_thread(parse_cpu_list(cpus));
}

/// seen: places of the GPUs before.
CopySpeed measure(const std::string& library, int gpu, std::set<std::string>& seen) {
  const Backend backend = open_gpu_backend(library, {.products = {}, .local_rank = gpu});
  require(seen.insert(backend.gpu).second, ErrorKind::usage,
          "CUDA shows {} of this node's GPUs (CUDA_VISIBLE_DEVICES hides others)", seen.size());
  move_to(backend.gpu);
  Device& device = *backend.device;
  const PinnedMemory host(kBytes, device);
  std::byte* const memory = device.allocate(kBytes);
  const Shape shape{static_cast<int64_t>(kBytes)};
  const View there(memory, DType::u8, shape, &device), here(host.data(), DType::u8, shape);
  const CopySpeed speed{gpu, speed_of(device, here, there), speed_of(device, there, here)};
  device.free(memory, kBytes);
  return speed;
}

}  // namespace

MeasuredCopies measure_copies(int gpus) {
  const std::string library = gpu_library_path();
  if (library.empty()) return {.why_not = "this build has no libtrireme_cuda.so"};
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);  // as the driver numbers them; before CUDA starts
  MeasuredCopies measured;
  std::set<std::string> seen;
  for (int gpu = 0; gpu < gpus && measured.why_not.empty(); ++gpu) {
    std::jthread([&] {  // a separate thread, because it is bound to cores
      try {
        measured.gpus.push_back(measure(library, gpu, seen));
      } catch (const std::exception& e) {
        measured.why_not = e.what();
      }
    });
  }
  return measured;
}

}  // namespace trireme::health
