// NVIDIA GPUs through the driver (gpu_condition.h), dcgmi and the kernel log. On a node without GPUs the runner lets
// these fail, except the count, which may be 0.

#include <algorithm>
#include <set>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/text.h"
#include "cluster/health/check.h"
#include "cluster/health/gpu_condition.h"
#include "cluster/health/nvidia_smi.h"
#include "cluster/health/run.h"

namespace trireme::health {
namespace {

constexpr const char* kReplace = "take the node out of service and have the GPU replaced";

std::string reset(const GpuCondition& gpu) {
  return fmt::format("reset it (nvidia-smi --gpu-reset -i {}) or restart the node", gpu.index);
}

/// Not checked where all GPUs are AMD's: what it asks does not exist there, and passing would say that it was looked
/// at.
Check of_nvidia(Check check) {
  return [check = std::move(check)](const Machine& machine) {
    return has_only_amd(machine) ? not_checked("this node has no GPU of NVIDIA's") : check(machine);
  };
}

/// Runs `check` on every GPU; the first failure is the outcome.
Check for_each_gpu(std::function<Outcome(const GpuCondition&)> check) {
  return [check = std::move(check)](const Machine& machine) {
    const GpuConditions found = gpu_conditions(machine);
    if (found.none && has_amd_gpu(machine)) return not_checked(found.problem);
    if (!found.problem.empty()) return failed("{}", found.problem);
    if (found.gpus.empty()) return failed("the driver lists no GPUs; `dmesg | grep NVRM` shows why");
    Outcome all = passed();
    for (const GpuCondition& gpu : found.gpus) {
      if (!gpu.fault.empty()) return failed("{}: {}; {}", gpu.label(), gpu.fault, reset(gpu));
      const Outcome outcome = check(gpu);
      if (outcome.kind == Outcome::Kind::fail) return outcome;
      const bool worse = all.kind == Outcome::Kind::pass && !outcome.text.empty();
      if (worse || outcome.kind == Outcome::Kind::not_checked) all = outcome;
    }
    return all;
  };
}

/// GPUs of NVIDIA's on the PCI bus for which no driver answers, as Linux writes their places.
std::vector<std::string> silent_gpus(const Machine& machine, const std::vector<GpuCondition>& answering) {
  std::vector<std::string> silent;
  const std::string folder = "/sys/bus/pci/devices/";
  for (const std::string& place : machine.list(folder)) {
    const auto is = [&](const char* file, const char* start) {
      return machine.read(folder + place + file).value_or("").starts_with(start);
    };
    const bool answers = std::ranges::any_of(
        answering, [&](const GpuCondition& gpu) { return gpu.fault.empty() && nvml::linux_bus(gpu.bus) == place; });
    if (is("/vendor", "0x10de") && is("/class", "0x0302") && !answers) silent.push_back(place);
  }
  return silent;
}

Outcome count_nvidia(const Machine& machine, int wanted) {
  if (has_only_amd(machine)) {
    return wanted == 0 ? passed()
                       : failed(
                             "no GPU of NVIDIA's on this node, expected {0}; AMD's are counted by "
                             "`check_gpu_count {0} rocm`",
                             wanted);
  }
  const GpuConditions found = gpu_conditions(machine);
  if (!found.by_nvml && !found.problem.empty() && !has_gpu(machine)) {
    if (wanted > 0 && machine.skip_gpu) return skipped("no GPU on this node");
    return wanted == 0 ? passed() : failed("no GPU on this node, expected {}", wanted);
  }
  if (!found.problem.empty()) return failed("{}", found.problem);
  std::vector<std::string> lost;
  for (const GpuCondition& gpu : found.gpus) {
    if (!gpu.fault.empty()) lost.push_back(fmt::format("{}: {}", gpu.label(), gpu.fault));
  }
  const size_t count = found.gpus.size() - lost.size();
  if (count == static_cast<size_t>(wanted)) return passed();
  for (const std::string& place : silent_gpus(machine, found.gpus))
    lost.push_back(fmt::format("GPU at {}: on the PCI bus, but the driver does not list it", place));
  if (count > static_cast<size_t>(wanted)) return failed("{}, expected {}", count_text(count, "GPU"), wanted);
  if (lost.empty()) lost.emplace_back("the others are not on the PCI bus");
  return failed("{}, expected {}; {}; restart the node, and if they stay away, have it repaired",
                count_text(count, "GPU"), wanted, fmt::join(lost, "; "));
}

Check make_count(Words words) {
  require_words(words, 1, 2, "COUNT [rocm]");
  const int wanted = parse_count(words[0], "count", 0, 1024);
  const bool rocm = words.size() > 1 && words[1] == "rocm";
  require(words.size() == 1 || rocm || words[1] == "cuda" || words[1] == "nvidia", ErrorKind::config,
          "\"{}\" after the count; expected rocm or nothing", words[words.size() - 1]);
  if (!rocm) return [wanted](const Machine& machine) { return count_nvidia(machine, wanted); };
  return [wanted](const Machine& machine) {
    const ProcessResult result = machine.command({"rocm-smi", "--showid"}, 60);
    if (result.exit_code == 127 && !has_amd_gpu(machine))
      return wanted == 0 ? passed() : failed("no GPU of AMD's on this node, expected {}", wanted);
    if (result.exit_code == 127) return not_checked("this node has no rocm-smi, which counts AMD's GPUs");
    if (result.exit_code != 0) return failed("rocm-smi {}", describe_end(result));
    std::set<std::string> devices;
    for (std::string_view line : split_lines(result.out)) {
      if (line.starts_with("GPU[")) devices.emplace(line.substr(0, line.find(']')));
    }
    if (devices.size() != static_cast<size_t>(wanted))
      return failed("{}, expected {}", count_text(devices.size(), "GPU"), wanted);
    return passed();
  };
}

/// What nvidia-smi's exit code would say: the driver starts and answers for every GPU, and no infoROM is corrupt.
Check make_healthmon(Words words) {
  require_words(words, 0, 0, "no argument");
  return of_nvidia([](const Machine& machine) {
    if (nvml::is_there(machine.nvml_library)) {
      return for_each_gpu([](const GpuCondition& gpu) {
        return gpu.inforom_corrupt ? failed("{}: its infoROM is corrupt; {}", gpu.label(), kReplace) : passed();
      })(machine);
    }
    const ProcessResult result = machine.command({"nvidia-smi"}, 60);
    if (result.timed_out) return failed("nvidia-smi {}", describe_end(result));
    if (result.exit_code != 0) {
      return failed("nvidia-smi ended with code {}: {}", result.exit_code, smi_exit_reason(result.exit_code));
    }
    return passed();
  });
}

Check make_dcgm(Words words) {
  require_words(words, 0, 0, "no argument");
  return of_nvidia([](const Machine& machine) {
    const ProcessResult result = machine.command({"dcgmi", "diag", "-r", "1"}, 120);
    if (result.exit_code == 127) return not_checked("this node has no dcgmi; install NVIDIA's datacenter-gpu-manager");
    if (result.exit_code != 0) return failed("dcgmi diag -r 1 {}", describe_end(result));
    for (std::string_view line : split_lines(result.out)) {
      if (line.find("Fail") != std::string_view::npos) return failed("dcgmi diag -r 1: {}", trim_blanks(line));
    }
    return passed();
  });
}

/// Checks, repairs what the check finds if that is allowed, and checks again.
Check repairable(const std::function<Outcome(const GpuCondition&)>& check,
                 void (*repair)(const Machine&, const GpuCondition&), const char* remark) {
  return [=, look = for_each_gpu(check)](const Machine& machine) {
    const Outcome first = look(machine);
    if (first.kind != Outcome::Kind::fail || !machine.repair) return first;
    const GpuConditions found = gpu_conditions(machine);
    for (const GpuCondition& gpu : found.gpus) {
      if (gpu.fault.empty() && check(gpu).kind == Outcome::Kind::fail) repair(machine, gpu);
    }
    const Outcome second = look(machine);
    return second.kind == Outcome::Kind::pass ? passed(remark) : second;
  };
}

Check make_persistence(Words words) {
  require_words(words, 0, 0, "no argument");
  return repairable(
      [](const GpuCondition& gpu) {
        if (!gpu.persistence) return not_checked(gpu.label() + ": the driver does not report its persistence mode");
        if (*gpu.persistence) return passed();
        return failed(
            "{}: persistence mode is off; switch it on (nvidia-smi -i {} -pm 1, or the service nvidia-persistenced)",
            gpu.label(), gpu.index);
      },
      switch_persistence_on, "switched persistence mode on");
}

Check make_clocks(Words words) {
  require_words(words, 0, 0, "no argument");
  return repairable(
      [](const GpuCondition& gpu) {
        if (!gpu.graphics || !gpu.memory) return passed("this driver or device has no application clocks");
        const auto low = [&](const char* name, const GpuCondition::Clock& clock) {
          return failed(
              "{}: {} application clock {:.0f} MHz, below its maximum {:.0f} MHz; raise both with nvidia-smi "
              "-i {} -ac {:.0f},{:.0f}",
              gpu.label(), name, clock.application, clock.most, gpu.index, gpu.memory->most, gpu.graphics->most);
        };
        if (gpu.graphics->application < gpu.graphics->most) return low("graphics", *gpu.graphics);
        if (gpu.memory->application < gpu.memory->most) return low("memory", *gpu.memory);
        return passed();
      },
      raise_application_clocks, "raised application clocks to their maximum");
}

Outcome check_errors(const GpuCondition& gpu, const GpuCondition::Errors& errors, const char* period, double most_dram,
                     double most_sram) {
  constexpr const char* kExamine = "have the GPU examined (dcgmi diag -r 3), and replaced if it fails";
  const std::string label = gpu.label();
  if (errors.sram_uncorrected > 0) {
    return failed("{}: {:.0f} uncorrectable SRAM errors ({}); {}", label, errors.sram_uncorrected, period, kReplace);
  }
  if (errors.sram_corrected > most_sram) {
    return failed("{}: {:.0f} corrected SRAM errors ({}), above {:.0f}; {}", label, errors.sram_corrected, period,
                  most_sram, kExamine);
  }
  if (errors.dram_corrected > most_dram) {
    return failed("{}: {:.0f} corrected DRAM errors ({}), above {:.0f}; {}", label, errors.dram_corrected, period,
                  most_dram, kExamine);
  }
  if (errors.dram_uncorrected > most_dram) {
    return failed("{}: {:.0f} uncorrectable DRAM errors ({}), above {:.0f}; {}", label, errors.dram_uncorrected, period,
                  most_dram, kReplace);
  }
  return passed();
}

Outcome check_ecc(const GpuCondition& gpu, double most_dram, double most_sram) {
  // NVIDIA recommends replacement at 60 retired pages, and allows 512 remapped rows.
  constexpr double kMostRetired = 60, kMostRemapped = 512;
  const std::string label = gpu.label();
  if (!gpu.memory_known) return not_checked(label + ": the driver reports no errors of its memory, so ECC is off");
  if (gpu.remap_failed.value_or(false)) return failed("{}: a row remap failed; {}", label, kReplace);
  if (gpu.remap_pending.value_or(false)) return failed("{}: a row remap is pending; {}", label, reset(gpu));
  if (gpu.rows_remapped > kMostRemapped)
    return failed("{}: {:.0f} rows remapped, above {:.0f}; {}", label, gpu.rows_remapped, kMostRemapped, kReplace);
  if (gpu.retirement_pending.value_or(false)) return failed("{}: a page retirement is pending; {}", label, reset(gpu));
  if (gpu.pages_retired >= kMostRetired)
    return failed("{}: {:.0f} pages retired, {:.0f} is the limit; {}", label, gpu.pages_retired, kMostRetired,
                  kReplace);
  if (gpu.unrepairable.value_or(false)) return failed("{}: its memory is unrepairable; {}", label, kReplace);
  const Outcome recent = check_errors(gpu, gpu.since_start, "since the driver was loaded", most_dram, most_sram);
  if (recent.kind == Outcome::Kind::fail) return recent;
  return check_errors(gpu, gpu.lifetime, "in its life", most_dram, most_sram);
}

Check make_ecc(Words words) {
  require_words(words, 0, 2, "[MOST-DRAM-ERRORS [MOST-SRAM-ERRORS]]");
  const double dram = words.empty() ? 2e7 : parse_amount(words[0], "DRAM errors");
  const double sram = words.size() < 2 ? 1e4 : parse_amount(words[1], "SRAM errors");
  return for_each_gpu([=](const GpuCondition& gpu) { return check_ecc(gpu, dram, sram); });
}

/// A GPU that protects itself from heat or from its power supply is a failure. Other reasons are remarks: the driver
/// lowers clocks where a room is warm or a limit is set, which is not the node's fault.
Check make_throttling(Words words) {
  require_words(words, 0, 0, "no argument");
  return for_each_gpu([](const GpuCondition& gpu) {
    if (!gpu.reasons_known) return not_checked(gpu.label() + ": the driver does not report what lowers its clocks");
    std::string others;
    for (const std::string& name : gpu.held_down_by) {
      const auto reason = std::ranges::find(nvml::kClockReasons, name, &nvml::ClockReason::name);
      if (reason != std::end(nvml::kClockReasons) && reason->protects) {
        return failed(
            "{}: {} holds its clocks down; check its cooling and power (nvidia-smi -q -i {} -d "
            "PERFORMANCE,TEMPERATURE,POWER)",
            gpu.label(), fmt::join(gpu.held_down_by, ", "), gpu.index);
      }
      if (name != "SW Power Cap") others += (others.empty() ? "" : ", ") + name;
    }
    return others.empty() ? passed() : passed(fmt::format("{}: clocks are held down by {}", gpu.label(), others));
  });
}

struct Xid {
  int code;
  const char* what;
  const char* advice;
};
constexpr const char* kReset = "reset the GPU (nvidia-smi --gpu-reset) or restart the node";
constexpr const char* kRestart = "restart the node; if it happens again, have the GPU replaced";
constexpr const char* kUpdate = "restart the node; if it happens again, update the driver";
constexpr Xid kBadXids[] = {
    {48, "a double-bit memory error", kReset},
    {56, "an error of the display engine", kRestart},
    {57, "an error of the video memory's interface", kRestart},
    {58, "unstable video memory", kRestart},
    {62, "its internal microcontroller halted", kRestart},
    {63, "a page retirement or row remap was recorded", kReset},
    {64, "a page retirement or row remap could not be recorded", kRestart},
    {65, "an error of the video processor", kRestart},
    {68, "an error of the video processor", kRestart},
    {69, "an error of the graphics engine", kRestart},
    {73, "an error of the video encoder", kRestart},
    {74, "an error of an NVLink", "restart the node; if it happens again, have GPU and NVSwitch examined"},
    {79, "it fell off the bus", kRestart},
    {80, "corrupt data were sent to it", kRestart},
    {81, "an error of the VGA part", kRestart},
    {92, "a high rate of single-bit memory errors", "have the GPU examined (dcgmi diag -r 3)"},
    {94, "a memory error that was contained", kReset},
    {95, "a memory error that was not contained", kReset},
    {119, "its system processor does not answer", kUpdate},
    {120, "an error of its system processor", kUpdate},
};

/// "GPU 3 (00000000:65:00.0, GPU-...)" for "PCI:0000:65:00", or that itself.
std::string xid_device(const std::string& device, const std::vector<GpuCondition>& gpus) {
  for (const GpuCondition& gpu : gpus) {
    if (!gpu.bus.empty() && nvml::linux_bus(gpu.bus).starts_with(device.substr(device.find(':') + 1) + "."))
      return gpu.label();
  }
  return device;
}

/// [FILE]: of the kernel's log, else what the kernel remembers.
Check make_xid(Words words) {
  require_words(words, 0, 1, "[KERNEL-LOG]");
  const std::string file = words.empty() ? "" : words[0];
  return of_nvidia([file](const Machine& machine) -> Outcome {
    constexpr double kForgivenAfter = 2 * 3600;  // of the system processor, 119 and 120: cleared by a reset
    std::string log;
    if (!file.empty()) {
      const auto text = machine.read(file);
      if (!text) return not_checked(fmt::format("cannot read Xid events: {} cannot be read", file));
      log = *text;
    } else {
      ProcessResult read = machine.command({"dmesg"});
      if (read.exit_code != 0)
        read = machine.command({"journalctl", "--no-pager", "-k", "-b", "-o", "short-monotonic"});
      if (read.exit_code != 0)
        return not_checked("cannot read Xid events: neither dmesg nor journalctl -k can be used; run as root");
      log = read.out;
    }
    double uptime = 0;
    std::istringstream(machine.read("/proc/uptime").value_or("0")) >> uptime;
    for (const XidEvent& event : parse_xid_events(log)) {
      const auto bad = std::ranges::find(kBadXids, event.code, &Xid::code);
      if (bad == std::end(kBadXids)) continue;
      if (bad->advice == kUpdate && file.empty() && uptime - event.uptime > kForgivenAfter) continue;
      return failed("Xid {} on {}: {}; {}. The kernel wrote: {}", event.code,
                    xid_device(event.device, gpu_conditions(machine).gpus), bad->what, bad->advice, event.line);
    }
    return passed();
  });
}

constexpr const char* kLinks =
    "restart nvidia-fabricmanager and the node; if that does not help, have GPU and NVSwitch examined";

Outcome nvlinks_of_smi(const Machine& machine) {
  const ProcessResult result = machine.command({"nvidia-smi", "nvlink", "-s"}, 60);
  if (result.exit_code != 0) return failed("nvidia-smi nvlink -s {}", describe_end(result));
  try {
    std::string remark;
    for (const NvlinkStatus& gpu : parse_nvlink_status(result.out)) {
      if (gpu.all_inactive) return failed("{}: all NVLinks are down; {}", gpu.gpu, kLinks);
      if (gpu.inactive > 0) {
        return failed("{}: {} of {} NVLinks are down; {}", gpu.gpu, gpu.inactive, gpu.inactive + gpu.active, kLinks);
      }
      if (!gpu.supported) remark = fmt::format("{}: no NVLink to check", gpu.gpu);
    }
    return passed(remark);
  } catch (const Error& e) {
    return failed("{}", e.what());
  }
}

Check make_nvlink(Words words) {
  require_words(words, 0, 0, "no argument");
  return of_nvidia([](const Machine& machine) {
    if (!nvml::is_there(machine.nvml_library)) return nvlinks_of_smi(machine);
    return for_each_gpu([](const GpuCondition& gpu) {
      if (gpu.links_up + gpu.links_down == 0) return passed(fmt::format("{}: no NVLink to check", gpu.label()));
      if (gpu.links_down > 0) {
        return failed("{}: {} of {} NVLinks are down; {}", gpu.label(), gpu.links_down, gpu.links_up + gpu.links_down,
                      kLinks);
      }
      return passed();
    })(machine);
  });
}

/// [GENERATION [WIDTH]]: the link has the device's full width, and the slot the expected generation.
Check make_pcie(Words words) {
  require_words(words, 0, 2, "[GENERATION [WIDTH]]");
  const double generation = words.empty() ? 0 : parse_amount(words[0], "generation");
  const double width = words.size() < 2 ? 0 : parse_amount(words[1], "width");
  return for_each_gpu([=](const GpuCondition& gpu) {
    if (!gpu.width || !gpu.most_width || !gpu.most_generation)
      return failed("{}: the driver does not report its PCIe link", gpu.label());
    const double lanes = std::max(*gpu.most_width, width);
    if (*gpu.width < lanes) {
      return failed(
          "{}: PCIe link of {:.0f} lanes, expected {:.0f}; restart the node, and if that does not help, have the GPU "
          "reseated",
          gpu.label(), *gpu.width, lanes);
    }
    if (*gpu.most_generation < generation) {
      return failed("{}: PCIe generation {:.0f}, expected {:.0f}; check the slot and the BIOS", gpu.label(),
                    *gpu.most_generation, generation);
    }
    return passed();
  });
}

/// VERSION: of the GPUs' VBIOS.
Check make_vbios(Words words) {
  require_words(words, 1, 1, "VERSION");
  return for_each_gpu([version = words[0]](const GpuCondition& gpu) {
    if (gpu.vbios == version) return passed();
    return failed("{}: VBIOS {}, expected {}; update it or have the node replaced", gpu.label(),
                  gpu.vbios.empty() ? "unknown" : gpu.vbios, version);
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
    {"check_vbios_version", make_vbios, true},
};

}  // namespace

std::span<const KnownCheck> gpu_checks() { return kChecks; }

}  // namespace trireme::health
