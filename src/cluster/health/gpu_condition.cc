#include "cluster/health/gpu_condition.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cluster/health/nvidia_smi.h"
#include "ops/nvml.h"

namespace trireme::health {
namespace {

// NVML's numbers of kinds of errors, of counters and of memories, and of clocks.
constexpr unsigned kCorrected = 0, kUncorrected = 1, kSinceStart = 0, kLifetime = 1, kDram = 2, kSram = 7,
                   kGraphicsClock = 0, kMemoryClock = 2;

GpuCondition::Errors errors_of(const nvml::Library& library, nvml::Device device, unsigned counter, bool& known) {
  const auto count = [&](unsigned kind, unsigned memory) {
    const auto value =
        library.number<unsigned long long>("nvmlDeviceGetMemoryErrorCounter", device, kind, counter, memory);
    known = known || value.has_value();
    return static_cast<double>(value.value_or(0));
  };
  return {.sram_corrected = count(kCorrected, kSram),
          .sram_uncorrected = count(kUncorrected, kSram),
          .dram_corrected = count(kCorrected, kDram),
          .dram_uncorrected = count(kUncorrected, kDram)};
}

std::optional<GpuCondition::Clock> clock_of(const nvml::Library& library, nvml::Device device, unsigned kind) {
  const auto application = library.number<unsigned>("nvmlDeviceGetApplicationsClock", device, kind);
  const auto most = library.number<unsigned>("nvmlDeviceGetMaxClockInfo", device, kind);
  if (!application || !most) return std::nullopt;
  return GpuCondition::Clock{static_cast<double>(*application), static_cast<double>(*most)};
}

/// Retired after single-bit errors (0) and after double-bit errors (1).
double retired_pages(const nvml::Library& library, nvml::Device device) {
  double all = 0;
  for (const unsigned cause : {0u, 1u}) {
    unsigned count = 0;
    unsigned long long* const addresses = nullptr;
    const int code = library.call("nvmlDeviceGetRetiredPages", device, cause, &count, addresses);
    if (code == nvml::kSuccess || code == nvml::kInsufficientSize) all += count;
  }
  return all;
}

void read_memory(const nvml::Library& library, nvml::Device device, GpuCondition& gpu) {
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (library.call("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending, &failed) ==
      nvml::kSuccess) {
    gpu.rows_remapped = uncorrected;
    gpu.remap_pending = pending != 0;
    gpu.remap_failed = failed != 0;
    gpu.memory_known = true;
  }
  gpu.pages_retired = retired_pages(library, device);
  if (const auto waits = library.number<unsigned>("nvmlDeviceGetRetiredPagesPendingStatus", device))
    gpu.retirement_pending = *waits != 0;
  gpu.memory_known = gpu.memory_known || gpu.retirement_pending.has_value();
  gpu.since_start = errors_of(library, device, kSinceStart, gpu.memory_known);
  gpu.lifetime = errors_of(library, device, kLifetime, gpu.memory_known);
}

GpuCondition read_gpu(const nvml::Library& library, nvml::Device device) {
  GpuCondition gpu{.bus = nvml::bus_of(library, device), .uuid = library.text<96>("nvmlDeviceGetUUID", device)};
  nvml::Memory memory{};
  if (const int code = library.call("nvmlDeviceGetMemoryInfo", device, &memory); code != nvml::kSuccess) {
    gpu.fault = library.reason(code);
    return gpu;
  }
  gpu.vbios = library.text<64>("nvmlDeviceGetVbiosVersion", device);
  const auto number = [&](const char* name) -> std::optional<double> {
    const auto value = library.number<unsigned>(name, device);
    return value ? std::optional<double>(*value) : std::nullopt;
  };
  if (const auto on = number("nvmlDeviceGetPersistenceMode")) gpu.persistence = *on != 0;
  gpu.graphics = clock_of(library, device, kGraphicsClock);
  gpu.memory = clock_of(library, device, kMemoryClock);
  read_memory(library, device, gpu);
  const auto reasons = nvml::clock_reasons(library, device);
  gpu.reasons_known = reasons.has_value();
  for (const nvml::ClockReason& reason : nvml::kClockReasons) {
    if ((reasons.value_or(0) & reason.bit) != 0 && reason.bit != nvml::kIdle)
      gpu.held_down_by.emplace_back(reason.name);
  }
  for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
    if (const auto up = library.number<unsigned>("nvmlDeviceGetNvLinkState", device, link))
      ++(*up != 0 ? gpu.links_up : gpu.links_down);
  }
  gpu.width = number("nvmlDeviceGetCurrPcieLinkWidth");
  gpu.most_width = number("nvmlDeviceGetMaxPcieLinkWidth");
  gpu.most_generation = number("nvmlDeviceGetMaxPcieLinkGeneration");
  gpu.inforom_corrupt = library.call("nvmlDeviceValidateInforom", device) == nvml::kCorruptedInforom;
  return gpu;
}

std::vector<GpuCondition> conditions_of_nvml(const nvml::Library& library) {
  const auto count = library.number<unsigned>("nvmlDeviceGetCount_v2");
  require(count.has_value(), ErrorKind::usage, "NVIDIA's management library does not count the GPUs");
  std::vector<GpuCondition> gpus;
  for (unsigned i = 0; i < *count; ++i) {
    nvml::Device device = nullptr;
    const int code = library.call("nvmlDeviceGetHandleByIndex_v2", i, &device);
    gpus.push_back(code == nvml::kSuccess ? read_gpu(library, device) : GpuCondition{.fault = library.reason(code)});
    gpus.back().index = static_cast<int>(i);
  }
  return gpus;
}

/// A counter of `nvidia-smi -q`, whose newer versions split some: the sum of all whose path has this prefix.
double counter(const GpuFacts& gpu, const std::string& start) {
  double total = 0;
  for (const auto& [path, value] : gpu.values) {
    if (path.starts_with(start)) total += gpu.number(path, 0);
  }
  return total;
}

GpuCondition::Errors errors_of(const GpuFacts& gpu, const std::string& period) {
  const std::string base = "ECC Errors/" + period + "/";
  return {.sram_corrected = counter(gpu, base + "SRAM Correctable"),
          .sram_uncorrected = counter(gpu, base + "SRAM Uncorrectable"),
          .dram_corrected = counter(gpu, base + "DRAM Correctable"),
          .dram_uncorrected = counter(gpu, base + "DRAM Uncorrectable")};
}

std::optional<GpuCondition::Clock> clock_of(const GpuFacts& gpu, const std::string& kind) {
  const GpuCondition::Clock clock{gpu.number("Applications Clocks/" + kind, -1), gpu.number("Max Clocks/" + kind, -1)};
  if (clock.application < 0 || clock.most < 0) return std::nullopt;
  return clock;
}

GpuCondition condition_of(const GpuFacts& facts) {
  GpuCondition gpu{.bus = facts.bus_id, .uuid = facts.value("GPU UUID")};
  const auto yes = [&](const char* path, std::string_view word) -> std::optional<bool> {
    const std::string value = facts.value(path);
    if (value.empty() || value == "N/A" || value == "[N/A]") return std::nullopt;
    return value == word;
  };
  const auto number = [&](const std::string& path) -> std::optional<double> {
    const double value = facts.number(path, -1);
    return value < 0 ? std::nullopt : std::optional<double>(value);
  };
  gpu.vbios = facts.value("VBIOS Version");
  gpu.persistence = yes("Persistence Mode", "Enabled");
  gpu.graphics = clock_of(facts, "Graphics");
  gpu.memory = clock_of(facts, "Memory");
  gpu.remap_pending = yes("Remapped Rows/Pending", "Yes");
  gpu.remap_failed = yes("Remapped Rows/Remapping Failure Occurred", "Yes");
  gpu.rows_remapped = facts.number("Remapped Rows/Uncorrectable Error", 0);
  gpu.retirement_pending = yes("Retired Pages/Pending Page Blacklist", "Yes");
  gpu.pages_retired = facts.number("Retired Pages/Single Bit ECC", 0) + facts.number("Retired Pages/Double Bit ECC", 0);
  gpu.unrepairable = yes("Unrepairable Memory", "Yes");
  gpu.memory_known = std::ranges::any_of(facts.values, [](const auto& entry) {
    const auto& [path, value] = entry;
    const bool of_memory =
        path.starts_with("ECC Errors/") || path.starts_with("Remapped Rows/") || path.starts_with("Retired Pages/");
    return of_memory && !value.empty() && !value.starts_with("N/A") && !value.starts_with("[N/A");
  });
  gpu.since_start = errors_of(facts, "Volatile");
  gpu.lifetime = errors_of(facts, "Aggregate");
  for (const auto& [path, value] : facts.values) {
    const bool reason = path.starts_with("Clocks Event Reasons/") || path.starts_with("Clocks Throttle Reasons/");
    const std::string name = path.substr(path.rfind('/') + 1);
    gpu.reasons_known = gpu.reasons_known || (reason && value.ends_with("ctive"));
    if (reason && value == "Active" && name != "Idle") gpu.held_down_by.push_back(name);
  }
  const std::string link = "PCI/GPU Link Info/";
  gpu.width = number(link + "Link Width/Current");
  gpu.most_width = number(link + "Link Width/Max");
  gpu.most_generation = number(link + "PCIe Generation/Max");
  return gpu;
}

constexpr const char* kNvidia = "0x10de";
constexpr const char* kAmd = "0x1002";

/// kinds: beginnings of classes.
bool has_device(const Machine& machine, const char* vendor, std::initializer_list<const char*> kinds) {
  const std::string folder = "/sys/bus/pci/devices/";
  return std::ranges::any_of(machine.list(folder), [&](const std::string& place) {
    const std::string kind = machine.read(folder + place + "/class").value_or("");
    return machine.read(folder + place + "/vendor").value_or("").starts_with(vendor) &&
           std::ranges::any_of(kinds, [&](const char* one) { return kind.starts_with(one); });
  });
}

bool has_nvidia_device(const Machine& machine) { return has_device(machine, kNvidia, {""}); }

GpuConditions by_smi(const Machine& machine) {
  const ProcessResult result = machine.command({"nvidia-smi", "-q"}, 60);
  if (result.exit_code == 127 && !has_nvidia_device(machine))
    return {.none = true, .problem = "this node has no GPU of NVIDIA's"};
  if (result.timed_out || result.exit_code != 0)
    return {.problem = fmt::format("nvidia-smi {}: {}", describe_end(result), smi_exit_reason(result.exit_code))};
  try {
    return {.gpus = conditions_of_smi(result.out)};
  } catch (const Error& e) {
    return {.problem = e.what()};
  }
}

/// Calls change(library, device) if NVML knows the GPU; false: it cannot be opened.
template <class Change>
bool with_nvml(const Machine& machine, const GpuCondition& gpu, Change change) {
  try {
    const nvml::Session session(machine.nvml_library);
    nvml::Device device = nullptr;
    if (session->call("nvmlDeviceGetHandleByIndex_v2", static_cast<unsigned>(gpu.index), &device) == nvml::kSuccess)
      change(*session, device);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool has_amd_gpu(const Machine& machine) { return has_device(machine, kAmd, {"0x03", "0x12"}); }

bool has_only_amd(const Machine& machine) {
  return has_amd_gpu(machine) && !has_nvidia_device(machine) && !nvml::is_there(machine.nvml_library);
}

std::string GpuCondition::label() const {
  std::string place = bus;
  if (!uuid.empty()) place += (place.empty() ? "" : ", ") + uuid;
  return place.empty() ? fmt::format("GPU {}", index) : fmt::format("GPU {} ({})", index, place);
}

std::vector<GpuCondition> conditions_of_smi(std::string_view text) {
  std::vector<GpuCondition> gpus;
  const SmiReport report = parse_smi_query(text);
  for (const GpuFacts& facts : report.gpus) {
    gpus.push_back(condition_of(facts));
    gpus.back().index = static_cast<int>(gpus.size()) - 1;
  }
  return gpus;
}

GpuConditions gpu_conditions(const Machine& machine) {
  try {
    const nvml::Session session(machine.nvml_library);
    return {.by_nvml = true, .gpus = conditions_of_nvml(*session)};
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::io) return {.by_nvml = true, .problem = e.what()};
  }
  return by_smi(machine);
}

void switch_persistence_on(const Machine& machine, const GpuCondition& gpu) {
  const auto change = [](const nvml::Library& library, nvml::Device device) {
    library.call("nvmlDeviceSetPersistenceMode", device, 1u);
  };
  if (!with_nvml(machine, gpu, change)) machine.command({"nvidia-smi", "-i", gpu.bus, "-pm", "1"}, 60);
}

void raise_application_clocks(const Machine& machine, const GpuCondition& gpu) {
  if (!gpu.graphics || !gpu.memory) return;
  const auto change = [&](const nvml::Library& library, nvml::Device device) {
    library.call("nvmlDeviceSetApplicationsClocks", device, static_cast<unsigned>(gpu.memory->most),
                 static_cast<unsigned>(gpu.graphics->most));
  };
  if (!with_nvml(machine, gpu, change)) {
    machine.command(
        {"nvidia-smi", "-i", gpu.bus, "-ac", fmt::format("{:.0f},{:.0f}", gpu.memory->most, gpu.graphics->most)}, 60);
  }
}

}  // namespace trireme::health
