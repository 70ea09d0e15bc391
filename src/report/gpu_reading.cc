#include "report/gpu_reading.h"

#include <algorithm>

#include "ops/nvml.h"

namespace trireme {
namespace {

constexpr double GpuReading::*kValues[kGpuValues] = {
    &GpuReading::busy,        &GpuReading::watts,  &GpuReading::celsius,  &GpuReading::memory_used,
    &GpuReading::memory_size, &GpuReading::errors, &GpuReading::slowdowns};

}  // namespace

std::vector<double> values_of(const GpuReading& reading) {
  std::vector<double> values;
  for (const auto value : kValues) values.push_back(reading.*value);
  return values;
}

std::vector<GpuReading> readings_of(std::span<const double> values) {
  std::vector<GpuReading> readings(values.size() / kGpuValues);
  for (size_t i = 0; i < readings.size() * kGpuValues; ++i)
    readings[i / kGpuValues].*kValues[i % kGpuValues] = values[i];
  return readings;
}

std::optional<GpuSummary> summary_of(std::span<const GpuReading> gpus) {
  if (std::ranges::none_of(gpus, &GpuReading::known)) return std::nullopt;
  // What is unknown of one GPU does not count.
  const auto fold = [&](double GpuReading::*field, auto join) {
    double result = GpuReading::kUnknown;
    int count = 0;
    for (const GpuReading& gpu : gpus) {
      if (gpu.*field != gpu.*field) continue;
      result = count++ == 0 ? gpu.*field : join(result, gpu.*field);
    }
    return std::pair(result, count);
  };
  const auto sum = [](double a, double b) { return a + b; };
  const auto most = [](double a, double b) { return std::max(a, b); };
  const auto [busy, of] = fold(&GpuReading::busy, sum);
  return GpuSummary{.busy = of > 0 ? busy / of : busy,
                    .watts = fold(&GpuReading::watts, sum).first,
                    .celsius = fold(&GpuReading::celsius, most).first,
                    .errors = fold(&GpuReading::errors, sum).first};
}

std::vector<std::string> slowdown_names(double slowdowns) {
  std::vector<std::string> names;
  const auto bits = static_cast<unsigned long long>(slowdowns);
  for (const nvml::ClockReason& reason : nvml::kClockReasons) {
    if ((bits & reason.bit) != 0 && reason.bit != nvml::kIdle) names.emplace_back(reason.label);
  }
  return names;
}

}  // namespace trireme
