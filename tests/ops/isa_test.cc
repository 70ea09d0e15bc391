#include "ops/cpu/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace trireme {
namespace {

CpuFacts zen4() { return {.avx2 = true, .avx512 = true, .avx512bf16 = true}; }
CpuFacts sapphire_rapids() {
  return {.avx2 = true, .avx512 = true, .avx512bf16 = true, .amx = true, .tiles_off = "", .slow_pairs = true};
}
CpuFacts without_amx() {
  CpuFacts cpu = sapphire_rapids();
  cpu.amx = false;
  return cpu;
}
CpuFacts with_tiles_off() {
  CpuFacts cpu = sapphire_rapids();
  cpu.tiles_off = "the operating system has disabled them";
  return cpu;
}

std::string message_of(std::string_view requested, const CpuFacts& cpu) {
  try {
    choose_isa(requested, cpu);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "";
}

TEST(Isa, NothingRequestedIsTheFastest) {
  EXPECT_EQ(choose_isa("", {}), Isa::portable);
  EXPECT_EQ(choose_isa("", {.avx2 = true}), Isa::avx2);
  EXPECT_EQ(choose_isa("", {.avx2 = true, .avx512 = true}), Isa::avx512);
  EXPECT_EQ(choose_isa("", zen4()), Isa::avx512bf16);
  EXPECT_EQ(choose_isa("", sapphire_rapids()), Isa::amx);
  EXPECT_EQ(choose_isa("", without_amx()), Isa::avx512bf16_fma) << "its VDPBF16PS is slower than FMA";
  EXPECT_EQ(choose_isa("", with_tiles_off()), Isa::avx512bf16_fma);
}

TEST(Isa, EachLowerSetCanBeForced) {
  const Isa all[] = {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16_fma, Isa::avx512bf16, Isa::amx};
  for (Isa isa : all) EXPECT_EQ(choose_isa(name_of(isa), sapphire_rapids()), isa);
  EXPECT_EQ(choose_isa("avx512bf16", without_amx()), Isa::avx512bf16) << "slower, but asked for";
}

TEST(Isa, ASetThatTheCpuLacksIsAnErrorNamingWhatItHas) {
  EXPECT_EQ(
      message_of("avx512", {.avx2 = true}),
      "TRIREME_ISA is avx512, but this CPU has only portable, avx2; set one of these or unset it for the fastest");
  EXPECT_EQ(message_of("amx", zen4()),
            "TRIREME_ISA is amx, but this CPU has only portable, avx2, avx512, avx512bf16-fma, avx512bf16; set one of "
            "these or unset it for the fastest");
  EXPECT_EQ(message_of("amx", with_tiles_off()),
            "TRIREME_ISA is amx, but this CPU has only portable, avx2, avx512, avx512bf16-fma, avx512bf16 (it has AMX, "
            "but the operating system has disabled them); set one of these or unset it for the fastest");
}

TEST(Isa, AnUnknownNameIsAnErrorNamingWhatTheCpuHas) {
  EXPECT_EQ(message_of("AVX2", {.avx2 = true, .avx512 = true}),
            "TRIREME_ISA is 'AVX2', which is not an instruction set; this CPU has portable, avx2, avx512");
}

TEST(Isa, PairsAreSlowOnIntelsCpusButCooperLake) {
  EXPECT_TRUE(has_slow_pairs("GenuineIntel", 6, 143)) << "Sapphire Rapids";
  EXPECT_TRUE(has_slow_pairs("GenuineIntel", 6, 207)) << "Emerald Rapids";
  EXPECT_FALSE(has_slow_pairs("GenuineIntel", 6, 85)) << "Cooper Lake";
  EXPECT_FALSE(has_slow_pairs("AuthenticAMD", 25, 17)) << "Zen 4";
  EXPECT_FALSE(has_slow_pairs("AuthenticAMD", 26, 2)) << "Zen 5";
}

TEST(Isa, WhyNoFasterKernelsRunIsSaid) {
  CpuFacts cpu;
  EXPECT_EQ(kernels_reason("", cpu), "this CPU has no AVX2");
  cpu.avx2 = true;
  EXPECT_EQ(kernels_reason("", cpu), "this CPU has no AVX-512");
  EXPECT_EQ(kernels_reason("portable", cpu), "TRIREME_ISA is portable");
  cpu.avx512 = true;
  EXPECT_EQ(kernels_reason("", cpu), "this CPU has no AVX512-BF16");
  cpu.avx512bf16 = true;
  EXPECT_EQ(kernels_reason("", cpu), "this CPU has no AMX");
  cpu.slow_pairs = true;
  EXPECT_EQ(kernels_reason("", cpu), "this CPU has no AMX, and multiplies pairs of bf16 slower than f32");
  cpu.amx = true;
  EXPECT_EQ(kernels_reason("", cpu), "");
  cpu.tiles_off = "the operating system has disabled them";
  EXPECT_EQ(kernels_reason("", cpu), "this CPU has AMX, but the operating system has disabled them");
}

TEST(Isa, TheEnvironmentDecides) {
  const char* requested = std::getenv("TRIREME_ISA");
  EXPECT_THAT(cpu_features_text(), testing::StartsWith(std::string(kernels_in_use()) + " in use, CPU has portable"));
  if (emulates_tiles()) {
    EXPECT_STREQ(requested, "amx-emulated");
    EXPECT_EQ(kernels_in_use(), "amx-emulated");
    EXPECT_LT(cpu_isa(), Isa::avx512bf16) << "what is not in tiles is multiplied as f32";
  } else {
    EXPECT_EQ(cpu_isa(), choose_isa(requested ? requested : "", cpu_facts()));
    EXPECT_EQ(kernels_in_use(), name_of(cpu_isa()));
  }
}

TEST(Isa, TheBrandIsNeverEmpty) { EXPECT_FALSE(cpu_brand_text().empty()); }

}  // namespace
}  // namespace trireme
