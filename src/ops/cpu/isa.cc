#include "ops/cpu/isa.h"

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "ops/cpu/highway_targets.h"
// After the choice of targets.
#include <hwy/highway.h>

namespace trireme {
namespace {

constexpr Isa kAll[] = {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16};

Isa detect_best() {
#if HWY_ARCH_X86
  const int64_t targets = hwy::SupportedTargets();
  if (targets & HWY_AVX3) return __builtin_cpu_supports("avx512bf16") ? Isa::avx512bf16 : Isa::avx512;
  if (targets & HWY_AVX2) return Isa::avx2;
#endif
  return Isa::portable;
}

void limit_highway([[maybe_unused]] Isa isa) {
#if HWY_ARCH_X86
  if (isa < Isa::avx512) hwy::DisableTargets(HWY_AVX3);
  if (isa < Isa::avx2) hwy::DisableTargets(HWY_AVX3 | HWY_AVX2);
#endif
}

Isa decide_once() {
  const char* requested = std::getenv("TRIREME_ISA");
  const Isa isa = choose_isa(requested ? requested : "", cpu_best_isa());
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
    default:
      return "avx512bf16";
  }
}

Isa cpu_best_isa() {
  static const Isa best = detect_best();  // before limit_highway() hides what the CPU has
  return best;
}

Isa choose_isa(std::string_view requested, Isa best) {
  if (requested.empty()) return best;
  for (Isa isa : kAll) {
    if (requested != name_of(isa)) continue;
    require(isa <= best, ErrorKind::usage,
            "TRIREME_ISA is {}, but this CPU has only {}; set one of these or unset it for the best", requested,
            names_up_to(best));
    return isa;
  }
  fail(ErrorKind::usage, "TRIREME_ISA is '{}', which is no instruction set; this CPU has {}", requested,
       names_up_to(best));
}

Isa cpu_isa() {
  static const Isa isa = decide_once();
  return isa;
}

std::string cpu_features_text() {
  return fmt::format("{} in use, CPU has {}", name_of(cpu_isa()), names_up_to(cpu_best_isa()));
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
