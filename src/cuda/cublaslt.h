#pragma once
#include <memory>
#include <string>

#include "cuda/matrix_products.h"

namespace trireme {

/// Products by cuBLASLt, found at run time. choices: a file of ProductChoices for the calling thread's GPU: the first
/// call of a product that it does not have times the library's suggestions; empty: its first suggestion is taken.
/// Throws Error::usage naming the places where the library was looked for.
std::unique_ptr<MatrixProducts> make_cublaslt_products(const std::string& choices = {});

}  // namespace trireme
