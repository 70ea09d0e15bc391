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

namespace trireme {
namespace {

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

std::string node_types_markdown() {
  std::string text =
      "| type | processor | cores | TFLOP/s 16 bit, f32 | memory GB, GB/s | network Gbit/s | USD per hour | source |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const NodeType& type : node_types()) {
    const double f32 = type.f32_tflops > 0 ? type.f32_tflops : type.tflops;
    const std::string price =
        type.price_per_hour > 0 ? fmt::format("{:.2f} ({})", type.price_per_hour, type.price_date) : "unknown";
    text += fmt::format("| `{}` | {} | {} | {:g}, {:g} | {:g}, {:g} | {:g} | {} | {} |\n", type.name, type.processor,
                        type.cores, type.tflops, f32, type.memory_gb, type.memory_gb_per_s, type.network_gbit_per_s,
                        price, type.source);
  }
  return text;
}

const NodeType* known_node_type(std::string_view name) {
  const auto found = std::ranges::find(node_types(), name, &NodeType::name);
  return found == node_types().end() ? nullptr : &*found;
}

const NodeType& node_type(const std::string& name) {
  if (const NodeType* known = known_node_type(name)) return *known;
  std::vector<std::string> names;
  for (const NodeType& type : node_types()) names.push_back(type.name);
  std::vector<std::string> alike;  // "H100" is a part of a processor's name
  for (const NodeType& type : node_types())
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
  rates.sends_if_uneven = formats.host_sums_if_even;
  rates.direct_sums = true;
  rates.by_rank = true;
  for (const MeasuredProduct& product : node.products) {
    if (product.dtype != formats.dtype) continue;
    rates.products.push_back(product);
    rates.products.back().flops /= static_cast<double>(ranks);
  }
  return rates;
}

}  // namespace trireme
