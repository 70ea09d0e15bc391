#pragma once
// cuBLASLt's functions, found at run time.

#include <cublasLt.h>

namespace trireme {

/// The functions in use, from the library that was found.
struct CublasLtLibrary {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmulDescCreate) make_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) make_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;
};

/// Throws Error::usage naming the places where the library was looked for, or what it lacks.
CublasLtLibrary load_cublaslt();

/// Throws Error::io naming the call and its answer unless that is success.
void check_blas(cublasStatus_t answer, const char* call);

}  // namespace trireme
