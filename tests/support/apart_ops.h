#pragma once
// The operators of a device whose work runs later.

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "ops/element_sum.h"
#include "ops/ops.h"
#include "tests/support/apart_device.h"

namespace trireme {

/// The operators of the host on the device's memory.
class ApartOps final : public Ops {
 public:
  /// has_f16: the operators take f16, too.
  ApartOps(ApartDevice& device, std::unique_ptr<Ops> host, bool has_f16 = false)
      : device_(device), host_(std::move(host)), has_f16_(has_f16) {}
  ~ApartOps() override { device_.drain(); }  // after a failure work may be left that uses it
  std::string_view name() const override { return "apart"; }
  Device& device() const override { return device_; }
  size_t scratch_bytes(const CallSizes& sizes) const override { return host_->scratch_bytes(sizes); }

 private:
  View in(ConstView x) const { return device_.inside(x); }
  Dropout in(Dropout d) const {
    d.sample = in(d.sample), d.position = in(d.position);
    return d;
  }
  QueryKeyNorm in(QueryKeyNorm n) const {
    n.q = in(n.q), n.k = in(n.k);
    return n;
  }
  AttentionShape in(AttentionShape s) const {
    s.offsets = in(s.offsets);
    return s;
  }
  /// work(context): with scratch of the host's operators.
  template <class Work>
  void later(const Context& context, Work work) {
    apart_faults.call("a kernel");
    static_cast<ApartStream*>(context.stream)->issue([threads = context.threads, work] {
      thread_local Arena scratch(size_t{64} << 20);
      Context own{.threads = threads, .scratch = &scratch};
      work(own);
    });
  }

  bool takes(DType activation) const override {
    return activation == DType::f32 || activation == DType::bf16 || (has_f16_ && activation == DType::f16);
  }
  void do_linear(Context& c, ConstView x, ConstView w, ConstView bias, View y) override {
    later(c, [=, this](Context& own) {
      host_->linear(own, in(x), in(w), in(bias), in(y));
      apart_faults.spoil("linear", in(y));
    });
  }
  void do_linear_activation(Context& c, ConstView x, ConstView w, ConstView bias, Activation f, View pre,
                            View y) override {
    later(c, [=, this](Context& own) { host_->linear_activation(own, in(x), in(w), in(bias), f, in(pre), in(y)); });
  }
  void do_linear_backward_input(Context& c, ConstView dy, ConstView w, View dx) override {
    later(c, [=, this](Context& own) { host_->linear_backward_input(own, in(dy), in(w), in(dx)); });
  }
  void do_linear_backward_weight(Context& c, ConstView dy, ConstView x, View dw, Write write) override {
    later(c, [=, this](Context& own) { host_->linear_backward_weight(own, in(dy), in(x), in(dw), write); });
  }
  void do_bias_backward(Context& c, ConstView dy, View db, Write write) override {
    later(c, [=, this](Context& own) { host_->bias_backward(own, in(dy), in(db), write); });
  }
  void do_layer_norm(Context& c, ConstView x, ConstView w, ConstView b, float eps, View y, View mean,
                     View rstd) override {
    later(c, [=, this](Context& own) {
      host_->layer_norm(own, in(x), in(w), in(b), eps, in(y), in(mean), in(rstd));
      apart_faults.spoil("layer_norm", in(y));
    });
  }
  void do_layer_norm_backward(Context& c, ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd,
                              View dx, View dw, View db, Write write) override {
    later(c, [=, this](Context& own) {
      host_->layer_norm_backward(own, in(dy), in(x), in(w), in(mean), in(rstd), in(dx), in(dw), in(db), write);
    });
  }
  void do_rms_norm(Context& c, ConstView x, ConstView w, float offset, float eps, View y, View rstd) override {
    later(c, [=, this](Context& own) { host_->rms_norm(own, in(x), in(w), offset, eps, in(y), in(rstd)); });
  }
  void do_rms_norm_backward(Context& c, ConstView dy, ConstView x, ConstView w, float offset, ConstView rstd, View dx,
                            View dw, Write write) override {
    later(c, [=, this](Context& own) {
      host_->rms_norm_backward(own, in(dy), in(x), in(w), offset, in(rstd), in(dx), in(dw), write);
    });
  }
  void do_query_key_squares(Context& c, ConstView qkv, const QueryKeyNorm& norm, View squares) override {
    later(c, [=, this](Context& own) { host_->query_key_squares(own, in(qkv), in(norm), in(squares)); });
  }
  void do_query_key_norm(Context& c, ConstView qkv, const QueryKeyNorm& norm, ConstView squares, View y) override {
    later(c, [=, this](Context& own) { host_->query_key_norm(own, in(qkv), in(norm), in(squares), in(y)); });
  }
  void do_query_key_products(Context& c, ConstView dqkv, ConstView qkv, const QueryKeyNorm& norm,
                             View products) override {
    later(c, [=, this](Context& own) { host_->query_key_products(own, in(dqkv), in(qkv), in(norm), in(products)); });
  }
  void do_query_key_norm_backward(Context& c, View dqkv, ConstView qkv, const QueryKeyNorm& norm, ConstView squares,
                                  ConstView products, View dq, View dk, Write write) override {
    later(c, [=, this](Context& own) {
      host_->query_key_norm_backward(own, in(dqkv), in(qkv), in(norm), in(squares), in(products), in(dq), in(dk),
                                     write);
    });
  }
  void do_activation(Context& c, ConstView x, Activation f, View y) override {
    later(c, [=, this](Context& own) { host_->activation(own, in(x), f, in(y)); });
  }
  void do_activation_backward(Context& c, ConstView dy, ConstView x, Activation f, View dx) override {
    later(c, [=, this](Context& own) { host_->activation_backward(own, in(dy), in(x), f, in(dx)); });
  }
  void do_gated_activation(Context& c, ConstView x, Activation f, View y) override {
    later(c, [=, this](Context& own) { host_->gated_activation(own, in(x), f, in(y)); });
  }
  void do_gated_activation_backward(Context& c, ConstView dy, ConstView x, Activation f, View dx) override {
    later(c, [=, this](Context& own) { host_->gated_activation_backward(own, in(dy), in(x), f, in(dx)); });
  }
  void do_dropout_add(Context& c, ConstView x, ConstView residual, const Dropout& dropout, View y,
                      float factor) override {
    later(c, [=, this](Context& own) { host_->dropout_add(own, in(x), in(residual), in(dropout), in(y), factor); });
  }
  void do_dropout_backward(Context& c, ConstView dy, const Dropout& dropout, View dx, float factor) override {
    later(c, [=, this](Context& own) {
      host_->dropout_backward(own, in(dy), in(dropout), in(dx), factor);
      apart_faults.spoil("dropout_backward", in(dx));
    });
  }
  void do_embedding(Context& c, ConstView tokens, ConstView positions, ConstView tokens_table,
                    ConstView positions_table, View y) override {
    later(c, [=, this](Context& own) {
      host_->embedding(own, in(tokens), in(positions), in(tokens_table), in(positions_table), in(y));
    });
  }
  void do_embedding_part(Context& c, ConstView tokens, ConstView table, TableRows part, View y) override {
    later(c, [=, this](Context& own) { host_->embedding_part(own, in(tokens), in(table), part, in(y)); });
  }
  void do_embedding_backward(Context& c, ConstView ids, ConstView dy, View dtable, Write write,
                             TableRows part) override {
    later(c, [=, this](Context& own) { host_->embedding_backward(own, in(ids), in(dy), in(dtable), write, part); });
  }
  void do_embedding_add(Context& c, ConstView ids, ConstView table, View y) override {
    later(c, [=, this](Context& own) { host_->embedding_add(own, in(ids), in(table), in(y)); });
  }
  void do_scatter_rows(Context& c, ConstView y, ConstView rows, View x) override {
    later(c, [=, this](Context& own) { host_->scatter_rows(own, in(y), in(rows), in(x)); });
  }
  void do_rotary_table(Context& c, std::span<const float> frequencies, double factor, View table) override {
    later(c, [=, this, kept = std::vector<float>(frequencies.begin(), frequencies.end())](Context& own) {
      host_->rotary_table(own, kept, factor, in(table));
    });
  }
  void do_rotary(Context& c, View qkv, ConstView positions, ConstView table, bool inverse) override {
    later(c, [=, this](Context& own) {
      inverse ? host_->rotary_backward(own, in(qkv), in(positions), in(table))
              : host_->rotary(own, in(qkv), in(positions), in(table));
    });
  }
  void do_attention(Context& c, ConstView qkv, const AttentionShape& shape, const Dropout& dropout, View out,
                    View lse) override {
    later(c, [=, this](Context& own) { host_->attention(own, in(qkv), in(shape), in(dropout), in(out), in(lse)); });
  }
  void do_attention_backward(Context& c, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                             const AttentionShape& shape, const Dropout& dropout, View dqkv) override {
    later(c, [=, this](Context& own) {
      host_->attention_backward(own, in(dout), in(qkv), in(out), in(lse), in(shape), in(dropout), in(dqkv));
    });
  }
  void do_attention_cached(Context& c, ConstView qkv, const AttentionShape& shape, ConstView past, View cache,
                           View out) override {
    later(c,
          [=, this](Context& own) { host_->attention_cached(own, in(qkv), in(shape), in(past), in(cache), in(out)); });
  }
  void do_softmax_stats(Context& c, ConstView logits, ConstView targets, int64_t first_class, int64_t classes, View max,
                        View sum, View target) override {
    later(c, [=, this](Context& own) {
      host_->softmax_stats(own, in(logits), in(targets), first_class, classes, in(max), in(sum), in(target));
    });
  }
  void do_softmax_combine(Context& c, ConstView parts, View max, View sum, View target) override {
    later(c, [=, this](Context& own) { host_->softmax_combine(own, in(parts), in(max), in(sum), in(target)); });
  }
  void do_smooth_target(Context& c, ConstView logits, int64_t classes, double smoothing, View target) override {
    later(c, [=, this](Context& own) { host_->smooth_target(own, in(logits), classes, smoothing, in(target)); });
  }
  void do_cross_entropy(Context& c, ConstView max, ConstView sum, ConstView target, ConstView targets,
                        View total) override {
    later(c,
          [=, this](Context& own) { host_->cross_entropy(own, in(max), in(sum), in(target), in(targets), in(total)); });
  }
  void do_cross_entropy_backward(Context& c, View logits, ConstView targets, int64_t first_class, int64_t classes,
                                 ConstView max, ConstView sum, float scale, double smoothing, float cap) override {
    later(c, [=, this](Context& own) {
      host_->cross_entropy_backward(own, in(logits), in(targets), first_class, classes, in(max), in(sum), scale,
                                    smoothing, cap);
    });
  }
  void do_soft_cap(Context& c, View x, float cap) override {
    later(c, [=, this](Context& own) { host_->soft_cap(own, in(x), cap); });
  }
  void do_squared_error(Context& c, ConstView z, ConstView targets, View total) override {
    later(c, [=, this](Context& own) { host_->squared_error(own, in(z), in(targets), in(total)); });
  }
  void do_squared_error_backward(Context& c, View z, ConstView targets, float scale) override {
    later(c, [=, this](Context& own) { host_->squared_error_backward(own, in(z), in(targets), scale); });
  }
  void do_sum_parts(Context& c, ConstView parts, View y) override {
    later(c, [=, this](Context& own) { host_->sum_parts(own, in(parts), in(y)); });
  }
  void do_add(Context& c, ConstView x, View y) override {
    later(c, [=, this](Context& own) { host_->add(own, in(x), in(y)); });
  }
  void do_cast(Context& c, ConstView x, View y) override {
    later(c, [=, this](Context& own) { host_->cast(own, in(x), in(y)); });
  }
  void do_zero(Context& c, View x) override {
    later(c, [=, this](Context& own) { host_->zero(own, in(x)); });
  }
  void do_place_rows(Context& c, ConstView x, const RowPattern& pattern, int64_t column, float factor,
                     View y) override {
    later(c, [=, this](Context& own) { host_->place_rows(own, in(x), pattern, column, factor, in(y)); });
  }
  void do_take_rows(Context& c, ConstView x, const RowPattern& pattern, int64_t column, float factor, View y,
                    Write write) override {
    later(c, [=, this](Context& own) { host_->take_rows(own, in(x), pattern, column, factor, in(y), write); });
  }
  void do_low_rank_squares(Context& c, ConstView w, ConstView b, ConstView a, View squares) override {
    later(c, [=, this](Context& own) { host_->low_rank_squares(own, in(w), in(b), in(a), in(squares)); });
  }
  void do_magnitude_factors(Context& c, ConstView magnitudes, ConstView squares, View factors, View inverses) override {
    later(c, [=, this](Context& own) {
      host_->magnitude_factors(own, in(magnitudes), in(squares), in(factors), in(inverses));
    });
  }
  void do_scale_columns(Context& c, ConstView x, ConstView factors, ConstView bias, View y) override {
    later(c, [=, this](Context& own) { host_->scale_columns(own, in(x), in(factors), in(bias), in(y)); });
  }
  void do_scale_columns_backward(Context& c, ConstView dy, ConstView x, ConstView factors, View dx,
                                 View products) override {
    later(c, [=, this](Context& own) {
      host_->scale_columns_backward(own, in(dy), in(x), in(factors), in(dx), in(products));
    });
  }
  void do_squared_norms(Context& c, ConstView x, View values) override {
    later(c, [=, this](Context& own) {
      host_->squared_norms(own, in(x), in(values));
      apart_faults.spoil("squared_norms", in(values));
    });
  }
  void do_element_sums(Context& c, ConstView x, ConstView low, const ElementPlaces& places, View sums) override {
    later(c, [=, this](Context& own) { host_->element_sums(own, in(x), in(low), places, in(sums)); });
  }
  void do_adamw(Context& c, const AdamW& options, ConstView grad, View m, View v, View weights,
                View remainder) override {
    later(c, [=, this](Context& own) {
      host_->adamw(own, options, in(grad), in(m), in(v), in(weights), in(remainder));
      apart_faults.spoil("adamw", in(m));
    });
  }
  void do_wire_cast(Context& c, ConstView x, View y) override {
    later(c, [=, this](Context& own) { host_->wire_cast(own, in(x), in(y)); });
  }
  void do_sum_contributions(Context& c, std::span<const ConstView> parts, View mine, View sum) override {
    later(c, [=, this, all = std::vector<ConstView>(parts.begin(), parts.end())](Context& own) {
      std::vector<ConstView> inside;
      for (const ConstView& part : all) inside.push_back(part.empty() ? ConstView() : ConstView(in(part)));
      host_->sum_contributions(own, inside, in(mine), in(sum));
    });
  }
  void do_mark_rows(Context& c, ConstView x, View map) override {
    later(c, [=, this](Context& own) { host_->mark_rows(own, in(x), in(map)); });
  }
  void do_pack_rows(Context& c, View x, ConstView map) override {
    later(c, [=, this](Context& own) { host_->pack_rows(own, in(x), in(map)); });
  }
  void do_unpack_rows(Context& c, View x, ConstView map) override {
    later(c, [=, this](Context& own) { host_->unpack_rows(own, in(x), in(map)); });
  }

  ApartDevice& device_;
  std::unique_ptr<Ops> host_;
  bool has_f16_;
};

}  // namespace trireme
