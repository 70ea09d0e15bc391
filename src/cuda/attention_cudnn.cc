#include "cuda/attention_cudnn.h"

#include "base/error.h"
#include "base/log.h"

#ifdef TRIREME_CUDNN_FRONTEND

#include <cuda_runtime.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/check.h"
#include "cuda/find_library.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // through which the frontend finds cuDNN's functions
}

namespace trireme {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr size_t kAlignment = 256;  // of workspaces, as cudaMalloc gives it

/// The tensors of a graph, by number.
enum Part : int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };

void check(fe::error_t answer, const char* step) {
  if (answer.is_bad()) fail(ErrorKind::io, "cuDNN: {}: {}", step, answer.get_message());
}

fe::DataType_t type_of(DType dtype) { return dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF; }

/// A graph's tensors of [heads, sequences, length, head_dim], in rows of `row` elements with `head` from head to head.
/// Heads are in the place of cuDNN's batch and sequences in that of its heads: so our statistics, [heads, rows], are
/// packed as its kernels want them.
struct GraphTensors {
  fe::graph::Graph& graph;
  const AttentionCall& call;
  std::vector<int64_t> strides(int64_t head, int64_t row) const { return {head, call.length * row, row, 1}; }
  std::vector<int64_t> in_qkv() const { return strides(3 * call.head_dim, 3 * int64_t{call.heads} * call.head_dim); }
  std::vector<int64_t> in_out() const { return strides(call.head_dim, int64_t{call.heads} * call.head_dim); }
  std::vector<int64_t> shape() const { return {call.heads, call.sequences, call.length, call.head_dim}; }
  std::vector<int64_t> lse_shape() const { return {call.heads, call.sequences, call.length, 1}; }
  std::vector<int64_t> in_lse() const { return {call.sequences * call.length, call.length, 1, 1}; }
  Tensor input(Part part, const std::vector<int64_t>& strides) const {
    return graph.tensor(fe::graph::Tensor_attributes().set_uid(part).set_dim(shape()).set_stride(strides).set_data_type(
        type_of(call.dtype)));
  }
  void output(const Tensor& tensor, Part part, const std::vector<int64_t>& strides) const {
    tensor->set_output(true).set_uid(part).set_dim(shape()).set_stride(strides).set_data_type(type_of(call.dtype));
  }
};

/// Without plans. Its capability is part of the graph: without it the frontend would ask a GPU.
std::shared_ptr<fe::graph::Graph> describe(const AttentionCall& call, int capability) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(type_of(call.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(capability);
  const GraphTensors t{*graph, call};
  const Tensor q = t.input(kQ, t.in_qkv()), k = t.input(kK, t.in_qkv()), v = t.input(kV, t.in_qkv());
  if (!call.backward) {
    auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
    options.set_attn_scale(call.scale).set_causal_mask(call.causal);
    const auto [out, lse] = graph->sdpa(q, k, v, options);
    t.output(out, kOut, t.in_out());
    lse->set_output(true)
        .set_uid(kLse)
        .set_dim(t.lse_shape())
        .set_stride(t.in_lse())
        .set_data_type(fe::DataType_t::FLOAT);
    return graph;
  }
  const Tensor out = t.input(kOut, t.in_out()), dout = t.input(kDout, t.in_out());
  const Tensor lse = graph->tensor(fe::graph::Tensor_attributes()
                                       .set_uid(kLse)
                                       .set_dim(t.lse_shape())
                                       .set_stride(t.in_lse())
                                       .set_data_type(fe::DataType_t::FLOAT));
  auto options = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
  options.set_attn_scale(call.scale).set_causal_mask(call.causal).set_deterministic_algorithm(true);
  const auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, out, dout, lse, options);
  t.output(dq, kDq, t.in_qkv());
  t.output(dk, kDk, t.in_qkv());
  t.output(dv, kDv, t.in_qkv());
  return graph;
}

/// Engines that cuDNN suggests and that give the same bits each time.
fe::error_t choose_engines(fe::graph::Graph& graph) {
  if (auto answer = graph.create_execution_plans({fe::HeurMode_t::A}); answer.is_bad()) return answer;
  graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
  return graph.check_support();
}

/// Opens the libraries, once. Throws Error::usage.
void open_cudnn() {
  static std::once_flag once;
  std::call_once(once, [] {
    open_library(cuda_runtime_for(CUDART_VERSION));
    fe::cudnn_dlhandle = open_library(cudnn_for(CUDART_VERSION));
  });
}

std::string version_text() {
  const auto version = static_cast<size_t>(fe::detail::get_backend_version());
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

class CudnnAttention final : public AttentionLibrary {
 public:
  CudnnAttention() {
    open_cudnn();
    name_ = version_text();
    require(fe::detail::create_handle(&handle_) == CUDNN_STATUS_SUCCESS, ErrorKind::usage, "{} cannot begin", name_);
    int device = 0, major = 0, minor = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
    check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cudaDeviceGetAttribute");
    capability_ = 10 * major + minor;
  }
  std::string name() const override { return name_; }
  int capability() const override { return capability_; }

  std::optional<size_t> workspace_bytes(const AttentionCall& call) override {
    const std::lock_guard lock(mutex_);
    const Ready& ready = ready_for(call);
    if (!ready.graph) return std::nullopt;
    return ready.workspace;
  }
  void forward(gpu::Stream stream, const AttentionCall& call, ConstView qkv, View out, View lse,
               View workspace) override {
    Pointers pointers = parts_of(call, qkv.data(), kQ);
    pointers[kOut] = out.data();
    pointers[kLse] = lse.data();
    run(stream, call, pointers, workspace);
  }
  void backward(gpu::Stream stream, const AttentionCall& call, ConstView dout, ConstView qkv, ConstView out,
                ConstView lse, View dqkv, View workspace) override {
    Pointers pointers = parts_of(call, qkv.data(), kQ);
    pointers.merge(parts_of(call, dqkv.data(), kDq));
    pointers[kDout] = const_cast<void*>(dout.data());
    pointers[kOut] = const_cast<void*>(out.data());
    pointers[kLse] = const_cast<void*>(lse.data());
    run(stream, call, pointers, workspace);
  }

 private:
  using Pointers = std::unordered_map<int64_t, void*>;
  struct Ready {
    std::shared_ptr<fe::graph::Graph> graph;  ///< nullptr: no deterministic engine
    size_t workspace = 0;
  };

  /// Queries, keys and values of the first row and head.
  static Pointers parts_of(const AttentionCall& call, const void* qkv, Part first) {
    const size_t step = static_cast<size_t>(call.head_dim) * size_of(call.dtype);
    auto* at = static_cast<std::byte*>(const_cast<void*>(qkv));
    return {{first, at}, {first + 1, at + step}, {first + 2, at + 2 * step}};
  }
  const Ready& ready_for(const AttentionCall& call) {
    const auto found = ready_.find(call);
    if (found != ready_.end()) return found->second;
    Ready ready{describe(call, capability_), 0};
    check(ready.graph->validate(), "validate");
    check(ready.graph->build_operation_graph(handle_), "build_operation_graph");
    if (auto answer = choose_engines(*ready.graph); answer.is_bad()) {
      log::info("attention: {} has no deterministic method for {} sequences of {}: {}", name_, call.sequences,
                call.length, answer.get_message());
      ready.graph = nullptr;
    } else {
      check(ready.graph->build_plans(handle_), "build_plans");
      const auto bytes = static_cast<size_t>(ready.graph->get_workspace_size());
      ready.workspace = bytes > 0 ? bytes + kAlignment : 0;
    }
    return ready_.emplace(call, std::move(ready)).first->second;
  }
  void run(gpu::Stream stream, const AttentionCall& call, Pointers& pointers, View workspace) {
    const std::lock_guard lock(mutex_);
    const Ready& ready = ready_for(call);
    require(fe::detail::set_stream(handle_, stream) == CUDNN_STATUS_SUCCESS, ErrorKind::io, "cudnnSetStream failed");
    void* memory = workspace.data();
    size_t space = ready.workspace;
    if (memory) memory = std::align(kAlignment, space - kAlignment, memory, space);
    check(ready.graph->execute(handle_, pointers, memory), call.backward ? "backward" : "forward");
  }

  std::string name_;
  int capability_ = 0;
  cudnnHandle_t handle_ = nullptr;  // kept, like the library, until the process ends
  std::mutex mutex_;
  std::map<AttentionCall, Ready> ready_;
};

}  // namespace

std::unique_ptr<AttentionLibrary> make_cudnn_attention() {
  try {
    return std::make_unique<CudnnAttention>();
  } catch (const std::exception& e) {
    log::info("attention: by this program's kernels: {}", e.what());
    return nullptr;
  }
}

std::string build_without_gpu(const AttentionCall& call, int capability, const std::string& properties) {
  open_cudnn();
  auto device = std::make_shared<fe::DeviceProperties>();
  check(device->deserialize(std::vector<uint8_t>(properties.begin(), properties.end())), "device properties");
  const auto graph = describe(call, capability);
  graph->set_device_properties(device);
  check(graph->validate(), "validate");
  check(graph->build_operation_graph(), "build_operation_graph");
  check(choose_engines(*graph), "choose_engines");
  return graph->build_plans().get_message();
}

}  // namespace trireme

#else

namespace trireme {

namespace {
constexpr const char* kAbsent = "this libtrireme_cuda.so was built without cuDNN's frontend (docs/gpu.md)";
}

std::unique_ptr<AttentionLibrary> make_cudnn_attention() {
  log::info("attention: by this program's kernels: {}", kAbsent);
  return nullptr;
}

std::string build_without_gpu(const AttentionCall&, int, const std::string&) { fail(ErrorKind::usage, "{}", kAbsent); }

}  // namespace trireme

#endif
