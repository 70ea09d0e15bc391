#pragma once
// What the data sheets of GPUs promise, as the base of shares: no measurement, and no program reaches all of it.

#include <string_view>

#include "tensor/dtype.h"

namespace trireme {

struct DataSheet {
  std::string_view card;  ///< as the driver names it; empty: none is known here
  double flops16 = 0;     ///< FLOP/s of dense bf16 and f16 products
  double flops32 = 0;     ///< FLOP/s of f32 products without TF32
  double bytes = 0;       ///< of memory per second
  double link = 0;        ///< bytes per second each way from one GPU to the others of its node, by NVLink; 0: none
  double flops(DType dtype) const { return size_of(dtype) == 2 ? flops16 : flops32; }
};

/// hardware: Backend::hardware.
DataSheet data_sheet_of(std::string_view hardware);

}  // namespace trireme
