#pragma once
// The operators of a GPU on tensors of the host: each call copies its operands to the GPU and its results back, so that
// the suites of tests/ops judge it as it is. Between tensors on the GPU lie guards, whose bytes no call may change.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/device.h"
#include "ops/ops.h"

namespace trireme::test {

class StagedOps final : public Ops {
 public:
  static constexpr size_t kBytes = size_t{2} << 30;
  /// memory: kBytes of the device's. scratch: for the calls. Both outlive this object.
  StagedOps(trireme::Device& device, Ops& ops, std::byte* memory, Arena& scratch)
      : device_(device), ops_(&ops), memory_(memory), scratch_(scratch) {}
  std::string_view name() const override { return "cuda"; }
  size_t scratch_bytes(const CallSizes& sizes) const override { return ops_->scratch_bytes(sizes); }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr int kGuardByte = 0xa5;

  /// One call's tensors on the GPU.
  class Stage {
   public:
    explicit Stage(StagedOps& of) : of_(of) { guard(); }
    View in(ConstView x) { return place(x, false); }
    View out(View x) { return place(x, true); }
    Dropout in(Dropout d) {
      d.sample = in(d.sample), d.position = in(d.position);
      return d;
    }
    AttentionShape in(AttentionShape s) {
      s.offsets = in(s.offsets);
      return s;
    }
    QueryKeyNorm in(QueryKeyNorm norm) {
      norm.q = in(norm.q), norm.k = in(norm.k);
      return norm;
    }
    std::span<const ConstView> in(std::span<const ConstView> parts) {
      for (const ConstView& part : parts) parts_.push_back(in(part));
      return parts_;
    }
    void finish() {
      DeviceStream& stream = of_.device_.stream();
      for (const Copy& copy : copies_)
        if (copy.written) stream.copy(copy.device, copy.host);
      for (const size_t at : guards_) {
        std::vector<unsigned char> bytes(kGuard);
        stream.copy(ConstView(of_.memory_ + at, DType::u8, {kGuard}, &of_.device_),
                    View(bytes.data(), DType::u8, {kGuard}));
        EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == kGuardByte; }))
            << "a kernel wrote outside its tensors";
      }
    }

   private:
    struct Copy {
      View host, device;
      bool written;
    };
    void guard() {
      const std::vector<unsigned char> bytes(kGuard, kGuardByte);
      of_.device_.stream().copy(ConstView(bytes.data(), DType::u8, {kGuard}),
                                View(of_.memory_ + used_, DType::u8, {kGuard}, &of_.device_));
      guards_.push_back(used_);
      used_ += kGuard;
    }
    View place(ConstView x, bool written) {
      if (x.empty()) return {};
      auto* host = static_cast<std::byte*>(const_cast<void*>(x.data()));
      for (Copy& copy : copies_) {  // operands may be one tensor, or a part of one
        auto* other = static_cast<std::byte*>(copy.host.data());
        if (host < other || host + x.bytes() > other + copy.host.bytes() || x.bytes() == 0) continue;
        copy.written = copy.written || written;
        return {static_cast<std::byte*>(copy.device.data()) + (host - other), x.dtype(), x.shape(), &of_.device_};
      }
      // The alignment of the host's address decides which accesses a kernel may make.
      const size_t offset = reinterpret_cast<uintptr_t>(host) % 16;
      const View device(of_.memory_ + used_ + offset, x.dtype(), x.shape(), &of_.device_);
      if (x.bytes() > 0) of_.device_.stream().copy(x, device);
      copies_.push_back({View(host, x.dtype(), x.shape()), device, written});
      used_ = (used_ + offset + x.bytes() + kGuard - 1) / kGuard * kGuard;
      guard();
      return device;
    }
    StagedOps& of_;
    size_t used_ = 0;
    std::vector<Copy> copies_;
    std::vector<size_t> guards_;
    std::vector<ConstView> parts_;
  };

  template <class Call>
  void run(const Context& context, Call call) {
    Stage stage(*this);
    Context own{.threads = context.threads, .scratch = &scratch_, .stream = &device_.stream()};
    call(stage, own);
    device_.stream().finish();
    stage.finish();
  }

  bool takes(DType activation) const override {
    return activation == DType::f32 || activation == DType::bf16 || activation == DType::f16;
  }
  void do_linear(Context& c, ConstView x, ConstView w, ConstView bias, View y) override {
    run(c, [&](Stage& s, Context& context) { ops_->linear(context, s.in(x), s.in(w), s.in(bias), s.out(y)); });
  }
  void do_linear_activation(Context& c, ConstView x, ConstView w, ConstView bias, Activation f, View pre,
                            View y) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->linear_activation(context, s.in(x), s.in(w), s.in(bias), f, s.out(pre), s.out(y));
    });
  }
  void do_linear_backward_input(Context& c, ConstView dy, ConstView w, View dx) override {
    run(c, [&](Stage& s, Context& context) { ops_->linear_backward_input(context, s.in(dy), s.in(w), s.out(dx)); });
  }
  void do_linear_backward_weight(Context& c, ConstView dy, ConstView x, View dw, Write write) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->linear_backward_weight(context, s.in(dy), s.in(x), s.out(dw), write);
    });
  }
  void do_bias_backward(Context& c, ConstView dy, View db, Write write) override {
    run(c, [&](Stage& s, Context& context) { ops_->bias_backward(context, s.in(dy), s.out(db), write); });
  }
  void do_layer_norm(Context& c, ConstView x, ConstView w, ConstView b, float eps, View y, View mean,
                     View rstd) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->layer_norm(context, s.in(x), s.in(w), s.in(b), eps, s.out(y), s.out(mean), s.out(rstd));
    });
  }
  void do_layer_norm_backward(Context& c, ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd,
                              View dx, View dw, View db, Write write) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->layer_norm_backward(context, s.in(dy), s.in(x), s.in(w), s.in(mean), s.in(rstd), s.out(dx), s.out(dw),
                                s.out(db), write);
    });
  }
  void do_activation(Context& c, ConstView x, Activation f, View y) override {
    run(c, [&](Stage& s, Context& context) { ops_->activation(context, s.in(x), f, s.out(y)); });
  }
  void do_activation_backward(Context& c, ConstView dy, ConstView x, Activation f, View dx) override {
    run(c, [&](Stage& s, Context& context) { ops_->activation_backward(context, s.in(dy), s.in(x), f, s.out(dx)); });
  }
  void do_gated_activation(Context& c, ConstView x, Activation f, View y) override {
    run(c, [&](Stage& s, Context& context) { ops_->gated_activation(context, s.in(x), f, s.out(y)); });
  }
  void do_gated_activation_backward(Context& c, ConstView dy, ConstView x, Activation f, View dx) override {
    run(c,
        [&](Stage& s, Context& context) { ops_->gated_activation_backward(context, s.in(dy), s.in(x), f, s.out(dx)); });
  }
  void do_dropout_add(Context& c, ConstView x, ConstView residual, const Dropout& dropout, View y,
                      float factor) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->dropout_add(context, s.in(x), s.in(residual), s.in(dropout), s.out(y), factor);
    });
  }
  void do_dropout_backward(Context& c, ConstView dy, const Dropout& dropout, View dx, float factor) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->dropout_backward(context, s.in(dy), s.in(dropout), s.out(dx), factor);
    });
  }
  void do_dropout_add_norm(Context& c, ConstView x, ConstView residual, const Dropout& dropout, float factor, View sum,
                           const RowNorm& norm, View y, View mean, View rstd) override {
    run(c, [&](Stage& s, Context& context) {
      RowNorm on_gpu = norm;
      on_gpu.w = s.in(norm.w), on_gpu.b = s.in(norm.b);
      ops_->dropout_add_norm(context, s.in(x), s.in(residual), s.in(dropout), factor, s.out(sum), on_gpu, s.out(y),
                             s.out(mean), s.out(rstd));
    });
  }
  void do_activation_bias_backward(Context& c, ConstView dy, ConstView x, Activation f, View dx, View db,
                                   Write write) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->activation_bias_backward(context, s.in(dy), s.in(x), f, s.out(dx), s.out(db), write);
    });
  }
  void do_rms_norm(Context& c, ConstView x, ConstView w, float offset, float eps, View y, View rstd) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->rms_norm(context, s.in(x), s.in(w), offset, eps, s.out(y), s.out(rstd));
    });
  }
  void do_rms_norm_backward(Context& c, ConstView dy, ConstView x, ConstView w, float offset, ConstView rstd, View dx,
                            View dw, Write write) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->rms_norm_backward(context, s.in(dy), s.in(x), s.in(w), offset, s.in(rstd), s.out(dx), s.out(dw), write);
    });
  }
  void do_query_key_squares(Context& c, ConstView qkv, const QueryKeyNorm& norm, View squares) override {
    run(c,
        [&](Stage& s, Context& context) { ops_->query_key_squares(context, s.in(qkv), s.in(norm), s.out(squares)); });
  }
  void do_query_key_norm(Context& c, ConstView qkv, const QueryKeyNorm& norm, ConstView squares, View y) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->query_key_norm(context, s.in(qkv), s.in(norm), s.in(squares), s.out(y));
    });
  }
  void do_query_key_products(Context& c, ConstView dqkv, ConstView qkv, const QueryKeyNorm& norm,
                             View products) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->query_key_products(context, s.in(dqkv), s.in(qkv), s.in(norm), s.out(products));
    });
  }
  void do_query_key_norm_backward(Context& c, View dqkv, ConstView qkv, const QueryKeyNorm& norm, ConstView squares,
                                  ConstView products, View dq, View dk, Write write) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->query_key_norm_backward(context, s.out(dqkv), s.in(qkv), s.in(norm), s.in(squares), s.in(products),
                                    s.out(dq), s.out(dk), write);
    });
  }
  void do_soft_cap(Context& c, View x, float cap) override {
    run(c, [&](Stage& s, Context& context) { ops_->soft_cap(context, s.out(x), cap); });
  }
  void do_embedding(Context& c, ConstView tokens, ConstView positions, ConstView tokens_table,
                    ConstView positions_table, View y) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->embedding(context, s.in(tokens), s.in(positions), s.in(tokens_table), s.in(positions_table), s.out(y));
    });
  }
  void do_embedding_part(Context& c, ConstView tokens, ConstView table, TableRows part, View y) override {
    run(c,
        [&](Stage& s, Context& context) { ops_->embedding_part(context, s.in(tokens), s.in(table), part, s.out(y)); });
  }
  void do_embedding_backward(Context& c, ConstView ids, ConstView dy, View dtable, Write write,
                             TableRows part) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->embedding_backward(context, s.in(ids), s.in(dy), s.out(dtable), write, part);
    });
  }
  void do_embedding_add(Context& c, ConstView ids, ConstView table, View y) override {
    run(c, [&](Stage& s, Context& context) { ops_->embedding_add(context, s.in(ids), s.in(table), s.out(y)); });
  }
  void do_scatter_rows(Context& c, ConstView y, ConstView rows, View x) override {
    run(c, [&](Stage& s, Context& context) { ops_->scatter_rows(context, s.in(y), s.in(rows), s.out(x)); });
  }
  void do_rotary_table(Context& c, std::span<const float> frequencies, double factor, View table) override {
    run(c, [&](Stage& s, Context& context) { ops_->rotary_table(context, frequencies, factor, s.out(table)); });
  }
  void do_rotary(Context& c, View qkv, ConstView positions, ConstView table, bool inverse) override {
    run(c, [&](Stage& s, Context& context) {
      inverse ? ops_->rotary_backward(context, s.out(qkv), s.in(positions), s.in(table))
              : ops_->rotary(context, s.out(qkv), s.in(positions), s.in(table));
    });
  }
  void do_attention(Context& c, ConstView qkv, const AttentionShape& shape, const Dropout& dropout, View out,
                    View lse) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->attention(context, s.in(qkv), s.in(shape), s.in(dropout), s.out(out), s.out(lse));
    });
  }
  void do_attention_backward(Context& c, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                             const AttentionShape& shape, const Dropout& dropout, View dqkv) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->attention_backward(context, s.in(dout), s.in(qkv), s.in(out), s.in(lse), s.in(shape), s.in(dropout),
                               s.out(dqkv));
    });
  }
  void do_attention_cached(Context& c, ConstView qkv, const AttentionShape& shape, ConstView past, View cache,
                           View out) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->attention_cached(context, s.in(qkv), s.in(shape), s.in(past), s.out(cache), s.out(out));
    });
  }
  void do_softmax_stats(Context& c, ConstView logits, ConstView targets, int64_t first_class, int64_t classes, View max,
                        View sum, View target) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->softmax_stats(context, s.in(logits), s.in(targets), first_class, classes, s.out(max), s.out(sum),
                          s.out(target));
    });
  }
  void do_softmax_combine(Context& c, ConstView parts, View max, View sum, View target) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->softmax_combine(context, s.in(parts), s.out(max), s.out(sum), s.out(target));
    });
  }
  void do_smooth_target(Context& c, ConstView logits, int64_t classes, double smoothing, View target) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->smooth_target(context, s.in(logits), classes, smoothing, s.out(target));
    });
  }
  void do_cross_entropy(Context& c, ConstView max, ConstView sum, ConstView target, ConstView targets,
                        View total) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->cross_entropy(context, s.in(max), s.in(sum), s.in(target), s.in(targets), s.out(total));
    });
  }
  void do_cross_entropy_backward(Context& c, View logits, ConstView targets, int64_t first_class, int64_t classes,
                                 ConstView max, ConstView sum, float scale, double smoothing, float cap) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->cross_entropy_backward(context, s.out(logits), s.in(targets), first_class, classes, s.in(max), s.in(sum),
                                   scale, smoothing, cap);
    });
  }
  void do_squared_error(Context& c, ConstView z, ConstView targets, View total) override {
    run(c, [&](Stage& s, Context& context) { ops_->squared_error(context, s.in(z), s.in(targets), s.out(total)); });
  }
  void do_squared_error_backward(Context& c, View z, ConstView targets, float scale) override {
    run(c, [&](Stage& s, Context& context) { ops_->squared_error_backward(context, s.out(z), s.in(targets), scale); });
  }
  void do_sum_parts(Context& c, ConstView parts, View y) override {
    run(c, [&](Stage& s, Context& context) { ops_->sum_parts(context, s.in(parts), s.out(y)); });
  }
  void do_add(Context& c, ConstView x, View y) override {
    run(c, [&](Stage& s, Context& context) { ops_->add(context, s.in(x), s.out(y)); });
  }
  void do_cast(Context& c, ConstView x, View y) override {
    run(c, [&](Stage& s, Context& context) { ops_->cast(context, s.in(x), s.out(y)); });
  }
  void do_zero(Context& c, View x) override {
    run(c, [&](Stage& s, Context& context) { ops_->zero(context, s.out(x)); });
  }
  void do_place_rows(Context& c, ConstView x, const RowPattern& pattern, int64_t column, float factor,
                     View y) override {
    run(c, [&](Stage& s, Context& context) { ops_->place_rows(context, s.in(x), pattern, column, factor, s.out(y)); });
  }
  void do_take_rows(Context& c, ConstView x, const RowPattern& pattern, int64_t column, float factor, View y,
                    Write write) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->take_rows(context, s.in(x), pattern, column, factor, s.out(y), write);
    });
  }
  void do_low_rank_squares(Context& c, ConstView w, ConstView b, ConstView a, View squares) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->low_rank_squares(context, s.in(w), s.in(b), s.in(a), s.out(squares));
    });
  }
  void do_magnitude_factors(Context& c, ConstView magnitudes, ConstView squares, View factors, View inverses) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->magnitude_factors(context, s.in(magnitudes), s.in(squares), s.out(factors), s.out(inverses));
    });
  }
  void do_scale_columns(Context& c, ConstView x, ConstView factors, ConstView bias, View y) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->scale_columns(context, s.in(x), s.in(factors), s.in(bias), s.out(y));
    });
  }
  void do_scale_columns_backward(Context& c, ConstView dy, ConstView x, ConstView factors, View dx,
                                 View products) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->scale_columns_backward(context, s.in(dy), s.in(x), s.in(factors), s.out(dx), s.out(products));
    });
  }
  void do_squared_norms(Context& c, ConstView x, View values) override {
    run(c, [&](Stage& s, Context& context) { ops_->squared_norms(context, s.in(x), s.out(values)); });
  }
  void do_element_sums(Context& c, ConstView x, ConstView low, const ElementPlaces& places, View sums) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->element_sums(context, s.in(x), low.empty() ? low : s.in(low), places, s.out(sums));
    });
  }
  void do_adamw(Context& c, const AdamW& options, ConstView grad, View m, View v, View weights,
                View remainder) override {
    run(c, [&](Stage& s, Context& context) {
      ops_->adamw(context, options, s.in(grad), s.out(m), s.out(v), s.out(weights), s.out(remainder));
    });
  }
  void do_wire_cast(Context& c, ConstView x, View y) override {
    run(c, [&](Stage& s, Context& context) { ops_->wire_cast(context, s.in(x), s.out(y)); });
  }
  void do_sum_contributions(Context& c, std::span<const ConstView> parts, View own, View sum) override {
    run(c, [&](Stage& s, Context& context) { ops_->sum_contributions(context, s.in(parts), s.out(own), s.out(sum)); });
  }
  void do_mark_rows(Context& c, ConstView x, View map) override {
    run(c, [&](Stage& s, Context& context) { ops_->mark_rows(context, s.in(x), s.out(map)); });
  }
  void do_pack_rows(Context& c, View x, ConstView map) override {
    run(c, [&](Stage& s, Context& context) { ops_->pack_rows(context, s.out(x), s.in(map)); });
  }
  void do_unpack_rows(Context& c, View x, ConstView map) override {
    run(c, [&](Stage& s, Context& context) { ops_->unpack_rows(context, s.out(x), s.in(map)); });
  }

  trireme::Device& device_;
  Ops* ops_;
  std::byte* memory_;
  Arena& scratch_;
};

}  // namespace trireme::test
