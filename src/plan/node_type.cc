#include "plan/node_type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "base/text.h"
#include "config/yaml_reader.h"
#include "plan/node_price.h"

namespace trireme {
namespace {

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

NodeType node_with(const EightGpus& gpus, const char* name, double network, const char* source) {
  return {.name = name,
          .processor = gpus.processor,
          .instruction_set = gpus.instruction_set,
          .cores = 96,
          .gpus = 8,
          .tflops = gpus.tflops,
          .f32_tflops = gpus.f32_tflops,
          .memory_gb = gpus.memory_gb,
          .memory_gb_per_s = gpus.memory_gb_per_s,
          .link_gb_per_s = gpus.link_gb_per_s,
          .network_gbit_per_s = network,
          .units = gpus.units,
          .source = std::string(gpus.source) + "; " + source};
}

std::vector<NodeType> make_types() {
  return {
      node_with(kA100, "a100-80gb", 800, "800 Gbit/s between nodes: vTrain's measured cluster (MICRO 2024)"),
      node_with(kA100, "dgx-a100", 1600, "NVIDIA DGX A100 data sheet: 8 x 200 Gbit/s"),
      node_with(kA100, "azure-nd96amsr-a100-v4", 1600, "Azure ND A100 v4 page: 8 x 200 Gbit/s"),
      node_with(kA100, "aws-p4de.24xlarge", 400, "AWS EC2 P4 page: 400 Gbit/s"),
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
      node_with(kH100, "azure-nd96isr-h100-v5", 3200, "Azure ND H100 v5 page: 8 x 400 Gbit/s"),
      node_with(kH100, "aws-p5.48xlarge", 3200, "AWS EC2 P5 page: 3200 Gbit/s"),
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
      {.name = "azure-hb120rs-v3",
       .processor = "2 x EPYC 7V73X (Zen 3)",
       .instruction_set = "avx2",
       .cores = 120,
       .tflops = 11.5,
       .memory_gb = 448,
       .memory_gb_per_s = 350,
       .network_gbit_per_s = 200,
       .source = "Azure HBv3 page: 3.0 GHz on all cores, 350 GB/s, 200 Gbit/s; 32 f32 operations per cycle and core"},
      {.name = "aws-hpc7a.96xlarge",
       .processor = "2 x EPYC 9R14 (Zen 4)",
       .instruction_set = "avx512bf16",
       .cores = 192,
       .tflops = 31.9,
       .f32_tflops = 16.0,
       .memory_gb = 768,
       .memory_gb_per_s = 922,
       .network_gbit_per_s = 300,
       .source = "AWS EC2 Hpc7a page: 300 Gbit/s; 2 x 12 channels of DDR5-4800; 2.6 GHz, 64 bf16 or 32 f32 operations "
                 "per cycle and core"},
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
  };
}

const std::vector<NodeType>& types() {
  static const std::vector<NodeType> all = [] {
    std::vector<NodeType> made = make_types();
    for (NodeType& type : made) {
      const NodePrice* price = find_node_price(type.name);
      if (price == nullptr) continue;
      type.price_per_hour = price->usd_per_hour;
      type.price_date = price->date;
    }
    return made;
  }();
  return all;
}

struct NumberKey {
  const char* name;
  double NodeType::*place;
  bool needed, share;
};
constexpr std::array<NumberKey, 10> kNumbers{{{"tflops", &NodeType::tflops, true, false},
                                              {"f32-tflops", &NodeType::f32_tflops, false, false},
                                              {"memory-gb", &NodeType::memory_gb, true, false},
                                              {"memory-gb-per-s", &NodeType::memory_gb_per_s, true, false},
                                              {"network-gbit-per-s", &NodeType::network_gbit_per_s, true, false},
                                              {"link-gb-per-s", &NodeType::link_gb_per_s, false, false},
                                              {"product-share", &NodeType::product_share, false, true},
                                              {"link-share", &NodeType::link_share, false, true},
                                              {"network-share", &NodeType::network_share, false, true},
                                              {"price-per-hour", &NodeType::price_per_hour, false, false}}};
struct CountKey {
  const char* name;
  int64_t NodeType::*place;
};
constexpr std::array<CountKey, 3> kCounts{
    {{"cores", &NodeType::cores}, {"gpus", &NodeType::gpus}, {"units", &NodeType::units}}};
struct TextKey {
  const char* name;
  std::string NodeType::*place;
};
constexpr std::array<TextKey, 5> kTexts{{{"name", &NodeType::name},
                                         {"processor", &NodeType::processor},
                                         {"instruction-set", &NodeType::instruction_set},
                                         {"price-date", &NodeType::price_date},
                                         {"source", &NodeType::source}}};

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const NumberKey& key : kNumbers) names.emplace_back(key.name);
  for (const CountKey& key : kCounts) names.emplace_back(key.name);
  for (const TextKey& key : kTexts) names.emplace_back(key.name);
  return names;
}

double positive_number(const Setting& setting) {
  double value = 0;
  if (const auto* whole = std::get_if<int64_t>(&setting.value)) value = static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&setting.value)) value = *number;
  const std::string found = setting.problem.empty() ? describe(setting) : setting.problem;
  require(value > 0 && std::isfinite(value), ErrorKind::config, "{} is {}, expected a positive number", place(setting),
          found);
  constexpr double kLeast = 1e-6, kMost = 1e9;  // no machine is beyond
  require(value >= kLeast && value <= kMost, ErrorKind::config, "{} is {}, expected a number from {:g} to {:g}",
          place(setting), found, kLeast, kMost);
  return value;
}

void take(NodeType& node, const Setting& setting) {
  const std::string key = canonical(setting.key);
  for (const NumberKey& known : kNumbers) {
    if (key != known.name) continue;
    const double value = positive_number(setting);
    require(!known.share || value <= 1, ErrorKind::config, "{} is {}, expected a share of at most 1", place(setting),
            value);
    node.*known.place = value;
    return;
  }
  for (const CountKey& known : kCounts) {
    if (key != known.name) continue;
    const double value = positive_number(setting);
    constexpr double kMost = 1e6;
    require(value == std::floor(value) && value <= kMost, ErrorKind::config,
            "{} is {}, expected a whole number up to 1000000", place(setting), value);
    node.*known.place = static_cast<int64_t>(value);
    return;
  }
  for (const TextKey& known : kTexts) {
    if (key != known.name) continue;
    require(setting.problem.empty(), ErrorKind::config, "{} is {}, expected text", place(setting), setting.problem);
    node.*known.place = setting.text;
    return;
  }
  fail(ErrorKind::config, "{}: unknown key, nearest is {}", place(setting), nearest(key, key_names()));
}

}  // namespace

std::span<const NodeType> node_types() { return types(); }

std::string node_types_markdown() {
  std::string text =
      "| type | processor | cores | TFLOP/s 16 bit, f32 | memory GB, GB/s | network Gbit/s | USD per hour | source |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const NodeType& type : types()) {
    const double f32 = type.f32_tflops > 0 ? type.f32_tflops : type.tflops;
    const std::string price =
        type.price_per_hour > 0 ? fmt::format("{:.2f} ({})", type.price_per_hour, type.price_date) : "unknown";
    text += fmt::format("| `{}` | {} | {} | {:g}, {:g} | {:g}, {:g} | {:g} | {} | {} |\n", type.name, type.processor,
                        type.cores, type.tflops, f32, type.memory_gb, type.memory_gb_per_s, type.network_gbit_per_s,
                        price, type.source);
  }
  return text;
}

const NodeType& node_type(const std::string& name) {
  std::vector<std::string> names;
  for (const NodeType& type : types()) {
    if (type.name == name) return type;
    names.push_back(type.name);
  }
  std::vector<std::string> alike;  // "H100" is a part of a processor's name
  for (const NodeType& type : types())
    if (lower_case(type.name + " " + type.processor).find(lower_case(name)) != std::string::npos)
      alike.push_back(fmt::format("\"{}\"", type.name));
  if (alike.empty()) alike.push_back(fmt::format("\"{}\"", nearest(name, names)));
  fail(ErrorKind::config,
       "unknown node type \"{}\", nearest {} {}; `trireme plan --node-types` lists all, and a .yaml file describes "
       "another one",
       name, alike.size() == 1 ? "is" : "are", fmt::join(alike, ", "));
}

NodeType read_node_type(const std::string& path) {
  NodeType node;
  for (const Setting& setting : read_yaml(path, 0)) take(node, setting);
  for (const NumberKey& key : kNumbers)
    require(!key.needed || node.*key.place > 0, ErrorKind::config, "{}: {} is missing; add it", path, key.name);
  require(node.gpus > 0 || node.cores > 0, ErrorKind::config, "{}: cores is missing; add it, or gpus", path);
  require(node.gpus < 2 || node.link_gb_per_s > 0, ErrorKind::config,
          "{}: link-gb-per-s is missing: {} need a bandwidth between them; add it", path, count_text(node.gpus, "GPU"));
  if (node.name.empty()) node.name = path;
  return node;
}

NodeType find_node_type(const std::string& name) {
  return name.ends_with(".yaml") || name.ends_with(".yml") ? read_node_type(name) : node_type(name);
}

MachineRates rates_of(const NodeType& node, int64_t ranks) {
  require(ranks >= 1, ErrorKind::config, "{} ranks on a node, expected at least 1", ranks);
  require(node.gpus == 0 || ranks <= node.gpus, ErrorKind::config,
          "node type {} has {}: expected at most one rank for each, found {}", node.name, count_text(node.gpus, "GPU"),
          ranks);
  require(node.gpus > 0 || ranks <= node.cores, ErrorKind::config, "node type {} has {}, too few for {}", node.name,
          count_text(node.cores, "core"), count_text(ranks, "rank"));
  MachineRates rates;
  rates.node_ranks = ranks;
  rates.product_share = node.product_share;
  rates.inner_share = node.link_share;
  rates.node_share = node.network_share;
  rates.node_bytes = node.network_gbit_per_s * 1e9 / 8;
  if (node.gpus > 0) {
    rates.peak_flops = node.tflops * 1e12;
    rates.memory_bytes = node.memory_gb_per_s * 1e9;
    rates.pass_shares = {0.9, 0.75, 0.6, 0.3};  // Calculon's a100_80g.json
    rates.units = node.units;
    rates.inner_bytes = node.link_gb_per_s * 1e9;
    rates.inner_latency = 1e-6;  // Calculon's, both
    rates.node_latency = 2e-6;
    return rates;
  }
  const auto sharers = static_cast<double>(ranks);
  rates.peak_flops = node.tflops * 1e12 / sharers;
  rates.memory_bytes = node.memory_gb_per_s * 1e9 / sharers;
  const double share = node.memory_share > 0 ? node.memory_share : 0.8;
  rates.pass_shares = {share, share, share, share};
  // Through shared memory, where it was not measured: written, read, added.
  rates.inner_bytes = node.link_gb_per_s > 0 ? node.link_gb_per_s * 1e9 : rates.memory_bytes / 3;
  rates.inner_latency = 1e-6;
  rates.node_latency = 2e-5;
  rates.exchange_overlaps = true;
  rates.fused_attention = true;
  return rates;
}

MachineRates trireme_rates(const NodeType& node, int64_t ranks, const RunFormats& formats) {
  MachineRates rates = rates_of(node, ranks);
  const bool f32 = formats.dtype == DType::f32;
  if (f32 && node.f32_tflops > 0) rates.peak_flops *= node.f32_tflops / node.tflops;
  rates.element_bytes = static_cast<double>(size_of(formats.dtype));
  rates.gradient_bytes = static_cast<double>(size_of(formats.wire));
  // Read: gradient, for its norm and for the update; read and written: weight in f32, two moments; written: bf16
  // weight.
  rates.update_bytes = f32 ? 32 : 34;
  // Logits are written, read for the softmax, read and written for their gradient.
  rates.logit_bytes = 4 * rates.element_bytes;
  rates.balanced_stages = true;
  rates.fused_attention = true;
  // bench/results/2026-11-26-gpu-operators.md (136 to 239 of 692 TFLOP/s) and 2026-11-24-panels.md (0.74 to 0.86).
  rates.attention_share = node.gpus > 0 ? 0.25 : 0.8;
  rates.exchange_overlaps = true;
  rates.messages_overlap = true;
  rates.bucket_bytes = 25e6;  // OptimizerOptions::bucket_bytes
  rates.embedding_apart = true;
  rates.all_rows = node.gpus > 0;
  rates.tied_bytes = 4;
  rates.inner_work = node.link_work;
  rates.node_work = node.network_work;
  rates.every_rank_sends = !formats.host_sums;
  for (const MeasuredProduct& product : node.products) {
    if (product.dtype != formats.dtype) continue;
    rates.products.push_back(product);
    rates.products.back().flops /= static_cast<double>(ranks);
  }
  return rates;
}

}  // namespace trireme
