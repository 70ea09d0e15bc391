#include "train/gpu_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "ops/nvml.h"

namespace trireme {
namespace {

constexpr double kInterval = 1;  // seconds: over which a driver says how busy a GPU was
constexpr unsigned kTemperatureOfDie = 0, kUncorrected = 1, kSinceDriverLoad = 0;

double value_of(std::optional<unsigned> value) { return value ? *value : GpuReading::kUnknown; }

GpuReading read(const nvml::Library& library, nvml::Device device) {
  GpuReading now;
  if (const auto memory = library.number<nvml::Memory>("nvmlDeviceGetMemoryInfo", device)) {
    now.memory_used = static_cast<double>(memory->used);
    now.memory_size = static_cast<double>(memory->total);
  }
  if (const auto busy = library.number<nvml::Utilization>("nvmlDeviceGetUtilizationRates", device))
    now.busy = busy->gpu / 100.0;
  now.watts = value_of(library.number<unsigned>("nvmlDeviceGetPowerUsage", device)) / 1000;
  now.celsius = value_of(library.number<unsigned>("nvmlDeviceGetTemperature", device, kTemperatureOfDie));
  if (const auto errors =
          library.number<unsigned long long>("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceDriverLoad))
    now.errors = static_cast<double>(*errors);
  now.slowdowns = static_cast<double>(nvml::clock_reasons(library, device).value_or(0));
  return now;
}

bool slows_to_protect(const GpuReading& now) {
  return std::ranges::any_of(nvml::kClockReasons, [&](const nvml::ClockReason& reason) {
    return reason.protects && (static_cast<unsigned long long>(now.slowdowns) & reason.bit) != 0;
  });
}

}  // namespace

GpuWatch::GpuWatch(std::string bus, CpuAccount* account) : bus_(std::move(bus)) {
  thread_.start(account, [this] {
    try {
      watch();
    } catch (const Error& error) {
      log::info("the GPU's utilization, power and temperature are not recorded: {}", error.what());
    }
  });
}

GpuWatch::~GpuWatch() { thread_.stop(); }

void GpuWatch::watch() {
  const nvml::Session session;
  nvml::Device device = nullptr;
  const int found = session->call("nvmlDeviceGetHandleByPciBusId_v2", bus_.c_str(), &device);
  require(found == nvml::kSuccess, ErrorKind::usage, "the driver does not know the GPU {}: {}", bus_,
          session->reason(found));
  bool warned = false;
  for (std::vector<pollfd> none; !thread_.ending(); none.clear()) {
    const GpuReading now = read(*session, device);
    add(now);
    if (!warned && slows_to_protect(now)) {
      warned = true;
      log::warning(
          "GPU {}: {} holds its clocks down, so that every step of the job takes longer; check its cooling and "
          "power (trireme health -e check_gpu_clock_throttling)",
          bus_, fmt::join(slowdown_names(now.slowdowns), ", "));
    }
    thread_.wait(none, kInterval);
  }
}

void GpuWatch::add(const GpuReading& now) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(taken_, false)) {  // a new interval begins
    interval_.celsius = GpuReading::kUnknown;
    interval_.slowdowns = 0;
    busy_ = watts_ = 0;
    busy_count_ = watts_count_ = 0;
  }
  const auto count = [](double value, double& sum, int& counted) {
    if (std::isnan(value)) return;
    sum += value;
    ++counted;
  };
  count(now.busy, busy_, busy_count_);
  count(now.watts, watts_, watts_count_);
  interval_.celsius = std::fmax(interval_.celsius, now.celsius);  // of a number and NaN the number
  interval_.memory_used = now.memory_used;
  interval_.memory_size = now.memory_size;
  interval_.errors = now.errors;
  interval_.slowdowns = static_cast<double>(static_cast<unsigned long long>(interval_.slowdowns) |
                                            static_cast<unsigned long long>(now.slowdowns));
}

GpuReading GpuWatch::take() {
  const std::lock_guard lock(mutex_);
  taken_ = true;
  GpuReading reading = interval_;
  if (busy_count_ > 0) reading.busy = busy_ / busy_count_;
  if (watts_count_ > 0) reading.watts = watts_ / watts_count_;
  return reading;
}

}  // namespace trireme
