// NVIDIA GPUs through nvidia-smi, dcgmi and the kernel log. The runner skips these on a node without GPUs, except the
// count.

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"
#include "cluster/health/check.h"
#include "cluster/health/nvidia_smi.h"
#include "cluster/health/run.h"

namespace trireme::health {
namespace {

/// The report, or why it is missing.
struct Query {
  SmiReport report;
  std::optional<Outcome> problem;
};

Query query(const Machine& machine) {
  const ProcessResult result = machine.command({"nvidia-smi", "-q"}, 60);
  if (result.timed_out || result.exit_code != 0) {
    return {{}, failed("nvidia-smi {}: {}", describe_end(result), smi_exit_reason(result.exit_code))};
  }
  try {
    return {parse_smi_query(result.out), std::nullopt};
  } catch (const Error& e) {
    return {{}, failed("{}", e.what())};
  }
}

/// Runs `check` on every GPU; the first failure is the outcome.
Check for_each_gpu(std::function<Outcome(const GpuFacts&)> check) {
  return [check = std::move(check)](const Machine& machine) {
    const Query found = query(machine);
    if (found.problem) return *found.problem;
    if (found.report.gpus.empty()) return failed("nvidia-smi lists no GPUs");
    std::string remark;
    for (const GpuFacts& gpu : found.report.gpus) {
      const Outcome outcome = check(gpu);
      if (outcome.kind == Outcome::Kind::fail) return outcome;
      if (!outcome.text.empty()) remark = outcome.text;
    }
    return passed(remark);
  };
}

Check make_count(Words words) {
  require_words(words, 1, 2, "COUNT [rocm]");
  const double wanted = parse_number(words[0], "count");
  const bool rocm = words.size() > 1 && words[1] == "rocm";
  require(words.size() == 1 || rocm || words[1] == "cuda" || words[1] == "nvidia", ErrorKind::config,
          "\"{}\" after the count; expected rocm or nothing", words[words.size() - 1]);
  return [=](const Machine& machine) {
    const ProcessResult result =
        rocm ? machine.command({"rocm-smi", "--showid"}, 60) : machine.command({"nvidia-smi", "-L"}, 60);
    if (result.exit_code == 127 && !has_gpu(machine)) {
      return wanted == 0 ? passed() : failed("no GPU on this node, expected {:.0f}", wanted);
    }
    if (result.exit_code != 0) return failed("{} {}", rocm ? "rocm-smi" : "nvidia-smi", describe_end(result));
    int found = 0;
    if (rocm) {
      std::set<std::string> devices;
      for (std::string_view line : split_lines(result.out)) {
        if (line.starts_with("GPU[")) devices.emplace(line.substr(0, line.find(']')));
      }
      found = static_cast<int>(devices.size());
    } else {
      found = count_listed_gpus(result.out);
    }
    if (found != wanted) return failed("{} GPUs, expected {:.0f}", found, wanted);
    return passed();
  };
}

Check make_healthmon(Words words) {
  require_words(words, 0, 0, "no argument");
  return [](const Machine& machine) {
    const ProcessResult result = machine.command({"nvidia-smi"}, 60);
    if (result.timed_out) return failed("nvidia-smi {}", describe_end(result));
    if (result.exit_code != 0) {
      return failed("nvidia-smi ended with code {}: {}", result.exit_code, smi_exit_reason(result.exit_code));
    }
    return passed();
  };
}

Check make_dcgm(Words words) {
  require_words(words, 0, 0, "no argument");
  return [](const Machine& machine) {
    const ProcessResult result = machine.command({"dcgmi", "diag", "-r", "1"}, 120);
    if (result.exit_code != 0) return failed("dcgmi diag -r 1 {}", describe_end(result));
    for (std::string_view line : split_lines(result.out)) {
      if (line.find("Fail") != std::string_view::npos) return failed("dcgmi diag -r 1: {}", trim_blanks(line));
    }
    return passed();
  };
}

/// Checks, repairs with `nvidia-smi ARGUMENTS` if allowed, and checks again.
Check repairable(const Check& look, std::vector<std::string> (*repair)(const GpuFacts&), const char* remark) {
  return [=](const Machine& machine) {
    const Outcome first = look(machine);
    if (first.kind != Outcome::Kind::fail || !machine.repair) return first;
    const Query found = query(machine);
    if (found.problem) return first;
    for (const GpuFacts& gpu : found.report.gpus) machine.command(repair(gpu), 60);
    const Outcome second = look(machine);
    return second.kind == Outcome::Kind::fail ? second : passed(remark);
  };
}

Check make_persistence(Words words) {
  require_words(words, 0, 0, "no argument");
  return repairable(
      for_each_gpu([](const GpuFacts& gpu) {
        if (gpu.value("Persistence Mode") == "Enabled") return passed();
        return failed("{}: persistence mode is {}", gpu.label(), gpu.value("Persistence Mode"));
      }),
      [](const GpuFacts& gpu) {
        return std::vector<std::string>{"nvidia-smi", "-i", gpu.bus_id, "-pm", "1"};
      },
      "switched persistence mode on");
}

Check make_clocks(Words words) {
  require_words(words, 0, 0, "no argument");
  return repairable(
      for_each_gpu([](const GpuFacts& gpu) {
        for (const char* clock : {"Graphics", "Memory"}) {
          const double application = gpu.number(std::string("Applications Clocks/") + clock, -1);
          const double most = gpu.number(std::string("Max Clocks/") + clock, -1);
          if (application < 0) return passed("this driver or device has no application clocks");
          if (application < most) {
            return failed("{}: {} application clock {:.0f} MHz, below its maximum {:.0f} MHz", gpu.label(), clock,
                          application, most);
          }
        }
        return passed();
      }),
      [](const GpuFacts& gpu) {
        return std::vector<std::string>{
            "nvidia-smi", "-i", gpu.bus_id, "-ac",
            fmt::format("{:.0f},{:.0f}", gpu.number("Max Clocks/Memory", 0), gpu.number("Max Clocks/Graphics", 0))};
      },
      "raised application clocks to their maximum");
}

/// The sum of all numbers whose path has this prefix: newer drivers split some counters.
double counter(const GpuFacts& gpu, std::string_view start) {
  double total = 0;
  for (const auto& [path, value] : gpu.values) {
    if (path.starts_with(start)) total += gpu.number(path, 0);
  }
  return total;
}

Outcome check_ecc(const GpuFacts& gpu, double most_dram, double most_sram) {
  // NVIDIA recommends replacement at 60 retired pages, and allows 512 remapped rows.
  constexpr double kMostRetired = 60, kMostRemapped = 512;
  const auto is_yes = [&](const char* path) { return gpu.value(path) == "Yes"; };
  if (is_yes("Remapped Rows/Pending")) return failed("{}: a row remap is pending", gpu.label());
  if (is_yes("Remapped Rows/Remapping Failure Occurred")) return failed("{}: a row remap failed", gpu.label());
  const double remapped = gpu.number("Remapped Rows/Uncorrectable Error", 0);
  if (remapped > kMostRemapped)
    return failed("{}: {:.0f} rows remapped, above {:.0f}", gpu.label(), remapped, kMostRemapped);
  if (is_yes("Retired Pages/Pending Page Blacklist")) return failed("{}: a page retirement is pending", gpu.label());
  const double retired = gpu.number("Retired Pages/Single Bit ECC", 0) + gpu.number("Retired Pages/Double Bit ECC", 0);
  if (retired >= kMostRetired)
    return failed("{}: {:.0f} pages retired, {:.0f} is the limit", gpu.label(), retired, kMostRetired);
  if (is_yes("Unrepairable Memory")) return failed("{}: its memory is unrepairable", gpu.label());
  for (const std::string period : {"Volatile", "Aggregate"}) {
    const std::string base = "ECC Errors/" + period + "/";
    const double sram = counter(gpu, base + "SRAM Uncorrectable");
    if (sram > 0) return failed("{}: {:.0f} uncorrectable SRAM errors ({})", gpu.label(), sram, period);
    const double sram_corrected = counter(gpu, base + "SRAM Correctable");
    if (sram_corrected > most_sram) {
      return failed("{}: {:.0f} corrected SRAM errors ({}), above {:.0f}", gpu.label(), sram_corrected, period,
                    most_sram);
    }
    for (const char* kind : {"DRAM Correctable", "DRAM Uncorrectable"}) {
      const double dram = counter(gpu, base + kind);
      if (dram > most_dram) {
        return failed("{}: {} errors {:.0f} ({}), above {:.0f}", gpu.label(), kind, dram, period, most_dram);
      }
    }
  }
  return passed();
}

Check make_ecc(Words words) {
  require_words(words, 0, 2, "[MOST-DRAM-ERRORS [MOST-SRAM-ERRORS]]");
  const double dram = words.empty() ? 2e7 : parse_number(words[0], "DRAM errors");
  const double sram = words.size() < 2 ? 1e4 : parse_number(words[1], "SRAM errors");
  return for_each_gpu([=](const GpuFacts& gpu) { return check_ecc(gpu, dram, sram); });
}

/// A remark, not a failure: clocks are often throttled because of the room's temperature, not the node.
Check make_throttling(Words words) {
  require_words(words, 0, 0, "no argument");
  return for_each_gpu([](const GpuFacts& gpu) {
    std::string active;
    for (const auto& [path, value] : gpu.values) {
      const bool reason = path.starts_with("Clocks Event Reasons/") || path.starts_with("Clocks Throttle Reasons/");
      const std::string name = path.substr(path.rfind('/') + 1);
      if (reason && value == "Active" && name != "Idle" && name != "SW Power Cap")
        active += (active.empty() ? "" : ", ") + name;
    }
    return active.empty() ? passed() : passed(fmt::format("{}: clocks are throttled by {}", gpu.label(), active));
  });
}

Check make_xid(Words words) {
  require_words(words, 0, 0, "no argument");
  return [](const Machine& machine) {
    static const std::set<int> kBad = {48, 56, 57, 58, 62, 63, 64, 65, 68,  69,
                                       73, 74, 79, 80, 81, 92, 94, 95, 119, 120};
    static const std::set<int> kForgiven = {119, 120};  // of the GPU's system processor: cleared by a reset
    constexpr double kForgivenAfter = 2 * 3600;
    const ProcessResult log = machine.command({"dmesg"});
    if (log.exit_code != 0) return failed("dmesg {}; cannot read Xid events", describe_end(log));
    double uptime = 0;
    std::istringstream(machine.read("/proc/uptime").value_or("0")) >> uptime;
    for (const XidEvent& event : parse_xid_events(log.out)) {
      if (!kBad.contains(event.code)) continue;
      if (kForgiven.contains(event.code) && uptime - event.uptime > kForgivenAfter) continue;
      return failed("Xid {} on {}: {}", event.code, event.device, event.line);
    }
    return passed();
  };
}

Check make_nvlink(Words words) {
  require_words(words, 0, 0, "no argument");
  return [](const Machine& machine) {
    const ProcessResult result = machine.command({"nvidia-smi", "nvlink", "-s"}, 60);
    if (result.exit_code != 0) return failed("nvidia-smi nvlink -s {}", describe_end(result));
    try {
      std::string remark;
      for (const NvlinkStatus& gpu : parse_nvlink_status(result.out)) {
        if (gpu.all_inactive) return failed("{}: all NVLinks are inactive", gpu.gpu);
        if (gpu.inactive > 0)
          return failed("{}: {} of {} NVLinks inactive", gpu.gpu, gpu.inactive, gpu.inactive + gpu.active);
        if (!gpu.supported) remark = fmt::format("{}: no NVLink to check", gpu.gpu);
      }
      return passed(remark);
    } catch (const Error& e) {
      return failed("{}", e.what());
    }
  };
}

/// [GENERATION [WIDTH]]: the link has the device's full width, and the slot the expected generation.
Check make_pcie(Words words) {
  require_words(words, 0, 2, "[GENERATION [WIDTH]]");
  const double generation = words.empty() ? 0 : parse_number(words[0], "generation");
  const double width = words.size() < 2 ? 0 : parse_number(words[1], "width");
  return for_each_gpu([=](const GpuFacts& gpu) {
    const std::string link = "PCI/GPU Link Info/";
    const double current = gpu.number(link + "Link Width/Current", -1), most = gpu.number(link + "Link Width/Max", -1);
    const double speed = gpu.number(link + "PCIe Generation/Max", -1);
    if (current < 0 || speed < 0) return failed("{}: nvidia-smi does not report its PCIe link", gpu.label());
    if (current < std::max(most, width)) {
      return failed("{}: PCIe link of {:.0f} lanes, expected {:.0f}", gpu.label(), current, std::max(most, width));
    }
    if (speed < generation)
      return failed("{}: PCIe generation {:.0f}, expected {:.0f}", gpu.label(), speed, generation);
    return passed();
  });
}

constexpr KnownCheck kChecks[] = {
    {"check_gpu_count", make_count},
    {"check_nvsmi_healthmon", make_healthmon, true},
    {"check_nv_healthmon", make_dcgm, true},
    {"check_gpu_persistence", make_persistence, true},
    {"check_app_gpu_clocks", make_clocks, true},
    {"check_gpu_ecc", make_ecc, true},
    {"check_gpu_clock_throttling", make_throttling, true},
    {"check_gpu_xid", make_xid, true},
    {"check_nvlink_status", make_nvlink, true},
    {"check_gpu_pcie", make_pcie, true},
};

}  // namespace

std::span<const KnownCheck> gpu_checks() { return kChecks; }

}  // namespace trireme::health
