#include "cuda/cublaslt.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda/check.h"
#include "cuda/find_library.h"
#include "cuda/product_choices.h"

namespace trireme {
namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(ProductAlgorithm));

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

template <class F>
void find_symbol(void* library, const char* name, F& function) {
  void* symbol = dlsym(library, name);
  require(symbol != nullptr, ErrorKind::usage, "the cuBLASLt that was found has no {}; version 12 or 13 is needed",
          name);
  function = reinterpret_cast<F>(symbol);
}

Library load_library() {
  void* file = open_library(cublaslt_for(CUDART_VERSION));
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

struct Product {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, y = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  std::vector<cublasLtMatmulAlgo_t> suggested;  ///< [0] is used
};

/// A row-major matrix is a column-major one transposed, so y^T = op(b)^T op(a)^T is asked for.
class CublasLt final : public MatrixProducts {
 public:
  /// For describe() alone: without a GPU.
  CublasLt() : library_(load_library()) {}
  CublasLt(const std::string& choices, bool times) : library_(load_library()), times_(times) {
    check_blas(library_.create(&handle_), "cublasLtCreate");
    if (choices.empty()) return;
    int device = 0;
    cudaDeviceProp properties{};
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    choices_.emplace(choices, properties.name, static_cast<int64_t>(library_.version()));
  }

  void multiply(gpu::Stream stream, ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias,
                float beta, View y) override {
    const std::lock_guard lock(mutex_);
    const ProductKey key{
        a.shape()[0],    a.shape()[1], b.shape()[0], b.shape()[1],  a_transposed,
        b_transposed,    type_of(a),   type_of(y),   !bias.empty(), int64_t{alignment_of(a)} << 32 | alignment_of(b),
        alignment_of(y), beta != 0};
    auto at = products_.find(key);
    const bool is_new = at == products_.end();
    if (is_new) at = products_.emplace(key, suggest(a, a_transposed, b, b_transposed, bias, y)).first;
    Product& p = at->second;
    if (!bias.empty()) {
      const void* address = bias.data();
      set(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, address);
    }
    const auto run = [&](const cublasLtMatmulAlgo_t& algorithm, void* to) {
      const float alpha = 1;
      return library_.multiply(handle_, p.product, &alpha, b.data(), p.b, a.data(), p.a, &beta, to, p.y, to, p.y,
                               &algorithm, workspace(stream), kWorkspace, stream);
    };
    if (is_new) choose(p, key, stream, y.bytes(), run);
    check_blas(run(p.suggested[0], y.data()), "cublasLtMatmul");
  }

  /// The descriptors of a product, without a method that computes it.
  Product describe(ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias, ConstView y) {
    Product p;
    check_blas(library_.make_product(&p.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(p.product, CUBLASLT_MATMUL_DESC_TRANSA, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(p.product, CUBLASLT_MATMUL_DESC_TRANSB, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!bias.empty()) {
      set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(p.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(bias));
    }
    p.a = layout(a), p.b = layout(b), p.y = layout(y);
    check_blas(library_.make_preference(&p.preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check_blas(library_.set_preference(p.preference, what, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // Where k is split, parts are added in f32: in the result's type, 16 bits lose the small sums.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(y));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(y));
    return p;
  }

 private:
  /// p.suggested[0] = the choice of the file, or, where products are timed, what is fastest now.
  template <class Run>
  void choose(Product& p, const ProductKey& key, gpu::Stream stream, size_t bytes, const Run& run) {
    if (!choices_) return;
    if (const ProductAlgorithm* known = choices_->find(key)) {
      std::memcpy(&p.suggested[0], known, sizeof *known);
      return;
    }
    if (!times_) return;
    void* to = nullptr;  // y itself may hold what is added to
    check_cuda(cudaMalloc(&to, bytes), "cudaMalloc");
    float best = std::numeric_limits<float>::infinity();
    for (cublasLtMatmulAlgo_t& one : p.suggested) {
      const float time = time_of(stream, one, to, run);
      if (time < best) std::swap(p.suggested[0], one);
      best = std::min(best, time);
    }
    check_cuda(cudaFree(to), "cudaFree");
    ProductAlgorithm chosen;
    std::memcpy(&chosen, &p.suggested[0], sizeof chosen);
    choices_->add(key, chosen);
  }
  /// Milliseconds of the fastest of five calls; infinity where the library refuses.
  template <class Run>
  static float time_of(gpu::Stream stream, const cublasLtMatmulAlgo_t& algorithm, void* to, const Run& run) {
    constexpr int kWarmUp = 2, kCalls = 5;
    cudaEvent_t begin = nullptr, end = nullptr;
    check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
    check_cuda(cudaEventCreate(&end), "cudaEventCreate");
    float best = std::numeric_limits<float>::infinity();
    for (int call = 0; call < kWarmUp + kCalls; ++call) {
      check_cuda(cudaEventRecord(begin, stream), "cudaEventRecord");
      if (run(algorithm, to) != CUBLAS_STATUS_SUCCESS) break;
      check_cuda(cudaEventRecord(end, stream), "cudaEventRecord");
      check_cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
      float ms = 0;
      check_cuda(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
      if (call >= kWarmUp) best = std::min(best, ms);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return best;
  }
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
  Product suggest(ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias, ConstView y) {
    Product p = describe(a, a_transposed, b, b_transposed, bias, y);
    std::array<cublasLtMatmulHeuristicResult_t, 8> suggestions{};
    int found = 0;
    const cublasStatus_t answer = library_.choose(handle_, p.product, p.b, p.a, p.y, p.y, p.preference, times_ ? 8 : 1,
                                                  suggestions.data(), &found);
    require(answer == CUBLAS_STATUS_SUCCESS && found > 0, ErrorKind::io,
            "cuBLASLt has no method for {}{} times {}{} (status {}, version {})", a.shape().to_string(),
            a_transposed ? " transposed" : "", b.shape().to_string(), b_transposed ? " transposed" : "",
            static_cast<int>(answer), library_.version());
    for (int i = 0; i < found; ++i) p.suggested.push_back(suggestions[static_cast<size_t>(i)].algo);
    return p;
  }
  void* workspace(gpu::Stream stream) {
    void*& memory = workspaces_[stream];
    if (!memory) check_cuda(cudaMalloc(&memory, kWorkspace), "cudaMalloc");
    return memory;
  }

  Library library_;
  bool times_ = false;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::optional<ProductChoices> choices_;
  std::map<ProductKey, Product> products_;  // kept, like the library, until the process ends
  std::map<gpu::Stream, void*> workspaces_;
};

}  // namespace

void describe_product(ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias, ConstView y) {
  CublasLt().describe(a, a_transposed, b, b_transposed, bias, y);
}

std::unique_ptr<MatrixProducts> make_cublaslt_products(const std::string& choices, bool times) {
  return std::make_unique<CublasLt>(choices, times);
}

}  // namespace trireme
