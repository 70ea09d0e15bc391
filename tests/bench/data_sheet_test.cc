#include "bench/data_sheet.h"

#include <gtest/gtest.h>

#include <utility>

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
  EXPECT_EQ(data_sheet_of("NVIDIA H200 NVL, compute capability 9.0").flops16, 835e12);  // not that of an H200
  EXPECT_EQ(data_sheet_of("NVIDIA H200 NVL").link, 0);                                  // bridges, which it may lack
}

TEST(DataSheet, NvlinksAndPcieLinksCarryWhatTheirPagesSay) {
  EXPECT_EQ(data_sheet_of("NVIDIA H100 80GB HBM3").links(), 18);
  EXPECT_EQ(data_sheet_of("NVIDIA A100-SXM4-80GB").links(), 12);
  EXPECT_EQ(pcie_bytes_per_s(1, 1), 250e6);
  EXPECT_NEAR(pcie_bytes_per_s(3, 16), 15.75e9, 1e7);
  EXPECT_NEAR(pcie_bytes_per_s(5, 16), 63.0e9, 1e8);
  EXPECT_NEAR(pcie_bytes_per_s(6, 16), 118e9, 1e9);
  for (const auto& [generation, width] : {std::pair{0, 16}, {7, 16}, {5, 0}, {5, 64}})
    EXPECT_EQ(pcie_bytes_per_s(generation, width), 0) << generation;
}

}  // namespace
}  // namespace trireme
