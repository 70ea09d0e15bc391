#include "cuda/cublaslt.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda/check.h"

namespace trireme {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;  // what the library's guide recommends from Hopper on

/// The functions in use, from the library that was found.
struct Library {
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

void check_blas(cublasStatus_t answer, const char* call) {
  if (answer != CUBLAS_STATUS_SUCCESS) fail(ErrorKind::io, "{} failed with status {}", call, static_cast<int>(answer));
}

void* open_library() {
  std::vector<std::string> places;
  for (const std::string name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    places.push_back(name);
    if (const char* home = std::getenv("CUDA_HOME")) places.push_back(fmt::format("{}/lib64/{}", home, name));
    places.push_back("/usr/local/cuda/lib64/" + name);
  }
  for (const std::string& place : places)
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  fail(ErrorKind::usage, "cuBLASLt was not found, looked for {}; set CUDA_HOME to the folder of a CUDA toolkit",
       fmt::join(places, ", "));
}

template <class F>
void find_symbol(void* library, const char* name, F& function) {
  void* symbol = dlsym(library, name);
  require(symbol != nullptr, ErrorKind::usage, "the cuBLASLt that was found has no {}; version 12 or 13 is needed",
          name);
  function = reinterpret_cast<F>(symbol);
}

Library load_library() {
  void* file = open_library();
  Library l;
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

cudaDataType_t type_of(ConstView x) {
  return x.dtype() == DType::bf16 ? CUDA_R_16BF : x.dtype() == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

/// A power of two up to 256 that divides the address.
uint32_t alignment_of(ConstView x) {
  const auto address = reinterpret_cast<uintptr_t>(x.data());
  uint32_t alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

/// What a product is made for.
using Key = std::array<int64_t, 12>;

struct Product {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

/// A row-major matrix is a column-major one transposed, so y^T = op(b)^T op(a)^T is asked for.
class CublasLt final : public MatrixProducts {
 public:
  CublasLt() : library_(load_library()) { check_blas(library_.create(&handle_), "cublasLtCreate"); }

  void multiply(gpu::Stream stream, ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias,
                float beta, View y) override {
    const std::lock_guard lock(mutex_);
    const Key key{
        a.shape()[0],    a.shape()[1], b.shape()[0], b.shape()[1],  a_transposed,
        b_transposed,    type_of(a),   type_of(y),   !bias.empty(), int64_t{alignment_of(a)} << 32 | alignment_of(b),
        alignment_of(y), beta != 0};
    auto at = products_.find(key);
    if (at == products_.end()) at = products_.emplace(key, make(a, a_transposed, b, b_transposed, bias, y)).first;
    const Product& p = at->second;
    if (!bias.empty()) {
      const void* address = bias.data();
      set(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, address);
    }
    const float alpha = 1;
    check_blas(library_.multiply(handle_, p.product, &alpha, b.data(), p.b, a.data(), p.a, &beta, y.data(), p.y,
                                 y.data(), p.y, &p.algorithm, workspace(stream), kWorkspace, stream),
               "cublasLtMatmul");
  }

 private:
  template <class T>
  void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what, const T& value) {
    check_blas(library_.set_product(product, what, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }
  cublasLtMatrixLayout_t layout(ConstView x) {
    cublasLtMatrixLayout_t made = nullptr;
    const int64_t rows = x.shape()[0], columns = x.shape()[1];
    check_blas(
        library_.make_layout(&made, type_of(x), static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
    return made;
  }
  Product make(ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias, ConstView y) {
    Product p;
    check_blas(library_.make_product(&p.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(p.product, CUBLASLT_MATMUL_DESC_TRANSA, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(p.product, CUBLASLT_MATMUL_DESC_TRANSB, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!bias.empty()) {
      set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(p.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(bias));
    }
    p.a = layout(a), p.b = layout(b), p.y = layout(y);
    cublasLtMatmulPreference_t preference = nullptr;
    check_blas(library_.make_preference(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check_blas(library_.set_preference(preference, what, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // Where k is split, parts are added in f32: in the result's type, 16 bits lose the small sums.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(y));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(y));
    cublasLtMatmulHeuristicResult_t choice{};
    int found = 0;
    const cublasStatus_t answer =
        library_.choose(handle_, p.product, p.b, p.a, p.y, p.y, preference, 1, &choice, &found);
    require(answer == CUBLAS_STATUS_SUCCESS && found > 0, ErrorKind::io,
            "cuBLASLt has no method for {}{} times {}{} (status {}, version {})", a.shape().to_string(),
            a_transposed ? " transposed" : "", b.shape().to_string(), b_transposed ? " transposed" : "",
            static_cast<int>(answer), library_.version());
    p.algorithm = choice.algo;
    return p;
  }
  void* workspace(gpu::Stream stream) {
    void*& memory = workspaces_[stream];
    if (!memory) check_cuda(cudaMalloc(&memory, kWorkspace), "cudaMalloc");
    return memory;
  }

  Library library_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Key, Product> products_;  // kept, like the library, until the process ends
  std::map<gpu::Stream, void*> workspaces_;
};

}  // namespace

std::unique_ptr<MatrixProducts> make_cublaslt_products() { return std::make_unique<CublasLt>(); }

}  // namespace trireme
