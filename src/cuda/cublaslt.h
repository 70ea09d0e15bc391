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

/// Makes cuBLASLt's descriptors of a product as MatrixProducts::multiply() does, without a GPU. Throws Error::io naming
/// what the library refused; Error::usage as make_cublaslt_products().
/// before_gelu: as pre of multiply_gelu(), or empty.
void describe_product(ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias, View before_gelu,
                      ConstView y);

}  // namespace trireme
