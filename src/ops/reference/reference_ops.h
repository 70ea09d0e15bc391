#pragma once
// The definition of correct: every operator as plain f64 loops, one short function each. Slow; tests and finite
// differences use it. linear.cc, attention.cc, norm.cc, elementwise.cc, embedding.cc, loss.cc, parameters.cc.

#include "ops/ops.h"

namespace trireme {

class ReferenceOps : public Ops {
 public:
  std::string_view name() const override { return "reference"; }
  size_t scratch_bytes(const CallSizes& sizes) const override;
  bool has_delta_rule() const override { return true; }

 private:
  bool takes(DType activation) const override { return activation == DType::f64; }
  void do_linear(Context&, ConstView x, ConstView w, ConstView bias, View y) override;
  void do_linear_activation(Context&, ConstView x, ConstView w, ConstView bias, Activation, View pre, View y) override;
  void do_linear_backward_input(Context&, ConstView dy, ConstView w, View dx) override;
  void do_linear_backward_weight(Context&, ConstView dy, ConstView x, View dw, Write) override;
  void do_bias_backward(Context&, ConstView dy, View db, Write) override;
  void do_layer_norm(Context&, ConstView x, ConstView w, ConstView b, float eps, View y, View mean, View rstd) override;
  void do_layer_norm_backward(Context&, ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd, View dx,
                              View dw, View db, Write) override;
  void do_rms_norm(Context&, ConstView x, ConstView w, float offset, float eps, View y, View rstd) override;
  void do_rms_norm_backward(Context&, ConstView dy, ConstView x, ConstView w, float offset, ConstView rstd, View dx,
                            View dw, Write) override;
  void do_query_key_squares(Context&, ConstView qkv, const QueryKeyNorm&, View squares) override;
  void do_query_key_norm(Context&, ConstView qkv, const QueryKeyNorm&, ConstView squares, View y) override;
  void do_query_key_products(Context&, ConstView dqkv, ConstView qkv, const QueryKeyNorm&, View products) override;
  void do_query_key_norm_backward(Context&, View dqkv, ConstView qkv, const QueryKeyNorm&, ConstView squares,
                                  ConstView products, View dq, View dk, Write) override;
  void do_activation(Context&, ConstView x, Activation, View y) override;
  void do_activation_backward(Context&, ConstView dy, ConstView x, Activation, View dx) override;
  void do_gated_activation(Context&, ConstView x, Activation, View y) override;
  void do_gated_activation_backward(Context&, ConstView dy, ConstView x, Activation, View dx) override;
  void do_dropout_add(Context&, ConstView x, ConstView residual, const Dropout&, View y, float factor) override;
  void do_dropout_backward(Context&, ConstView dy, const Dropout&, View dx, float factor) override;
  void do_embedding(Context&, ConstView tokens, ConstView positions, ConstView tokens_table, ConstView positions_table,
                    View y) override;
  void do_embedding_part(Context&, ConstView tokens, ConstView table, TableRows part, View y) override;
  void do_embedding_backward(Context&, ConstView ids, ConstView dy, View dtable, Write, TableRows part) override;
  void do_embedding_add(Context&, ConstView ids, ConstView table, View y) override;
  void do_scatter_rows(Context&, ConstView y, ConstView rows, View x) override;
  void do_rotary_table(Context&, std::span<const float> frequencies, double factor, View table) override;
  void do_rotary(Context&, View qkv, ConstView positions, ConstView table, bool inverse) override;
  void do_attention(Context&, ConstView qkv, const AttentionShape&, const Dropout&, View out, View lse) override;
  void do_attention_backward(Context&, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                             const AttentionShape&, const Dropout&, View dqkv) override;
  void do_attention_cached(Context&, ConstView qkv, const AttentionShape&, ConstView past, View cache,
                           View out) override;
  void do_split_gates(Context&, ConstView x, View qkv, View gates) override;
  void do_join_gates(Context&, ConstView qkv, ConstView gates, View x) override;
  void do_sigmoid_gate(Context&, ConstView x, ConstView gates, View y) override;
  void do_sigmoid_gate_backward(Context&, ConstView dy, ConstView x, ConstView gates, View dx, View dgates) override;
  void do_short_convolution(Context&, ConstView x, ConstView w, ConstView offsets, bool silu, View y) override;
  void do_short_convolution_backward(Context&, ConstView dy, ConstView x, ConstView w, ConstView offsets, bool silu,
                                     View dx, View dw, Write) override;
  void do_short_convolution_cached(Context&, ConstView x, ConstView w, ConstView offsets, bool silu, ConstView past,
                                   View window, View y) override;
  void do_delta_rule(Context&, ConstView mixed, ConstView projected, ConstView decay_log, ConstView decay_bias,
                     const DeltaShape&, View out, View states) override;
  void do_delta_rule_backward(Context&, ConstView dout, ConstView mixed, ConstView projected, ConstView decay_log,
                              ConstView decay_bias, const DeltaShape&, ConstView states, View dmixed, View dprojected,
                              View ddecay_log, View ddecay_bias, Write) override;
  void do_delta_rule_cached(Context&, ConstView mixed, ConstView projected, ConstView decay_log, ConstView decay_bias,
                            const DeltaShape&, ConstView past, View state, View out) override;
  void do_gated_norm(Context&, ConstView x, ConstView gates, int64_t column, ConstView w, float eps, View y) override;
  void do_gated_norm_backward(Context&, ConstView dy, ConstView x, ConstView gates, int64_t column, ConstView w,
                              float eps, View dx, View dgates, View dw, Write) override;
  void do_softmax_stats(Context&, ConstView logits, ConstView targets, int64_t first_class, int64_t classes, View max,
                        View sum, View target) override;
  void do_softmax_combine(Context&, ConstView parts, View max, View sum, View target) override;
  void do_smooth_target(Context&, ConstView logits, int64_t classes, double smoothing, View target) override;
  void do_cross_entropy(Context&, ConstView max, ConstView sum, ConstView target, ConstView targets,
                        View total) override;
  void do_cross_entropy_backward(Context&, View logits, ConstView targets, int64_t first_class, int64_t classes,
                                 ConstView max, ConstView sum, float scale, double smoothing, float cap) override;
  void do_soft_cap(Context&, View x, float cap) override;
  void do_squared_error(Context&, ConstView z, ConstView targets, View total) override;
  void do_squared_error_backward(Context&, View z, ConstView targets, float scale) override;
  void do_sum_parts(Context&, ConstView parts, View y) override;
  void do_add(Context&, ConstView x, View y) override;
  void do_cast(Context&, ConstView x, View y) override;
  void do_zero(Context&, View x) override;
  void do_place_rows(Context&, ConstView x, const RowPattern&, int64_t column, float factor, View y) override;
  void do_take_rows(Context&, ConstView x, const RowPattern&, int64_t column, float factor, View y, Write) override;
  void do_low_rank_squares(Context&, ConstView w, ConstView b, ConstView a, View squares) override;
  void do_magnitude_factors(Context&, ConstView magnitudes, ConstView squares, View factors, View inverses) override;
  void do_scale_columns(Context&, ConstView x, ConstView factors, ConstView bias, View y) override;
  void do_scale_columns_backward(Context&, ConstView dy, ConstView x, ConstView factors, View dx,
                                 View products) override;
  void do_squared_norms(Context&, ConstView x, View values) override;
  void do_element_sums(Context&, ConstView x, ConstView low, const ElementPlaces&, View sums) override;
  void do_adamw(Context&, const AdamW&, ConstView grad, View m, View v, View weights, View remainder) override;
  void do_wire_cast(Context&, ConstView x, View y) override;
  void do_sum_contributions(Context&, std::span<const ConstView> parts, View own, View sum) override;
  void do_mark_rows(Context&, ConstView x, View map) override;
  void do_pack_rows(Context&, View x, ConstView map) override;
  void do_unpack_rows(Context&, View x, ConstView map) override;
};

}  // namespace trireme
