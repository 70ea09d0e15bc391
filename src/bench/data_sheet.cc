#include "bench/data_sheet.h"

#include <iterator>

namespace trireme {
namespace {

// Without sparsity. A card comes before those whose name is a part of its own.
constexpr DataSheet kSheets[] = {
    {"H100 80GB HBM3", 989e12, 67e12, 3352e9, 450e9, "NVIDIA H100 data sheet, SXM"},
    {"H100 NVL", 835e12, 60e12, 3900e9, 0, "NVIDIA H100 data sheet, NVL; NVLink by bridges"},
    {"H100 PCIe", 756e12, 51e12, 2000e9, 0, "NVIDIA H100 PCIe product brief; NVLink by bridges"},
    {"H200 NVL", 835e12, 60e12, 4800e9, 0, "NVIDIA H200 data sheet, NVL; NVLink by bridges"},
    {"H200", 989e12, 67e12, 4800e9, 450e9, "NVIDIA H200 data sheet, SXM"},
    {"A100-SXM4-80GB", 312e12, 19.5e12, 2039e9, 300e9, "NVIDIA A100 data sheet, 80GB SXM"},
    {"A100-SXM4-40GB", 312e12, 19.5e12, 1555e9, 300e9, "NVIDIA A100 data sheet, 40GB SXM"},
    {"A100 80GB PCIe", 312e12, 19.5e12, 1935e9, 0, "NVIDIA A100 data sheet, 80GB PCIe; NVLink by bridges"},
    {"A100-PCIE-40GB", 312e12, 19.5e12, 1555e9, 0, "NVIDIA A100 data sheet, 40GB PCIe; NVLink by bridges"},
    {"RTX A6000", 154.8e12, 38.7e12, 768e9, 0, "NVIDIA RTX A6000 data sheet; NVLink by a bridge"},
};

/// A lane, each way. PCI Express Base Specification 6.0: 2.5 to 64 GT/s; bits of data per bit: 8/10 (1, 2), 128/130
/// (3 to 5), 236/256 (6, bytes of a flit).
constexpr double kLaneBytes[] = {0,
                                 2.5e9 / 8 * 8 / 10,
                                 5e9 / 8 * 8 / 10,
                                 8e9 / 8 * 128 / 130,
                                 16e9 / 8 * 128 / 130,
                                 32e9 / 8 * 128 / 130,
                                 64e9 / 8 * 236 / 256};

}  // namespace

DataSheet data_sheet_of(std::string_view hardware) {
  for (const DataSheet& sheet : kSheets)
    if (hardware.find(sheet.card) != std::string_view::npos) return sheet;
  return {};
}

double pcie_bytes_per_s(int generation, int width) {
  if (generation < 1 || generation >= static_cast<int>(std::size(kLaneBytes)) || width < 1 || width > 32) return 0;
  return kLaneBytes[generation] * width;
}

}  // namespace trireme
