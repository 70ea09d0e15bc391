#pragma once
// The tile registers of AMX (Intel from Sapphire Rapids on): eight of up to 16 rows of 64 bytes, which multiply bf16
// and add in f32. On a CPU without them the same instructions are emulated in memory, to test the code that uses them.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: LDTILECFG, TILELOADD, TDPBF16PS.

#include <cstdint>

#include "ops/cpu/isa.h"

namespace trireme::tiles {

constexpr int kRegisters = 8, kRows = 16, kRowBytes = 64;
constexpr int64_t kColumns = 16;  ///< f32 columns of a product
constexpr int64_t kSteps = 32;    ///< bf16 elements of k that one product takes

/// Operand of LDTILECFG: rows and bytes of a row, per register.
struct alignas(64) Shapes {
  uint8_t palette = 1, first_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(Shapes) == 64);

/// The instructions in memory; a thread has its own registers. A use that the CPU would refuse ends the program.
namespace emulated {
void configure(const Shapes& shapes);
void release();
void zero(int tile);
void load(int tile, const void* from, int64_t stride);
void store(int tile, void* to, int64_t stride);
void multiply_add(int sums, int a, int b);
/// Whether this thread's registers are in use.
bool in_use();

/// Instructions of one kind each, of all threads since the program began.
struct Counts {
  int64_t shapes = 0, loads = 0, stores = 0, products = 0;
};
Counts counts();
}  // namespace emulated

#if defined(__x86_64__)
#define TRIREME_TILES(instruction, ...)      \
  do {                                       \
    if (!emulates_tiles()) {                 \
      asm volatile(instruction __VA_ARGS__); \
      return;                                \
    }                                        \
  } while (false)
#else
#define TRIREME_TILES(instruction, ...) static_assert(true)
#endif

/// Shapes of all registers of this thread, whose content becomes zero.
inline void configure(const Shapes& shapes) {
  TRIREME_TILES("ldtilecfg %0", ::"m"(shapes));
  emulated::configure(shapes);
}
/// Back to the state in which the system has no registers to save.
inline void release() {
  TRIREME_TILES("tilerelease", ::);
  emulated::release();
}
template <int kTile>
inline void zero() {
  TRIREME_TILES("tilezero %%tmm%c0", ::"i"(kTile));
  emulated::zero(kTile);
}
/// stride: bytes between rows.
template <int kTile>
inline void load(const void* from, int64_t stride) {
  TRIREME_TILES("tileloadd (%0,%1,1), %%tmm%c2", ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  emulated::load(kTile, from, stride);
}
template <int kTile>
inline void store(void* to, int64_t stride) {
  TRIREME_TILES("tilestored %%tmm%c2, (%0,%1,1)", ::"r"(to), "r"(stride), "i"(kTile) : "memory");
  emulated::store(kTile, to, stride);
}
/// sums [rows, columns] f32 += a [rows, 2 k] b [k, 2 columns], in which b has the elements 2 k and 2 k + 1 of a column
/// side by side.
template <int kSums, int kA, int kB>
inline void multiply_add() {
  TRIREME_TILES("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0", ::"i"(kSums), "i"(kA), "i"(kB));
  emulated::multiply_add(kSums, kA, kB);
}

#undef TRIREME_TILES

}  // namespace trireme::tiles
