// Times the operators on a GPU at the sizes of a 124M and a 1.3B step: milliseconds (median), and the bytes or
// floating-point operations that the mathematics needs, per second.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "cuda/attention_cudnn.h"
#include "cuda/cublaslt.h"
#include "cuda/cuda_ops.h"
#include "cuda/device.h"
#include "tensor/f16.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

class Speed {
 public:
  Speed() : memory_(size_t{24} << 30, *device_), scratch_(size_t{4} << 30, *device_) {
    context_.stream = &device_->stream();
    context_.scratch = &scratch_;
    for (size_t i = 0; i < normal_.size(); ++i) normal_[i] = static_cast<float>(normal_at(1, i));
    fmt::print("{}\n{:<44} {:>9} {:>9} {:>9}\n", device_->description(), "operator", "ms", "GB/s", "TFLOP/s");
    cudaEventCreate(&begin_);
    cudaEventCreate(&end_);
  }

  View take(DType dtype, Shape shape) { return memory_.take(dtype, shape); }
  View random(DType dtype, Shape shape, float scale = 1) {
    const View x = take(dtype, shape);
    std::vector<float> values(normal_);
    for (float& v : values) v *= scale;
    std::vector<uint16_t> narrow(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      narrow[i] = dtype == DType::f16 ? to_f16(values[i]).bits : to_bf16(values[i]).bits;
    const auto period = static_cast<int64_t>(values.size());
    for (int64_t first = 0; first < x.count(); first += period) {
      const int64_t n = std::min(period, x.count() - first);
      const View to(static_cast<std::byte*>(x.data()) + static_cast<size_t>(first) * size_of(dtype), dtype, {n},
                    device_.get());
      const void* from = dtype == DType::f32 ? values.data() : static_cast<const void*>(narrow.data());
      device_->stream().copy(ConstView(from, dtype, {n}), to);
    }
    return x;
  }
  template <class T>
  View of(const std::vector<T>& values) {
    const View x = take(DTypeOf<T>::value, {static_cast<int64_t>(values.size())});
    device_->stream().copy(ConstView(values.data(), DTypeOf<T>::value, x.shape()), x);
    return x;
  }
  void time(const std::string& name, double bytes, double operations, const std::function<void()>& call) {
    const gpu::Stream stream = gpu_stream(device_->stream());
    std::vector<float> times;
    for (int i = 0; i < 13; ++i) {
      cudaEventRecord(begin_, stream);
      call();
      cudaEventRecord(end_, stream);
      device_->stream().finish();
      float ms = 0;
      cudaEventElapsedTime(&ms, begin_, end_);
      if (i >= 3) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    const double ms = static_cast<double>(times[times.size() / 2]);
    fmt::print("{:<44} {:>9.3f} {:>9} {:>9}\n", name, ms, bytes > 0 ? fmt::format("{:.0f}", bytes / ms / 1e6) : "",
               operations > 0 ? fmt::format("{:.0f}", operations / ms / 1e9) : "");
    std::fflush(stdout);
  }
  void reset() { memory_.release(0); }
  CudaOps& ops() { return ops_; }
  CudaOps& ops_with_cudnn() { return ops_with_cudnn_; }
  CudaDevice& device() { return *device_; }
  Context& context() { return context_; }

 private:
  std::unique_ptr<CudaDevice> device_ = make_cuda_device();
  CudaOps ops_{*device_, make_cublaslt_products()};
  CudaOps ops_with_cudnn_{*device_, make_cublaslt_products(), make_cudnn_attention()};
  Arena memory_, scratch_;
  Context context_;
  std::vector<float> normal_ = std::vector<float>(1 << 20);
  cudaEvent_t begin_{}, end_{};
};

void passes(Speed& s) {
  constexpr DType kA = DType::bf16;
  constexpr int64_t kRows = 65536, kWidth = 768, kWide = 3072;
  Context& c = s.context();
  CudaOps& ops = s.ops();
  const double tensor = 2.0 * kRows * kWidth, wide = 2.0 * kRows * kWide;
  const View x = s.random(kA, {kRows, kWidth}), y = s.random(kA, {kRows, kWidth}), z = s.random(kA, {kRows, kWidth});
  const View w = s.random(kA, {kWidth}), b = s.random(kA, {kWidth});
  const View mean = s.take(DType::f32, {kRows}), rstd = s.take(DType::f32, {kRows});
  const View dw = s.take(DType::f32, {kWidth}), db = s.take(DType::f32, {kWidth});
  s.time("copy 768 MiB (cast of equal types)", 2.0 * 768 * 1048576, 0,
         [&, big = s.random(DType::f32, {192 << 20}), to = s.take(DType::f32, {192 << 20})] { ops.cast(c, big, to); });
  s.time("layer_norm 65536 x 768", 2 * tensor, 0, [&] { ops.layer_norm(c, x, w, b, 1e-5f, y, mean, rstd); });
  s.time("layer_norm_backward 65536 x 768", 4 * tensor, 0,
         [&] { ops.layer_norm_backward(c, y, x, w, mean, rstd, z, dw, db, Write::add); });
  std::vector<int64_t> samples(kRows);
  std::vector<int32_t> positions(kRows), tokens(kRows), targets(kRows);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<int64_t>(i / 1024);
    positions[i] = static_cast<int32_t>(i % 1024);
    tokens[i] = static_cast<int32_t>(philox(7, {static_cast<uint32_t>(i), 0, 0, 0})[0] % 50257);
    if (i % 12 == 0) tokens[i] = 11;  // a frequent one
    targets[i] = tokens[i];
  }
  const Dropout dropout{0.1f, 12345, s.of(samples), s.of(positions)};
  s.time("dropout_add 65536 x 768, rate 0.1", 3 * tensor, 0, [&] { ops.dropout_add(c, x, y, dropout, z); });
  s.time("residual add 65536 x 768", 3 * tensor, 0, [&] { ops.dropout_add(c, x, y, Dropout{}, z); });
  const RowNorm norm{.w = w, .b = b};
  const View summed = s.take(kA, {kRows, kWidth});
  s.time("residual + layer_norm 65536 x 768", 4 * tensor, 0,
         [&] { ops.dropout_add_norm(c, x, y, Dropout{}, 1, summed, norm, z, mean, rstd); });
  s.time("residual + layer_norm, dropout 0.1", 4 * tensor, 0,
         [&] { ops.dropout_add_norm(c, x, y, dropout, 1, summed, norm, z, mean, rstd); });
  const View u = s.random(kA, {kRows, kWide}), v = s.random(kA, {kRows, kWide});
  const View wide_db = s.take(DType::f32, {kWide});
  for (const auto& [f, name] : {std::pair{Activation::gelu_tanh, "gelu_tanh"}, {Activation::gelu_erf, "gelu_erf"}}) {
    s.time(fmt::format("{} 65536 x 3072", name), 2 * wide, 0, [&, f = f] { ops.activation(c, u, f, v); });
    s.time(fmt::format("{} backward", name), 3 * wide, 0, [&, f = f] { ops.activation_backward(c, v, u, f, v); });
    s.time(fmt::format("{} backward + bias gradient", name), 3 * wide, 0,
           [&, f = f] { ops.activation_bias_backward(c, v, u, f, v, wide_db, Write::add); });
  }
  s.time("bias_backward 65536 x 3072", wide, 0, [&] { ops.bias_backward(c, u, wide_db, Write::add); });
  s.time("bias_backward 65536 x 768", tensor, 0, [&] { ops.bias_backward(c, x, dw, Write::add); });
  const View qkv = s.random(kA, {kRows, 12, 3, 64}), angles = s.take(DType::f32, {1024, 64});
  ops.rotary_table(c, std::vector<float>(32, 0.1f), 1, angles);
  s.time("rotary 65536 x 12 x 64", 4 * tensor, 0, [&] { ops.rotary(c, qkv, dropout.position, angles); });
  const View table = s.random(kA, {50304, kWidth}), dtable = s.take(DType::f32, {50304, kWidth});
  const View ids = s.of(tokens);
  s.time("embedding 65536 x 768", 2 * tensor, 0, [&] { ops.embedding(c, ids, dropout.position, table, table, y); });
  s.time("embedding_backward 65536 rows, 50304 x 768", tensor + 4.0 * 50304 * kWidth, 0,
         [&] { ops.embedding_backward(c, ids, x, dtable, Write::overwrite); });
  s.time("embedding_backward of positions, 1024", tensor, 0, [&, d = s.take(DType::f32, {1024, kWidth})] {
    ops.embedding_backward(c, dropout.position, x, d, Write::overwrite);
  });
  s.reset();

  const View logits = s.random(kA, {8192, 50304}, 3), max = s.take(DType::f32, {8192}),
             sum = s.take(DType::f32, {8192});
  const View target = s.take(DType::f32, {8192}), total = s.take(DType::f64, {1});
  targets.resize(8192);
  const View to = s.of(targets);
  const double all = 2.0 * 8192 * 50304;
  s.time("softmax_stats 8192 x 50304", all, 0, [&] { ops.softmax_stats(c, logits, to, 0, 50257, max, sum, target); });
  s.time("cross_entropy 8192", 0, 0, [&] { ops.cross_entropy(c, max, sum, target, to, total); });
  s.time("cross_entropy_backward 8192 x 50304", 2 * all, 0,
         [&] { ops.cross_entropy_backward(c, logits, to, 0, 50257, max, sum, 1e-3f); });
  s.reset();

  constexpr int64_t kCount = 128 << 20;
  const View grad = s.random(DType::f32, {kCount}), m = s.random(DType::f32, {kCount}),
             q = s.take(DType::f32, {kCount});
  const View high = s.random(kA, {kCount}), low = s.take(DType::i16, {kCount});
  const View norms = s.take(DType::f64, {kCount / kNormChunk});
  s.time("adamw 128M, bf16 + remainder", 28.0 * kCount, 0,
         [&] { ops.adamw(c, AdamW{.learning_rate = 1e-4f}, grad, m, q, high, low); });
  s.time("squared_norms 128M", 4.0 * kCount, 0, [&] { ops.squared_norms(c, grad, norms); });
  s.time("cast f32 to bf16 128M", 6.0 * kCount, 0, [&] { ops.cast(c, grad, high); });
  s.time("add f32 128M", 12.0 * kCount, 0, [&] { ops.add(c, grad, m); });
  s.time("zero 512 MiB", 4.0 * kCount, 0, [&] { ops.zero(c, q); });
  const View parts = s.random(kA, {8, kCount / 8}), own = s.take(DType::f32, {kCount / 8}),
             out = s.take(kA, {kCount / 8});
  std::vector<ConstView> views;
  for (int64_t p = 0; p < 8; ++p) views.push_back(parts.rows_slice(p, 1).reshape({kCount / 8}));
  s.time("sum_contributions 8 x 16M bf16", (8 * 2 + 4 + 4 + 2) * (kCount / 8.0), 0,
         [&] { ops.sum_contributions(c, views, own, out); });
  s.reset();
}

/// Operators of Llama-type decoders at the sizes of a 1.3B step: 16,384 rows of 2,048, 16 query and 4 key heads.
void decoders(Speed& s, DType a) {
  constexpr int64_t kRows = 16384, kWidth = 2048, kInner = 5632, kKeys = 4, kParts = 6, kSize = 128;
  Context& c = s.context();
  CudaOps& ops = s.ops();
  const std::string type(name_of(a));
  const double tensor = 2.0 * kRows * kWidth, inner = 2.0 * kRows * kInner,
               heads = 2.0 * kRows * kKeys * kParts * kSize;
  const View x = s.random(a, {kRows, kWidth}), y = s.random(a, {kRows, kWidth}), z = s.random(a, {kRows, kWidth});
  const View w = s.random(a, {kWidth}), rstd = s.take(DType::f32, {kRows}), dw = s.take(DType::f32, {kWidth});
  s.time("rms_norm 16384 x 2048 " + type, 2 * tensor, 0, [&] { ops.rms_norm(c, x, w, 0, 1e-5f, y, rstd); });
  const RowNorm of_sum{.w = w, .centered = false};
  s.time("residual + rms_norm", 4 * tensor, 0, [&, sum = s.take(a, {kRows, kWidth})] {
    ops.dropout_add_norm(c, x, y, Dropout{}, 1, sum, of_sum, z, View(), rstd);
  });
  s.time("rms_norm_backward", 4 * tensor, 0, [&] { ops.rms_norm_backward(c, y, x, w, 0, rstd, z, dw, Write::add); });
  const View pairs = s.random(a, {kRows, 2 * kInner}), gated = s.random(a, {kRows, kInner});
  s.time("gated silu 16384 x 5632 " + type, 3 * inner, 0,
         [&] { ops.gated_activation(c, pairs, Activation::silu, gated); });
  s.time("  backward", 5 * inner, 0, [&] { ops.gated_activation_backward(c, gated, pairs, Activation::silu, pairs); });
  const View qkv = s.random(a, {kRows, kKeys, kParts, kSize}), to = s.take(a, qkv.shape());
  const View gain = s.random(a, {kSize}), squares = s.take(DType::f32, {kRows, kKeys * (kParts - 1)});
  const View dq = s.take(DType::f32, {kSize}), dk = s.take(DType::f32, {kSize});
  const QueryKeyNorm norm{.q = gain, .k = gain, .q_count = kSize, .k_count = kSize};
  s.time("query_key_squares 16384 x 20 x 128 " + type, heads * 5 / 6, 0,
         [&] { ops.query_key_squares(c, qkv, norm, squares); });
  s.time("query_key_norm", 2 * heads, 0, [&] { ops.query_key_norm(c, qkv, norm, squares, to); });
  s.time("query_key_products", 2 * heads * 5 / 6, 0,
         [&, products = s.take(DType::f32, squares.shape())] { ops.query_key_products(c, to, qkv, norm, products); });
  s.time("query_key_norm_backward", 3 * heads * 5 / 6, 0,
         [&] { ops.query_key_norm_backward(c, to, qkv, norm, squares, squares, dq, dk, Write::overwrite); });
  s.reset();
}

void attention(Speed& s, int sequences, int length, int heads, int head_dim, bool causal, float rate,
               DType a = DType::bf16) {
  const int64_t rows = int64_t{sequences} * length;
  const View qkv = s.random(a, {rows, heads, 3, head_dim}), out = s.take(a, {rows, heads, head_dim});
  const View dout = s.random(a, {rows, heads, head_dim}), dqkv = s.take(a, qkv.shape());
  const View lse = s.take(DType::f32, {heads, rows});
  std::vector<int32_t> offsets, positions;
  std::vector<int64_t> samples;
  for (int i = 0; i <= sequences; ++i) offsets.push_back(i * length);
  for (int64_t i = 0; i < rows; ++i) {
    positions.push_back(static_cast<int32_t>(i % length));
    samples.push_back(i / length);
  }
  const AttentionShape shape{.kv_heads = heads,
                             .head_dim = head_dim,
                             .causal = causal,
                             .scale = 1 / std::sqrt(static_cast<float>(head_dim)),
                             .offsets = s.of(offsets),
                             .equal_length = length};
  const Dropout dropout{rate, 99, s.of(samples), s.of(positions)};
  const double work = 4.0 * sequences * heads * length * static_cast<double>(length) * head_dim * (causal ? 0.5 : 1);
  const std::string name = fmt::format("{} x {}, {} heads of {}{}{} {}", sequences, length, heads, head_dim,
                                       causal ? ", causal" : "", rate > 0 ? ", dropout" : "", name_of(a));
  for (CudaOps* ops : {&s.ops(), &s.ops_with_cudnn()}) {
    if (ops != &s.ops() && rate > 0) continue;
    const std::string which = ops == &s.ops() ? "" : ", cuDNN";
    s.time("attention " + name + which, 0, work, [&] { ops->attention(s.context(), qkv, shape, dropout, out, lse); });
    s.time("  backward" + which, 0, 2.5 * work,
           [&] { ops->attention_backward(s.context(), dout, qkv, out, lse, shape, dropout, dqkv); });
  }
  s.reset();
}

/// By the library's first suggestion, and by what was timed, in turn and with pauses: a card that is warm is slower.
void linear(Speed& s, CudaOps& timed, int64_t rows, int64_t in, int64_t out) {
  const View x = s.random(DType::bf16, {rows, in}), w = s.random(DType::bf16, {out, in}, 0.02f);
  const View bias = s.random(DType::bf16, {out}), y = s.random(DType::bf16, {rows, out}),
             dx = s.take(DType::bf16, {rows, in});
  const View dw = s.take(DType::f32, {out, in});
  const double work = 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  const auto both = [&](const std::string& name, const std::function<void(CudaOps&)>& call) {
    call(timed);
    for (CudaOps* ops : {&s.ops(), &timed}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      s.time(name + (ops == &timed ? ", timed" : ""), 0, work, [&] { call(*ops); });
    }
  };
  both(fmt::format("linear {} x {} -> {}", rows, in, out),
       [&](CudaOps& ops) { ops.linear(s.context(), x, w, bias, y); });
  both("  backward input", [&](CudaOps& ops) { ops.linear_backward_input(s.context(), y, w, dx); });
  both("  backward weight, added",
       [&](CudaOps& ops) { ops.linear_backward_weight(s.context(), y, x, dw, Write::add); });
  s.reset();
}

void run() {
  Speed s;
  passes(s);
  decoders(s, DType::bf16);
  decoders(s, DType::f16);
  attention(s, 64, 1024, 12, 64, true, 0, DType::f16);
  attention(s, 8, 2048, 16, 128, true, 0, DType::f16);
  attention(s, 64, 1024, 12, 64, true, 0);
  attention(s, 64, 1024, 12, 64, true, 0.1f);
  attention(s, 64, 512, 12, 64, false, 0.1f);
  attention(s, 8, 2048, 16, 128, true, 0);
  attention(s, 8, 2048, 16, 96, true, 0);
  attention(s, 4, 2048, 8, 256, true, 0);
  const TemporaryFolder folder;
  CudaOps timed(s.device(), make_cublaslt_products(folder / "products.jsonl", true));
  linear(s, timed, 65536, 768, 2304);
  linear(s, timed, 65536, 768, 768);
  linear(s, timed, 65536, 768, 3072);
  linear(s, timed, 65536, 3072, 768);
  linear(s, timed, 8192, 768, 50304);
  linear(s, timed, 16384, 2048, 8192);
  linear(s, timed, 8192, 8192, 8192);
}

}  // namespace
}  // namespace trireme

int main() {
  try {
    trireme::run();
  } catch (const std::exception& e) {
    fmt::print("{}\n", e.what());
    return 1;
  }
}
