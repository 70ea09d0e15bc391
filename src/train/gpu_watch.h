#pragma once
// What the driver reports of this rank's GPU while it trains: asked once a second by a separate thread, so that no
// step waits for the driver.

#include <mutex>
#include <string>
#include <vector>

#include "comm/control/thread.h"
#include "comm/scalars.h"
#include "report/gpu_reading.h"

namespace trireme {

class GpuWatch {
 public:
  /// bus: the GPU's place on the PCI bus, as CUDA and NVML name it whatever CUDA_VISIBLE_DEVICES hides. A log line of
  /// rank 0 says so if the driver's library cannot be opened or does not know the GPU; then all stays unknown.
  /// A warning says once if the GPU slows down to protect itself.
  /// account: counts the thread's processor time; may be nullptr.
  GpuWatch(std::string bus, CpuAccount* account);
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  /// The state since the last call, or the last known one if that was less than a second ago. Returns at once.
  GpuReading take();
  /// Collective: take() of all ranks, by rank.
  std::vector<GpuReading> of_all(Scalars& scalars) { return readings_of(scalars.gather(values_of(take()))); }

 private:
  void watch();
  void add(const GpuReading& now);

  const std::string bus_;
  std::mutex mutex_;
  GpuReading interval_;          ///< of its means the sums below
  bool taken_ = false;           ///< the next reading begins an interval
  double busy_ = 0, watts_ = 0;  ///< sums of the interval
  int busy_count_ = 0, watts_count_ = 0;
  ControlThread thread_;
};

}  // namespace trireme
