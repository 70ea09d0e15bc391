#include "bench/data_sheet.h"

namespace trireme {
namespace {

// NVIDIA's data sheets, without sparsity.
constexpr DataSheet kSheets[] = {
    {"H100 80GB HBM3", 989e12, 67e12, 3352e9, 450e9},
    {"H100 PCIe", 756e12, 51e12, 2000e9},
    {"H200", 989e12, 67e12, 4800e9, 450e9},
    {"A100-SXM4-80GB", 312e12, 19.5e12, 2039e9, 300e9},
    {"A100-SXM4-40GB", 312e12, 19.5e12, 1555e9, 300e9},
    {"A100 80GB PCIe", 312e12, 19.5e12, 1935e9},
    {"A100-PCIE-40GB", 312e12, 19.5e12, 1555e9},
    {"RTX A6000", 154.8e12, 38.7e12, 768e9},
};

}  // namespace

DataSheet data_sheet_of(std::string_view hardware) {
  for (const DataSheet& sheet : kSheets)
    if (hardware.find(sheet.card) != std::string_view::npos) return sheet;
  return {};
}

}  // namespace trireme
