#pragma once
// The instruction sets that vector code is compiled for: the compiler's baseline, AVX2 and AVX-512 (Highway's AVX3) on
// x86-64, NEON on arm64. Included before any Highway header; the rest is left out because each set costs compile time
// and the kernels are bound by memory, not by the instructions that the other sets add.

#include <hwy/detect_compiler_arch.h>

#if HWY_ARCH_X86
// Smaller bits are later sets: this also covers those that newer versions of Highway know.
#define HWY_DISABLED_TARGETS ((HWY_AVX3 - 1) | HWY_SSE4 | HWY_SSSE3)
#elif HWY_ARCH_ARM
#define HWY_DISABLED_TARGETS (HWY_NEON - 1)
#endif
