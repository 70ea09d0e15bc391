#include "cuda/cublaslt.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
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
#include "cuda/cublaslt_library.h"
#include "cuda/product_choices.h"

namespace trireme {
namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(ProductAlgorithm));

constexpr size_t kWorkspace = size_t{32} << 20;  // what the library's guide recommends from Hopper on

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

/// y = op(a) op(b) + bias; with before_gelu, which gets that, y = gelu(before_gelu).
struct Call {
  ConstView a, b, bias;
  View before_gelu;
  bool a_transposed, b_transposed;
};

/// A row-major matrix is a column-major one transposed, so y^T = op(b)^T op(a)^T is asked for.
class CublasLt final : public MatrixProducts {
 public:
  /// For describe() alone: without a GPU.
  CublasLt() : library_(load_cublaslt()) {}
  CublasLt(const std::string& choices, bool times) : library_(load_cublaslt()), times_(times) {
    check_blas(library_.create(&handle_), "cublasLtCreate");
    int device = 0;
    cudaDeviceProp properties{};
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    has_fast_gelu_ = properties.major >= 9;  // below, it is a slower kernel and a pass
    if (!choices.empty()) choices_.emplace(choices, properties.name, static_cast<int64_t>(library_.version()));
  }

  std::string name() const override { return fmt::format("cuBLASLt {}", library_.version()); }
  void multiply(gpu::Stream stream, ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias,
                float beta, View y) override {
    const Call call{a, b, bias, {}, a_transposed, b_transposed};
    require(compute(stream, call, beta, y), ErrorKind::io, "cuBLASLt {} has no method for {}{} times {}{}",
            library_.version(), a.shape().to_string(), a_transposed ? " transposed" : "", b.shape().to_string(),
            b_transposed ? " transposed" : "");
  }

  bool multiply_gelu(gpu::Stream stream, ConstView x, ConstView w, ConstView bias, View pre, View y) override {
    return has_fast_gelu_ && alignment_of(pre) >= 16 && compute(stream, {x, w, bias, pre, false, true}, 0, y);
  }

  /// The descriptors of a product, without a method that computes it.
  Product describe(const Call& c, ConstView y) {
    Product p;
    check_blas(library_.make_product(&p.product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(p.product, CUBLASLT_MATMUL_DESC_TRANSA, c.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(p.product, CUBLASLT_MATMUL_DESC_TRANSB, c.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    const bool gelu = !c.before_gelu.empty();
    if (!c.bias.empty() || gelu) {
      set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE,
          !gelu            ? CUBLASLT_EPILOGUE_BIAS
          : c.bias.empty() ? CUBLASLT_EPILOGUE_GELU_AUX
                           : CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
    }
    if (!c.bias.empty()) set(p.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(c.bias));
    if (gelu) {
      set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type_of(c.before_gelu));
      set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, y.shape()[1]);
    }
    set_pointers(p, c);
    p.a = layout(c.a), p.b = layout(c.b), p.y = layout(y);
    check_blas(library_.make_preference(&p.preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check_blas(library_.set_preference(p.preference, what, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // Where k is split, parts are added in f32: in the result's type, 16 bits lose the small sums.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(c.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(c.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(y));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(y));
    return p;
  }

 private:
  /// Whether the library has a method.
  bool compute(gpu::Stream stream, const Call& c, float beta, View y) {
    const std::lock_guard lock(mutex_);
    const ProductKey key{c.a.shape()[0],
                         c.a.shape()[1],
                         c.b.shape()[0],
                         c.b.shape()[1],
                         c.a_transposed,
                         c.b_transposed,
                         type_of(c.a),
                         type_of(y),
                         (c.bias.empty() ? 0 : 1) + (c.before_gelu.empty() ? 0 : 2),
                         int64_t{alignment_of(c.a)} << 32 | alignment_of(c.b),
                         alignment_of(y),
                         beta != 0};
    auto at = products_.find(key);
    const bool is_new = at == products_.end();
    if (is_new) at = products_.emplace(key, suggest(c, y)).first;
    Product& p = at->second;
    if (p.suggested.empty()) return false;
    set_pointers(p, c);
    const auto run = [&](const cublasLtMatmulAlgo_t& algorithm, void* to) {
      const float alpha = 1;
      return library_.multiply(handle_, p.product, &alpha, c.b.data(), p.b, c.a.data(), p.a, &beta, to, p.y, to, p.y,
                               &algorithm, workspace(stream), kWorkspace, stream);
    };
    if (is_new) choose(p, key, stream, y.bytes(), run);
    check_blas(run(p.suggested[0], y.data()), "cublasLtMatmul");
    return true;
  }
  void set_pointers(const Product& p, const Call& c) {
    const void* bias = c.bias.data();
    void* before_gelu = c.before_gelu.data();
    if (bias) set(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (before_gelu) set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, before_gelu);
  }
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
  /// Without suggestions where the library has no method.
  Product suggest(const Call& c, ConstView y) {
    Product p = describe(c, y);
    std::array<cublasLtMatmulHeuristicResult_t, 8> suggestions{};
    int found = 0;
    const cublasStatus_t answer = library_.choose(handle_, p.product, p.b, p.a, p.y, p.y, p.preference, times_ ? 8 : 1,
                                                  suggestions.data(), &found);
    if (answer != CUBLAS_STATUS_NOT_SUPPORTED) check_blas(answer, "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < found; ++i) p.suggested.push_back(suggestions[static_cast<size_t>(i)].algo);
    return p;
  }
  void* workspace(gpu::Stream stream) {
    void*& memory = workspaces_[stream];
    if (!memory) check_cuda(cudaMalloc(&memory, kWorkspace), "cudaMalloc");
    return memory;
  }

  CublasLtLibrary library_;
  bool times_ = false, has_fast_gelu_ = false;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::optional<ProductChoices> choices_;
  std::map<ProductKey, Product> products_;  // kept, like the library, until the process ends
  std::map<gpu::Stream, void*> workspaces_;
};

}  // namespace

void describe_product(ConstView a, bool a_transposed, ConstView b, bool b_transposed, ConstView bias, View before_gelu,
                      ConstView y) {
  CublasLt().describe({a, b, bias, before_gelu, a_transposed, b_transposed}, y);
}

std::unique_ptr<MatrixProducts> make_cublaslt_products(const std::string& choices, bool times) {
  return std::make_unique<CublasLt>(choices, times);
}

}  // namespace trireme
