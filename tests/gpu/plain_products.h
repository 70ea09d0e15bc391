#pragma once
#include <memory>
#include <string>

#include "cuda/matrix_products.h"

namespace trireme {

/// Loops over host memory: the twin of cuBLASLt on the executor. choices, times: as make_cublaslt_products(), of a GPU
/// "executor" and version 1; nothing depends on what is chosen.
std::unique_ptr<MatrixProducts> make_plain_products(const std::string& choices = {}, bool times = false);

}  // namespace trireme
