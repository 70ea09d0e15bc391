#pragma once
#include <memory>

#include "cuda/matrix_products.h"

namespace trireme {

/// Products by cuBLASLt, found at run time. Throws Error::usage naming the places where it was looked for.
std::unique_ptr<MatrixProducts> make_cublaslt_products();

}  // namespace trireme
