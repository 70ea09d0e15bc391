#include "plan/node_price.h"

#include <algorithm>
#include <array>

namespace trireme {
namespace {

constexpr std::array<NodePrice, 23> kPrices{{
    {"azure-d2s-v5", 0.096, "2025-01"},          {"azure-d4s-v5", 0.192, "2025-01"},
    {"azure-d8s-v5", 0.384, "2025-01"},          {"azure-d16s-v5", 0.768, "2025-01"},
    {"azure-d32-v5", 1.536, "2025-01"},          {"azure-d32s-v5", 1.536, "2025-01"},
    {"azure-d64s-v5", 3.072, "2025-01"},         {"azure-d96s-v5", 4.608, "2025-01"},
    {"azure-f72s-v2", 3.045, "2025-01"},         {"azure-hb120rs-v3", 3.60, "2025-01"},
    {"azure-hb176rs-v4", 7.20, "2025-01"},       {"azure-nd96amsr-a100-v4", 32.77, "2023-06"},
    {"azure-nd96isr-h100-v5", 98.32, "2023-12"}, {"aws-c6i.16xlarge", 2.72, "2025-01"},
    {"aws-c6i.32xlarge", 5.44, "2025-01"},       {"aws-c7i.large", 0.08925, "2025-01"},
    {"aws-c7i.16xlarge", 2.856, "2025-01"},      {"aws-c7i.48xlarge", 8.568, "2025-01"},
    {"aws-m7i.48xlarge", 9.6768, "2025-01"},     {"aws-hpc6a.48xlarge", 2.88, "2025-01"},
    {"aws-hpc7a.96xlarge", 7.20, "2025-01"},     {"aws-p4de.24xlarge", 40.97, "2023-06"},
    {"aws-p5.48xlarge", 98.32, "2023-07"},
}};

}  // namespace

const NodePrice* find_node_price(std::string_view name) {
  const auto* found = std::ranges::find_if(kPrices, [name](const NodePrice& one) { return one.name == name; });
  return found == kPrices.end() ? nullptr : found;
}

}  // namespace trireme
