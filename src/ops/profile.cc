#include "ops/profile.h"

#include <fmt/format.h>

#include <initializer_list>
#include <utility>

namespace trireme {
namespace {

double count(int64_t n) { return static_cast<double>(n); }

double bytes_of(std::initializer_list<ConstView> views) {
  double bytes = 0;
  for (const ConstView& v : views) bytes += v.empty() ? 0 : count(static_cast<int64_t>(v.bytes()));
  return bytes;
}

/// Query-key pairs of all heads.
double pairs(const AttentionShape& s) {
  double sum = 0;
  const int32_t* offset = s.offsets.as<int32_t>();
  for (int64_t i = 0; i + 1 < s.offsets.rows(); ++i) {
    const double n = offset[i + 1] - offset[i];
    sum += s.causal ? n * (n + 1) / 2 : n * n;
  }
  return sum * s.heads;
}

class ProfiledOps final : public Ops {
 public:
  ProfiledOps(std::unique_ptr<Ops> inner, OpRecorder& recorder) : inner_(std::move(inner)), recorder_(recorder) {}
  std::string_view name() const override { return inner_->name(); }
  size_t scratch_bytes(const CallSizes& sizes) const override { return inner_->scratch_bytes(sizes); }

 private:
  template <class Call>
  auto time(std::string_view op, double flops, double bytes, Call call) {
    struct Timer {
      OpRecorder& recorder;
      OpCall record;
      bool on = recorder.recording();
      ~Timer() {
        if (!on) return;
        record.seconds = recorder.now() - record.start;
        recorder.add(std::move(record));
      }
    } timer{recorder_, {}};
    if (timer.on) timer.record = {std::string(op), recorder_.now(), 0, flops, bytes};
    return call();
  }
  /// A product of rows with a weight [out, in].
  template <class Call>
  void product(std::string_view op, ConstView x, int64_t in, int64_t out, double bytes, Call call) {
    const std::string sized = recorder_.recording() ? fmt::format("{} {}->{}", op, in, out) : std::string();
    time(sized, 2.0 * count(x.rows()) * count(in) * count(out), bytes, call);
  }

  bool takes(DType type) const override { return type == DType::f32 || type == DType::bf16; }
  void do_linear(Context& c, ConstView x, ConstView w, ConstView b, View y) override {
    product("linear", x, w.shape()[1], w.shape()[0], bytes_of({x, w, b, y}), [&] { inner_->linear(c, x, w, b, y); });
  }
  void do_linear_activation(Context& c, ConstView x, ConstView w, ConstView b, Activation f, View pre,
                            View y) override {
    product("linear_activation", x, w.shape()[1], w.shape()[0], bytes_of({x, w, b, pre, y}),
            [&] { inner_->linear_activation(c, x, w, b, f, pre, y); });
  }
  void do_linear_backward_input(Context& c, ConstView dy, ConstView w, View dx) override {
    product("linear_backward_input", dy, w.shape()[1], w.shape()[0], bytes_of({dy, w, dx}),
            [&] { inner_->linear_backward_input(c, dy, w, dx); });
  }
  void do_linear_backward_weight(Context& c, ConstView dy, ConstView x, View dw, Write write) override {
    product("linear_backward_weight", dy, x.shape()[1], dy.shape()[1], bytes_of({dy, x, dw}),
            [&] { inner_->linear_backward_weight(c, dy, x, dw, write); });
  }
  void do_bias_backward(Context& c, ConstView dy, View db, Write write) override {
    time("bias_backward", 0, bytes_of({dy, db}), [&] { inner_->bias_backward(c, dy, db, write); });
  }
  void do_layer_norm(Context& c, ConstView x, ConstView w, ConstView b, float eps, View y, View mean,
                     View rstd) override {
    time("layer_norm", 0, bytes_of({x, w, b, y, mean, rstd}),
         [&] { inner_->layer_norm(c, x, w, b, eps, y, mean, rstd); });
  }
  void do_layer_norm_backward(Context& c, ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd,
                              View dx, View dw, View db, Write write) override {
    time("layer_norm_backward", 0, bytes_of({dy, x, w, mean, rstd, dx, dw, db}),
         [&] { inner_->layer_norm_backward(c, dy, x, w, mean, rstd, dx, dw, db, write); });
  }
  void do_activation(Context& c, ConstView x, Activation f, View y) override {
    time("activation", 0, bytes_of({x, y}), [&] { inner_->activation(c, x, f, y); });
  }
  void do_activation_backward(Context& c, ConstView dy, ConstView x, Activation f, View dx) override {
    time("activation_backward", 0, bytes_of({dy, x, dx}), [&] { inner_->activation_backward(c, dy, x, f, dx); });
  }
  void do_dropout_add(Context& c, ConstView x, ConstView residual, const Dropout& d, View y) override {
    time("dropout_add", 0, bytes_of({x, residual, y}), [&] { inner_->dropout_add(c, x, residual, d, y); });
  }
  void do_dropout_backward(Context& c, ConstView dy, const Dropout& d, View dx) override {
    time("dropout_backward", 0, bytes_of({dy, dx}), [&] { inner_->dropout_backward(c, dy, d, dx); });
  }
  void do_embedding(Context& c, ConstView tokens, ConstView positions, ConstView token_table, ConstView position_table,
                    View y) override {
    time("embedding", 0, bytes_of({y, y}),
         [&] { inner_->embedding(c, tokens, positions, token_table, position_table, y); });
  }
  void do_embedding_backward(Context& c, ConstView ids, ConstView dy, View dtable, Write write) override {
    time("embedding_backward", 0, bytes_of({ids, dy, dtable}),
         [&] { inner_->embedding_backward(c, ids, dy, dtable, write); });
  }
  void do_embedding_add(Context& c, ConstView ids, ConstView table, View y) override {
    time("embedding_add", 0, bytes_of({y, y}), [&] { inner_->embedding_add(c, ids, table, y); });
  }
  void do_scatter_rows(Context& c, ConstView y, ConstView rows, View x) override {
    time("scatter_rows", 0, bytes_of({y, x}), [&] { inner_->scatter_rows(c, y, rows, x); });
  }
  void do_rotary_table(Context& c, double base, View table) override { inner_->rotary_table(c, base, table); }
  void do_rotary(Context& c, View qkv, ConstView positions, ConstView table, bool inverse) override {
    time(inverse ? "rotary_backward" : "rotary", 0, bytes_of({qkv}), [&] {
      inverse ? inner_->rotary_backward(c, qkv, positions, table) : inner_->rotary(c, qkv, positions, table);
    });
  }
  // Forward has two products of a pair with a head's vectors, backward five.
  void do_attention(Context& c, ConstView qkv, const AttentionShape& s, const Dropout& d, View out, View lse) override {
    time("attention", 4 * pairs(s) * s.head_dim, bytes_of({qkv, out, lse}),
         [&] { inner_->attention(c, qkv, s, d, out, lse); });
  }
  void do_attention_backward(Context& c, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                             const AttentionShape& s, const Dropout& d, View dqkv) override {
    time("attention_backward", 10 * pairs(s) * s.head_dim, bytes_of({dout, qkv, out, lse, dqkv}),
         [&] { inner_->attention_backward(c, dout, qkv, out, lse, s, d, dqkv); });
  }
  void do_attention_cached(Context& c, ConstView qkv, const AttentionShape& s, ConstView past, View cache,
                           View out) override {
    time("attention_cached", 0, bytes_of({qkv, cache, out}),
         [&] { inner_->attention_cached(c, qkv, s, past, cache, out); });
  }
  void do_softmax_stats(Context& c, ConstView logits, ConstView targets, int64_t first, int64_t classes, View max,
                        View sum, View target) override {
    time("softmax_stats", 0, bytes_of({logits}),
         [&] { inner_->softmax_stats(c, logits, targets, first, classes, max, sum, target); });
  }
  double do_cross_entropy(Context& c, ConstView max, ConstView sum, ConstView target, ConstView targets) override {
    return time("cross_entropy", 0, bytes_of({max, sum, target, targets}),
                [&] { return inner_->cross_entropy(c, max, sum, target, targets); });
  }
  void do_cross_entropy_backward(Context& c, View logits, ConstView targets, int64_t first, int64_t classes,
                                 ConstView max, ConstView sum, float scale) override {
    time("cross_entropy_backward", 0, bytes_of({logits, logits}),
         [&] { inner_->cross_entropy_backward(c, logits, targets, first, classes, max, sum, scale); });
  }
  double do_squared_error(Context& c, ConstView z, ConstView targets) override {
    return time("squared_error", 0, bytes_of({z, targets}), [&] { return inner_->squared_error(c, z, targets); });
  }
  void do_squared_error_backward(Context& c, View z, ConstView targets, float scale) override {
    time("squared_error_backward", 0, bytes_of({z, targets}),
         [&] { inner_->squared_error_backward(c, z, targets, scale); });
  }
  void do_add(Context& c, ConstView x, View y) override {
    time("add", 0, bytes_of({x, y, y}), [&] { inner_->add(c, x, y); });
  }
  void do_cast(Context& c, ConstView x, View y) override {
    time("cast", 0, bytes_of({x, y}), [&] { inner_->cast(c, x, y); });
  }
  void do_zero(Context& c, View x) override {
    time("zero", 0, bytes_of({x}), [&] { inner_->zero(c, x); });
  }
  double do_squared_norm(Context& c, ConstView x) override {
    return time("squared_norm", 0, bytes_of({x}), [&] { return inner_->squared_norm(c, x); });
  }
  void do_adamw(Context& c, const AdamW& o, ConstView grad, View m, View v, View weights, View remainder) override {
    time("adamw", 0, bytes_of({grad, m, m, v, v, weights, weights, remainder, remainder}),
         [&] { inner_->adamw(c, o, grad, m, v, weights, remainder); });
  }

  std::unique_ptr<Ops> inner_;
  OpRecorder& recorder_;
};

}  // namespace

std::unique_ptr<Ops> make_profiled_ops(std::unique_ptr<Ops> inner, OpRecorder& recorder) {
  return std::make_unique<ProfiledOps>(std::move(inner), recorder);
}

}  // namespace trireme
