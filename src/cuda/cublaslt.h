#pragma once
#include <memory>
#include <string>

#include "cuda/matrix_products.h"

namespace trireme {

/// Products by cuBLASLt, found at run time. choices: a file of ProductChoices for the calling thread's GPU, which may
/// be missing, or empty: none. Of a product that it does not have, the library's first suggestion is taken, or, with
/// `times`, the first call times its suggestions. Throws Error::usage naming the places where the library was looked
/// for.
std::unique_ptr<MatrixProducts> make_cublaslt_products(const std::string& choices = {}, bool times = false);

}  // namespace trireme
