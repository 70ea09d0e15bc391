#pragma once
// Which instruction set the CPU kernels use.

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// In rising order: a CPU that has one has everything of those before it.
enum class Isa : uint8_t {
  portable,
  avx2,
  avx512,
  avx512bf16_fma,  ///< rounds to bf16 in one instruction, multiplies bf16 as f32
  avx512bf16,      ///< also multiplies pairs of bf16 (VDPBF16PS)
  amx,             ///< matrix products in tile registers; between them the kernels of avx512bf16_fma
};

/// "portable", "avx2", "avx512", "avx512bf16-fma", "avx512bf16", "amx"
std::string_view name_of(Isa isa);

/// The facts that decide on an instruction set.
struct CpuFacts {
  bool avx2 = false, avx512 = false, avx512bf16 = false;
  bool amx = false;            ///< the CPU has AMX-TILE and AMX-BF16
  std::string tiles_off = {};  ///< why programs cannot use the tile registers; empty: they can
  bool slow_pairs = false;     ///< VDPBF16PS does fewer multiplications per second than f32 FMA
};

/// The facts of this CPU. Where it has AMX, the first call asks the system for the tile registers.
const CpuFacts& cpu_facts();

/// The highest instruction set of a CPU, and the one used by default.
Isa highest_isa(const CpuFacts& cpu);
Isa fastest_isa(const CpuFacts& cpu);

/// Whether VDPBF16PS is slower than FMA by the CPU's vendor, family and model (from CPUID): on Intel's from Sapphire
/// Rapids on one is begun every second cycle, 32 multiplications, where two FMA begin in each, 64. Cooper Lake and
/// AMD's are not among them. Measured on an Emerald Rapids (bench/results/2026-11-23-xeon-without-amx.md).
bool has_slow_pairs(std::string_view vendor, int family, int model);

/// The instruction set to use: the CPU's fastest, or `requested` unless empty. Throws Error::usage, naming those that
/// the CPU has, for an unknown name or a set that the CPU lacks.
Isa choose_isa(std::string_view requested, const CpuFacts& cpu);

/// choose_isa() with the environment variable TRIREME_ISA; decided once per process, with a line in the log where the
/// CPU has tile registers that the system does not give. The first call also limits Highway's dispatch, so it comes
/// before the first kernel (make_cpu_ops() makes it). TRIREME_ISA=amx-emulated, for tests: the kernels of tile
/// registers on any CPU, their instructions emulated in memory (tiles.h), the others those of the CPU.
Isa cpu_isa();
inline bool emulates_tiles();

namespace detail {
extern const bool emulates_tiles;
}
inline bool emulates_tiles() { return detail::emulates_tiles; }

/// "amx", "amx-emulated"
std::string_view kernels_in_use();

/// Whether kernels multiply bf16 in tile registers, or in pairs; else as f32.
inline bool multiplies_tiles() { return cpu_isa() == Isa::amx || emulates_tiles(); }
inline bool multiplies_pairs() { return cpu_isa() == Isa::avx512bf16; }

/// Why these and no faster ones: "this CPU has no AMX"; empty for the fastest that there are. requested: TRIREME_ISA.
std::string kernels_reason(std::string_view requested, const CpuFacts& cpu);
std::string kernels_reason();

/// "avx2 in use, CPU has portable, avx2, avx512", for --version.
std::string cpu_features_text();

/// Brand string of the CPU, "unknown CPU" if the system does not report it.
std::string cpu_brand_text();

}  // namespace trireme
