// The nodes that the planner and `trireme cluster` know: the one table of rates, sizes and prices.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "plan/node_type.h"

namespace trireme {
namespace {

/// A size of a provider.
struct CloudSize {
  const char* name = "";
  int threads = 0, memory_gib = 0;
  bool fast = false;  ///< InfiniBand or Elastic Fabric Adapter
  double price = 0;
  const char* price_date = "";
};

/// What all nodes with eight of a GPU share.
struct EightGpus {
  const char *processor, *instruction_set;
  double tflops, f32_tflops, memory_gb, memory_gb_per_s, link_gb_per_s;
  int64_t units;
  const char* source;
};
constexpr EightGpus kA100{"8 x A100-SXM4-80GB",
                          "sm_80",
                          312,
                          19.5,
                          80,
                          2039,
                          300,
                          108,
                          "NVIDIA A100 80GB data sheet: 312 TFLOP/s, f32 19.5, 2039 GB/s, NVLink 600 GB/s both ways"};
constexpr EightGpus kSmallA100{
    "8 x A100-SXM4-40GB",
    "sm_80",
    312,
    19.5,
    40,
    1555,
    300,
    108,
    "NVIDIA A100 40GB data sheet: 312 TFLOP/s, f32 19.5, 1555 GB/s, NVLink 600 GB/s both ways"};
constexpr EightGpus kH100{"8 x H100-SXM5-80GB",
                          "sm_90",
                          989,
                          67,
                          80,
                          3352,
                          450,
                          132,
                          "NVIDIA H100 SXM data sheet: 989 TFLOP/s, f32 67, 3352 GB/s, NVLink 900 GB/s both ways"};

NodeType with_size(NodeType type, const CloudSize& size) {
  type.price_per_hour = size.price;
  type.price_date = size.price_date;
  type.size = size.name;
  type.threads = size.threads;
  type.memory_gib = size.memory_gib;
  type.fast = size.fast;
  return type;
}

NodeType node_with(const EightGpus& gpus, const char* name, double network, const char* source,
                   const CloudSize& size = {.threads = 96, .memory_gib = 0}, int64_t cores = 96) {
  return with_size({.name = name,
                    .processor = gpus.processor,
                    .instruction_set = gpus.instruction_set,
                    .cores = cores,
                    .gpus = 8,
                    .tflops = gpus.tflops,
                    .f32_tflops = gpus.f32_tflops,
                    .memory_gb = gpus.memory_gb,
                    .memory_gb_per_s = gpus.memory_gb_per_s,
                    .link_gb_per_s = gpus.link_gb_per_s,
                    .network_gbit_per_s = network,
                    .units = gpus.units,
                    .source = std::string(gpus.source) + "; " + source},
                   size);
}

/// A kind of core, as a share of its processor.
struct CoreKind {
  const char *processor, *instruction_set;
  double f32_gflops, half_gflops, gb_per_s;
  int threads;
  const char* source;
};
constexpr CoreKind kIceLake{"Xeon (Ice Lake)",
                            "avx512",
                            2.8 * 64,
                            2.8 * 64,
                            6.4,
                            2,
                            "2.8 GHz and 64 f32 operations per cycle and core; 8 channels of DDR4-3200 for 32 cores"};
/// Azure may give a later processor, so that the instruction set is not known.
constexpr CoreKind kAzureXeon{"Xeon (Ice Lake or later)",
                              "",
                              2.8 * 64,
                              2.8 * 64,
                              6.4,
                              2,
                              "2.8 GHz and 64 f32 operations per cycle and core; 8 channels of DDR4-3200 for 32 cores"};
constexpr CoreKind kCascadeLake{
    "Xeon (Cascade Lake or later)",
    "",
    2.7 * 64,
    2.7 * 64,
    5.4,
    2,
    "2.7 GHz and 64 f32 operations per cycle and core; 6 channels of DDR4-2933 for 26 cores"};
constexpr CoreKind kSapphireRapids{"Xeon (Sapphire Rapids)",
                                   "",
                                   2.4 * 64,
                                   2.4 * 64,
                                   6.4,
                                   2,
                                   "2.4 GHz and 64 f32 operations per cycle and core, in 16 bits the same: what AMX "
                                   "adds is not measured; 8 channels of "
                                   "DDR5-4800 for 48 cores"};

NodeType node_of(const CoreKind& kind, const char* name, double network, const CloudSize& size) {
  const int64_t cores = size.threads / kind.threads;
  const auto n = static_cast<double>(cores);
  const bool azure = std::string(size.name).starts_with("Standard_");
  return with_size({.name = name,
                    .processor = kind.processor,
                    .instruction_set = kind.instruction_set,
                    .cores = cores,
                    .tflops = n * kind.half_gflops / 1e3,
                    .f32_tflops = n * kind.f32_gflops / 1e3,
                    .memory_gb = static_cast<double>(size.memory_gib),
                    .memory_gb_per_s = n * kind.gb_per_s,
                    .network_gbit_per_s = network,
                    .source = fmt::format("{}'s page of the size; {}", azure ? "Azure" : "AWS", kind.source)},
                   size);
}

std::vector<NodeType> make_types() {
  return {
      node_with(kA100, "a100-80gb", 800, "800 Gbit/s between nodes: vTrain's measured cluster (MICRO 2024)"),
      node_with(kA100, "dgx-a100", 1600, "NVIDIA DGX A100 data sheet: 8 x 200 Gbit/s"),
      node_with(kA100, "azure-nd96amsr-a100-v4", 1600, "Azure ND A100 v4 page: 8 x 200 Gbit/s",
                {"Standard_ND96amsr_A100_v4", 96, 1900, true, 32.77, "2023-06"}),
      node_with(kA100, "aws-p4de.24xlarge", 400, "AWS EC2 P4 page: 400 Gbit/s",
                {"p4de.24xlarge", 96, 1152, true, 40.97, "2023-06"}, 48),
      node_with(kSmallA100, "a100-40gb-ethernet", 3.5,
                "a network that carries 0.35 GB/s, fitted to GPT-NeoX's published speeds on 1 to 3 nodes"),
      {.name = "a6000-10gbe",
       .processor = "4 x RTX A6000",
       .instruction_set = "sm_86",
       .cores = 64,
       .gpus = 4,
       .tflops = 154.8,
       .f32_tflops = 38.7,
       .memory_gb = 48,
       .memory_gb_per_s = 768,
       .link_gb_per_s = 31.5,
       .network_gbit_per_s = 10,
       .units = 84,
       .source = "NVIDIA RTX A6000 data sheet: 154.8 TFLOP/s, f32 38.7, 768 GB/s, PCIe 4 x16, NVLink in pairs only; "
                 "64 cores and 10 Gbit/s between nodes are assumptions"},
      node_with(kH100, "azure-nd96isr-h100-v5", 3200, "Azure ND H100 v5 page: 8 x 400 Gbit/s",
                {"Standard_ND96isr_H100_v5", 96, 1900, true, 98.32, "2023-12"}),
      node_with(kH100, "aws-p5.48xlarge", 3200, "AWS EC2 P5 page: 3200 Gbit/s",
                {"p5.48xlarge", 192, 2048, true, 98.32, "2023-07"}, 96),
      with_size(
          {.name = "azure-hb176rs-v4",
           .processor = "2 x EPYC 9V33X (Zen 4)",
           .instruction_set = "avx512bf16",
           .cores = 176,
           .tflops = 27.0,
           .f32_tflops = 13.5,
           .memory_gb = 768,
           .memory_gb_per_s = 780,
           .network_gbit_per_s = 400,
           .source = "Azure HBv4 page: 2.4 GHz, 780 GB/s, 400 Gbit/s; 64 bf16 or 32 f32 operations per cycle and core"},
          {"Standard_HB176rs_v4", 176, 768, true, 7.20, "2025-01"}),
      with_size(
          {.name = "azure-hb120rs-v3",
           .processor = "2 x EPYC 7V73X (Zen 3)",
           .instruction_set = "avx2",
           .cores = 120,
           .tflops = 11.5,
           .memory_gb = 448,
           .memory_gb_per_s = 350,
           .network_gbit_per_s = 200,
           .source =
               "Azure HBv3 page: 3.0 GHz on all cores, 350 GB/s, 200 Gbit/s; 32 f32 operations per cycle and core"},
          {"Standard_HB120rs_v3", 120, 448, true, 3.60, "2025-01"}),
      with_size(
          {.name = "aws-hpc7a.96xlarge",
           .processor = "2 x EPYC 9R14 (Zen 4)",
           .instruction_set = "avx512bf16",
           .cores = 192,
           .tflops = 31.9,
           .f32_tflops = 16.0,
           .memory_gb = 768,
           .memory_gb_per_s = 922,
           .network_gbit_per_s = 300,
           .source =
               "AWS EC2 Hpc7a page: 300 Gbit/s; 2 x 12 channels of DDR5-4800; 2.6 GHz, 64 bf16 or 32 f32 operations "
               "per cycle and core"},
          {"hpc7a.96xlarge", 192, 768, true, 7.20, "2025-01"}),
      with_size(
          {.name = "aws-hpc6a.48xlarge",
           .processor = "2 x EPYC 7R13 (Zen 3)",
           .instruction_set = "avx2",
           .cores = 96,
           .tflops = 8.1,
           .memory_gb = 384,
           .memory_gb_per_s = 410,
           .network_gbit_per_s = 100,
           .source =
               "AWS EC2 Hpc6a page: 100 Gbit/s; 2 x 8 channels of DDR4-3200; 2.65 GHz, 32 f32 operations per cycle and "
               "core"},
          {"hpc6a.48xlarge", 96, 384, true, 2.88, "2025-01"}),
      node_of(kAzureXeon, "azure-d2s-v5", 12.5, {"Standard_D2s_v5", 2, 8, false, 0.096, "2025-01"}),
      node_of(kAzureXeon, "azure-d4s-v5", 12.5, {"Standard_D4s_v5", 4, 16, false, 0.192, "2025-01"}),
      node_of(kAzureXeon, "azure-d8s-v5", 12.5, {"Standard_D8s_v5", 8, 32, false, 0.384, "2025-01"}),
      node_of(kAzureXeon, "azure-d16s-v5", 12.5, {"Standard_D16s_v5", 16, 64, false, 0.768, "2025-01"}),
      node_of(kAzureXeon, "azure-d32-v5", 16, {"Standard_D32_v5", 32, 128, false, 1.536, "2025-01"}),
      node_of(kAzureXeon, "azure-d32s-v5", 16, {"Standard_D32s_v5", 32, 128, false, 1.536, "2025-01"}),
      node_of(kAzureXeon, "azure-d64s-v5", 30, {"Standard_D64s_v5", 64, 256, false, 3.072, "2025-01"}),
      node_of(kAzureXeon, "azure-d96s-v5", 35, {"Standard_D96s_v5", 96, 384, false, 4.608, "2025-01"}),
      node_of(kCascadeLake, "azure-f72s-v2", 30, {"Standard_F72s_v2", 72, 144, false, 3.045, "2025-01"}),
      node_of(kIceLake, "aws-c6i.16xlarge", 25, {"c6i.16xlarge", 64, 128, false, 2.72, "2025-01"}),
      node_of(kIceLake, "aws-c6i.32xlarge", 50, {"c6i.32xlarge", 128, 256, true, 5.44, "2025-01"}),
      node_of(kSapphireRapids, "aws-c7i.large", 0.781, {"c7i.large", 2, 4, false, 0.08925, "2025-01"}),
      node_of(kSapphireRapids, "aws-c7i.16xlarge", 25, {"c7i.16xlarge", 64, 128, false, 2.856, "2025-01"}),
      node_of(kSapphireRapids, "aws-c7i.48xlarge", 50, {"c7i.48xlarge", 192, 384, true, 8.568, "2025-01"}),
      node_of(kSapphireRapids, "aws-m7i.48xlarge", 50, {"m7i.48xlarge", 192, 768, true, 9.6768, "2025-01"}),
  };
}

}  // namespace

std::span<const NodeType> node_types() {
  static const std::vector<NodeType> all = make_types();
  return all;
}

}  // namespace trireme
