#pragma once
#include <memory>

#include "cuda/matrix_products.h"

namespace trireme {

/// Loops over host memory: the twin of cuBLASLt on the executor.
std::unique_ptr<MatrixProducts> make_plain_products();

}  // namespace trireme
