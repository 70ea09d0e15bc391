#include "ops/cpu/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace trireme {
namespace {

std::string message_of(std::string_view requested, Isa best) {
  try {
    choose_isa(requested, best);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "";
}

TEST(Isa, NothingRequestedIsTheBest) {
  EXPECT_EQ(choose_isa("", Isa::avx2), Isa::avx2);
  EXPECT_EQ(choose_isa("", Isa::avx512bf16), Isa::avx512bf16);
}

TEST(Isa, EachLowerSetCanBeForced) {
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16})
    EXPECT_EQ(choose_isa(name_of(isa), Isa::avx512bf16), isa);
}

TEST(Isa, ASetThatTheCpuLacksIsAnErrorNamingWhatItHas) {
  EXPECT_EQ(message_of("avx512", Isa::avx2),
            "TRIREME_ISA is avx512, but this CPU has only portable, avx2; set one of these or unset it for the best");
}

TEST(Isa, AnUnknownNameIsAnErrorNamingWhatTheCpuHas) {
  EXPECT_EQ(message_of("AVX2", Isa::avx512),
            "TRIREME_ISA is 'AVX2', which is no instruction set; this CPU has portable, avx2, avx512");
}

TEST(Isa, TheEnvironmentDecides) {
  const char* requested = std::getenv("TRIREME_ISA");
  EXPECT_EQ(cpu_isa(), choose_isa(requested ? requested : "", cpu_best_isa()));
  EXPECT_THAT(cpu_features_text(), testing::StartsWith(std::string(name_of(cpu_isa())) + " in use, CPU has portable"));
}

TEST(Isa, TheBrandIsNeverEmpty) { EXPECT_FALSE(cpu_brand_text().empty()); }

}  // namespace
}  // namespace trireme
