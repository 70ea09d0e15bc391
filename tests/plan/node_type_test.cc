#include "plan/node_type.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

TEST(NodeType, EveryOneHasASourceAndADateOfItsPrice) {
  for (const NodeType& type : node_types()) {
    EXPECT_FALSE(type.source.empty()) << type.name;
    EXPECT_EQ(type.price_per_hour > 0, !type.price_date.empty()) << type.name;
    EXPECT_GT(rates_of(type, std::max<int64_t>(type.gpus, 1)).node_bytes, 0) << type.name;
  }
}

TEST(NodeType, AnUnknownNameIsRefusedWithTheNearest) {
  EXPECT_ERROR(node_type("aws-hpc7a.96xlarg"), ErrorKind::config,
               "unknown node type \"aws-hpc7a.96xlarg\", nearest is \"aws-hpc7a.96xlarge\"");
  EXPECT_ERROR(node_type("h100"), ErrorKind::config,
               "unknown node type \"h100\", nearest are \"azure-nd96isr-h100-v5\", \"aws-p5.48xlarge\"; `trireme plan");
}

TEST(NodeType, ComesFromAFile) {
  const TemporaryFolder dir;
  const std::string path = dir / "own.yaml";
  write_text(path,
             "name: own\ncores: 64\ntflops: 4\nmemory-gb: 256\nmemory-gb-per-s: 200\nnetwork-gbit-per-s: 25\n"
             "price-per-hour: 1.5\nprice-date: 2026-01\n");
  const NodeType type = find_node_type(path);
  EXPECT_EQ(type.name, "own");
  EXPECT_EQ(type.price_per_hour, 1.5);
  const MachineRates rates = rates_of(type, 4);
  EXPECT_EQ(rates.peak_flops, 1e12);
  EXPECT_EQ(rates.memory_bytes, 50e9);
  EXPECT_EQ(rates.node_bytes, 25e9 / 8);
  EXPECT_ERROR(rates_of(type, 65), ErrorKind::config, "node type own has 64 cores, too few for 65 ranks");
}

TEST(NodeType, AFileWithAMistakeIsRefused) {
  const TemporaryFolder dir;
  const std::string path = dir / "own.yaml";
  write_text(path, "cores: 64\ntflop: 4\n");
  EXPECT_ERROR(read_node_type(path), ErrorKind::config, ":2: tflop: unknown key, nearest is tflops");
  write_text(path, "cores: 64\ntflops: 4\nmemory-gb: 256\nmemory-gb-per-s: 200\nnetwork-gbit-per-s: 0\n");
  EXPECT_ERROR(read_node_type(path), ErrorKind::config, ":5: network-gbit-per-s is 0, expected a positive number");
  for (const char* value : {"1e308", "1e-300"}) {
    write_text(path, fmt::format("cores: 64\ntflops: {}\n", value));
    EXPECT_ERROR(read_node_type(path), ErrorKind::config, ", expected a number from 1e-06 to 1e+09");
  }
  write_text(path, "cores: 64\ntflops: 4\nmemory-gb: 256\nmemory-gb-per-s: 200\n");
  EXPECT_ERROR(read_node_type(path), ErrorKind::config, "network-gbit-per-s is missing; add it");
  write_text(path, "gpus: 8\ntflops: 4\nmemory-gb: 256\nmemory-gb-per-s: 200\nnetwork-gbit-per-s: 10\n");
  EXPECT_ERROR(read_node_type(path), ErrorKind::config, "link-gb-per-s is missing: 8 GPUs need a bandwidth");
}

TEST(NodeType, AGpuHasOneRank) {
  EXPECT_ERROR(rates_of(node_type("a100-80gb"), 9), ErrorKind::config,
               "node type a100-80gb has 8 GPUs: expected at most one rank for each, found 9");
  EXPECT_EQ(rates_of(node_type("a100-80gb"), 4).peak_flops, 312e12) << "fewer ranks do not share the other GPUs";
}

TEST(NodeType, GpusReachEachOtherInsideANodeAndThroughItsNetwork) {
  const MachineRates nvlink = trireme_rates(node_type("azure-nd96amsr-a100-v4"), 8, {.host_sums = true});
  EXPECT_EQ(nvlink.node_ranks, 8);
  EXPECT_EQ(nvlink.inner_bytes, 300e9);
  EXPECT_EQ(nvlink.node_bytes, 200e9) << "8 x 200 Gbit/s";
  EXPECT_TRUE(nvlink.exchange_overlaps);
  EXPECT_FALSE(nvlink.every_rank_sends);
  const MachineRates pcie = trireme_rates(node_type("a6000-10gbe"), 4, {});
  EXPECT_EQ(pcie.inner_bytes, 31.5e9);
  EXPECT_EQ(pcie.node_bytes, 1.25e9);
  EXPECT_TRUE(pcie.every_rank_sends);
}

TEST(NodeType, ComputesInF32WithTheRateOfF32) {
  const NodeType type = node_type("azure-hb176rs-v4");
  const MachineRates half = trireme_rates(type, 2, {.dtype = DType::bf16, .wire = DType::f32});
  const MachineRates full = trireme_rates(type, 2, {.dtype = DType::f32, .host_sums = true});
  EXPECT_DOUBLE_EQ(half.peak_flops, 13.5e12);
  EXPECT_DOUBLE_EQ(full.peak_flops, 6.75e12);
  EXPECT_EQ(half.element_bytes, 2);
  EXPECT_EQ(full.element_bytes, 4);
  EXPECT_EQ(half.gradient_bytes, 4);
  EXPECT_TRUE(half.every_rank_sends);
  EXPECT_FALSE(full.every_rank_sends);
}

}  // namespace
}  // namespace trireme
