#pragma once
// What the driver reports of the ranks' GPUs (train/gpu_watch.h fills it).

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// The state of one GPU over a log interval. NaN: the driver does not say.
struct GpuReading {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double busy = kUnknown;         ///< 0-1: part of the time in which a kernel ran, mean over the interval
  double watts = kUnknown;        ///< mean over the interval
  double celsius = kUnknown;      ///< the highest of the interval
  double memory_used = kUnknown;  ///< bytes, by all programs
  double memory_size = kUnknown;  ///< bytes
  double errors = kUnknown;       ///< that ECC could not correct since the driver was loaded
  double slowdowns = 0;           ///< what held its clocks down at any time, as bits of nvml::kClockReasons

  bool known() const { return memory_size == memory_size; }
};

/// The values of a reading in their order, to send it to other ranks, and back.
inline constexpr size_t kGpuValues = 7;
std::vector<double> values_of(const GpuReading& reading);
/// values: kGpuValues of each rank.
std::vector<GpuReading> readings_of(std::span<const double> values);

/// The values of all GPUs whose driver says something; NaN: none says that.
struct GpuSummary {
  double busy = GpuReading::kUnknown;     ///< mean
  double watts = GpuReading::kUnknown;    ///< sum
  double celsius = GpuReading::kUnknown;  ///< the highest
  double errors = GpuReading::kUnknown;   ///< sum
};
/// Nothing if no driver says anything.
std::optional<GpuSummary> summary_of(std::span<const GpuReading> gpus);

/// The reasons of the bits, as metrics name them: "hw_thermal_slowdown". Idle is none.
std::vector<std::string> slowdown_names(double slowdowns);

}  // namespace trireme
