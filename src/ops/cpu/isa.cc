#include "ops/cpu/isa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "ops/cpu/highway_targets.h"
// After the choice of targets.
#include <hwy/highway.h>
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace trireme {
namespace {

constexpr Isa kAll[] = {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16_fma, Isa::avx512bf16, Isa::amx};

#if HWY_ARCH_X86
struct CpuId {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  explicit CpuId(uint32_t leaf) { __get_cpuid_count(leaf, 0, &a, &b, &c, &d); }
};

bool bit(uint32_t value, int which) { return (value >> which & 1) != 0; }

/// Why programs cannot use the tile registers that the CPU has; empty when they can, from now on in all threads that
/// this one starts.
std::string ask_for_tiles() {
  constexpr uint32_t kTileStates = 1u << 17 | 1u << 18;  // TILECFG, TILEDATA
  uint32_t low = 0, high = 0;
  if (!bit(CpuId(1).c, 27)) return "the operating system does not save AVX registers";  // OSXSAVE
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kTileStates) != kTileStates) return "the operating system has disabled them";
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM: Linux 5.16 and newer
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0)
    return fmt::format("the operating system refuses them: {}", std::strerror(errno));
  return "";
}

CpuFacts read_facts() {
  CpuFacts cpu;
  const int64_t targets = hwy::SupportedTargets();
  cpu.avx2 = (targets & HWY_AVX2) != 0;
  cpu.avx512 = (targets & HWY_AVX3) != 0;
  cpu.avx512bf16 = cpu.avx512 && __builtin_cpu_supports("avx512bf16") != 0;
  const CpuId features(7);
  cpu.amx = cpu.avx512bf16 && bit(features.d, 24) && bit(features.d, 22);
  if (cpu.amx) cpu.tiles_off = ask_for_tiles();
  const CpuId name(0), version(1);
  std::string vendor(12, ' ');
  std::memcpy(&vendor[0], &name.b, 4);
  std::memcpy(&vendor[4], &name.d, 4);
  std::memcpy(&vendor[8], &name.c, 4);
  const auto family = static_cast<int>(version.a >> 8 & 15), model = static_cast<int>(version.a >> 4 & 15),
             extended_family = static_cast<int>(version.a >> 20 & 255),
             extended_model = static_cast<int>(version.a >> 16 & 15);
  cpu.slow_pairs =
      has_slow_pairs(vendor, family == 15 ? family + extended_family : family, extended_model << 4 | model);
  return cpu;
}
#else
CpuFacts read_facts() { return {}; }
#endif

void limit_highway([[maybe_unused]] Isa isa) {
#if HWY_ARCH_X86
  if (isa < Isa::avx512) hwy::DisableTargets(HWY_AVX3);
  if (isa < Isa::avx2) hwy::DisableTargets(HWY_AVX3 | HWY_AVX2);
#endif
}

constexpr std::string_view kEmulated = "amx-emulated";

std::string_view requested_isa() {
  const char* requested = std::getenv("TRIREME_ISA");
  return requested ? requested : "";
}

Isa decide_once() {
  const std::string_view requested = requested_isa();
  const CpuFacts& cpu = cpu_facts();
  Isa isa = choose_isa(requested == kEmulated ? "" : requested, cpu);
  if (requested == kEmulated) {
    log::warning(
        "TRIREME_ISA is amx-emulated: attention and linear layers in bf16 are many times slower than without it");
    // Not AVX-512 alone: kernels of tiles round to bf16 as such a CPU does, or are compiled for AVX2.
    isa = std::min(isa, cpu.avx512bf16 ? Isa::avx512bf16_fma : Isa::avx2);
  }
  if (requested.empty() && cpu.amx && !cpu.tiles_off.empty())
    log::warning("this CPU has AMX, but {}; using kernels {}", cpu.tiles_off, name_of(isa));
  limit_highway(isa);
  return isa;
}

std::string names_up_to(Isa best) {
  std::string names;
  for (Isa isa : kAll) {
    if (isa > best) break;
    names += names.empty() ? "" : ", ";
    names += name_of(isa);
  }
  return names;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512bf16_fma:
      return "avx512bf16-fma";
    case Isa::avx512bf16:
      return "avx512bf16";
    default:
      return "amx";
  }
}

const CpuFacts& cpu_facts() {
  static const CpuFacts facts = read_facts();  // before limit_highway() hides features of the CPU
  return facts;
}

bool has_slow_pairs(std::string_view vendor, int family, int model) {
  constexpr int kCooperLake = 85;
  return vendor == "GenuineIntel" && family == 6 && model != kCooperLake;
}

Isa highest_isa(const CpuFacts& cpu) {
  if (cpu.amx && cpu.tiles_off.empty()) return Isa::amx;
  if (cpu.avx512bf16) return Isa::avx512bf16;
  if (cpu.avx512) return Isa::avx512;
  return cpu.avx2 ? Isa::avx2 : Isa::portable;
}

Isa fastest_isa(const CpuFacts& cpu) {
  const Isa highest = highest_isa(cpu);
  return highest == Isa::avx512bf16 && cpu.slow_pairs ? Isa::avx512bf16_fma : highest;
}

Isa choose_isa(std::string_view requested, const CpuFacts& cpu) {
  if (requested.empty()) return fastest_isa(cpu);
  const Isa highest = highest_isa(cpu);
  for (Isa isa : kAll) {
    if (requested != name_of(isa)) continue;
    require(isa <= highest, ErrorKind::usage,
            "TRIREME_ISA is {}, but this CPU has only {}{}; set one of these or unset it for the fastest", requested,
            names_up_to(highest),
            isa == Isa::amx && cpu.amx ? fmt::format(" (it has AMX, but {})", cpu.tiles_off) : std::string());
    return isa;
  }
  fail(ErrorKind::usage, "TRIREME_ISA is '{}', which is not an instruction set; this CPU has {}", requested,
       names_up_to(highest));
}

Isa cpu_isa() {
  static const Isa isa = decide_once();
  return isa;
}

const bool detail::emulates_tiles = requested_isa() == kEmulated;

std::string_view kernels_in_use() { return emulates_tiles() ? kEmulated : name_of(cpu_isa()); }

std::string kernels_reason(std::string_view requested, const CpuFacts& cpu) {
  if (!requested.empty()) return fmt::format("TRIREME_ISA is {}", requested);
  if (cpu.amx) return cpu.tiles_off.empty() ? "" : fmt::format("this CPU has AMX, but {}", cpu.tiles_off);
  if (cpu.slow_pairs && cpu.avx512bf16) return "this CPU has no AMX, and multiplies pairs of bf16 slower than f32";
  if (cpu.avx512bf16) return "this CPU has no AMX";
  if (cpu.avx512) return "this CPU has no AVX512-BF16";
  return cpu.avx2 ? "this CPU has no AVX-512" : "this CPU has no AVX2";
}

std::string kernels_reason() { return kernels_reason(requested_isa(), cpu_facts()); }

std::string cpu_features_text() {
  return fmt::format("{} in use, CPU has {}", kernels_in_use(), names_up_to(highest_isa(cpu_facts())));
}

std::string cpu_brand_text() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    if (value != std::string::npos) return line.substr(value);
  }
  return "unknown CPU";
}

}  // namespace trireme
