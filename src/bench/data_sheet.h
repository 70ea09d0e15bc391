#pragma once
// What data sheets of GPUs and the specification of PCIe promise, as the base of shares: no measurement, and no program
// reaches all of it.

#include <string_view>

#include "tensor/dtype.h"

namespace trireme {

struct DataSheet {
  std::string_view card;  ///< as the driver names it; empty: none is known here
  double flops16 = 0;     ///< FLOP/s of dense bf16 and f16 products
  double flops32 = 0;     ///< FLOP/s of f32 products without TF32
  double bytes = 0;       ///< of memory per second
  double link = 0;        ///< bytes per second each way from one GPU to the others of its node, by NVLink; 0: none, or
                          ///< bridges that a node may lack
  std::string_view source = {};
  double flops(DType dtype) const { return size_of(dtype) == 2 ? flops16 : flops32; }
  /// NVLinks of a GPU.
  int links() const { return static_cast<int>(link / kLinkBytes); }
  static constexpr double kLinkBytes = 25e9;  ///< per second each way, of one NVLink 3 and 4 (NVIDIA's page of NVLink)
};

/// hardware: Backend::hardware.
DataSheet data_sheet_of(std::string_view hardware);

/// What a PCIe link carries each way per second, before headers of packets; 0 for a generation or width that is
/// unknown.
double pcie_bytes_per_s(int generation, int width);

}  // namespace trireme
