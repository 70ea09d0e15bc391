#include "bench/data_sheet.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(DataSheet, IsFoundByTheDriversName) {
  const DataSheet h100 = data_sheet_of("NVIDIA H100 80GB HBM3, compute capability 9.0, driver 13.0, runtime 13.0");
  EXPECT_EQ(h100.card, "H100 80GB HBM3");
  EXPECT_EQ(h100.flops(DType::bf16), 989e12);
  EXPECT_EQ(h100.flops(DType::f16), 989e12);
  EXPECT_EQ(h100.flops(DType::f32), 67e12);
  EXPECT_EQ(data_sheet_of("NVIDIA H200, compute capability 9.0").bytes, 4800e9);
  EXPECT_EQ(data_sheet_of("NVIDIA A100 80GB PCIe, compute capability 8.0").bytes, 1935e9);
  EXPECT_TRUE(data_sheet_of("NVIDIA GeForce RTX 3060").card.empty());
}

}  // namespace
}  // namespace trireme
