#pragma once
// Which instruction set the CPU kernels use.

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// In rising order: each has everything of those before it. `portable` is the compiler's baseline (on arm64: NEON).
enum class Isa : uint8_t { portable, avx2, avx512, avx512bf16 };

std::string_view name_of(Isa isa);  ///< "portable", "avx2", "avx512", "avx512bf16"

/// The highest instruction set of this CPU.
Isa cpu_best_isa();

/// The instruction set to use: the CPU's best, or what `requested` names (empty: not asked for). Throws Error::usage,
/// naming what the CPU has, for an unknown name or a set that the CPU lacks.
Isa choose_isa(std::string_view requested, Isa best);

/// choose_isa() with the environment variable TRIREME_ISA; decided once per process. The first call also limits
/// Highway's dispatch, so it comes before the first kernel (make_cpu_ops() makes it).
Isa cpu_isa();

/// "avx2 in use, CPU has portable, avx2, avx512", for --version.
std::string cpu_features_text();

/// Brand string of the CPU, "unknown CPU" where the system does not tell.
std::string cpu_brand_text();

}  // namespace trireme
