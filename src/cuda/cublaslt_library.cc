#include "cuda/cublaslt_library.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include "base/error.h"
#include "cuda/find_library.h"

namespace trireme {
namespace {

template <class F>
void find_symbol(void* library, const char* name, F& function) {
  void* symbol = dlsym(library, name);
  require(symbol != nullptr, ErrorKind::usage, "the cuBLASLt that was found lacks {}; version 12 or 13 is needed",
          name);
  function = reinterpret_cast<F>(symbol);
}

}  // namespace

void check_blas(cublasStatus_t answer, const char* call) {
  if (answer != CUBLAS_STATUS_SUCCESS) fail(ErrorKind::io, "{} failed with status {}", call, static_cast<int>(answer));
}

CublasLtLibrary load_cublaslt() {
  void* file = open_library(cublaslt_for(CUDART_VERSION));
  CublasLtLibrary l;
  find_symbol(file, "cublasLtCreate", l.create);
  find_symbol(file, "cublasLtGetVersion", l.version);
  find_symbol(file, "cublasLtMatmulDescCreate", l.make_product);
  find_symbol(file, "cublasLtMatmulDescSetAttribute", l.set_product);
  find_symbol(file, "cublasLtMatrixLayoutCreate", l.make_layout);
  find_symbol(file, "cublasLtMatmulPreferenceCreate", l.make_preference);
  find_symbol(file, "cublasLtMatmulPreferenceSetAttribute", l.set_preference);
  find_symbol(file, "cublasLtMatmulAlgoGetHeuristic", l.choose);
  find_symbol(file, "cublasLtMatmul", l.multiply);
  return l;
}

}  // namespace trireme
