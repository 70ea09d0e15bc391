#pragma once
// The fast operators of one CPU: GEMM through oneDNN, everything else own vector kernels. Each call picks the code of
// the instruction set that cpu_isa() names. linear.cc, attention.cc, delta_forward.cc, norm.cc, activation.cc,
// dropout.cc, embedding.cc, loss.cc, parameters.cc.

#include <memory>

#include "ops/cpu/team.h"
#include "ops/ops.h"

namespace trireme {

class Gemm;

class CpuOps final : public Ops {
 public:
  CpuOps();
  ~CpuOps() override;
  std::string_view name() const override { return "cpu"; }
  size_t scratch_bytes(const CallSizes& sizes) const override;
  bool has_delta_rule() const override { return true; }

 private:
  bool takes(DType activation) const override { return activation == DType::f32 || activation == DType::bf16; }
  void do_linear(Context&, ConstView x, ConstView w, ConstView bias, View y) override;
  void do_linear_softmax_stats(Context&, ConstView x, ConstView w, ConstView bias, ConstView targets,
                               int64_t first_class, int64_t classes, View logits, View max, View sum,
                               View target) override;
  void do_linear_low_rank(Context&, ConstView x, ConstView w, ConstView bias, ConstView inner, ConstView b,
                          View y) override;
  void do_linear_low_rank_backward_input(Context&, ConstView dy, ConstView w, ConstView inner, ConstView a,
                                         View dx) override;
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

  View widen(Context&, ConstView bf16);
  /// Of a matrix whose rows are `stride` elements apart.
  View widen_rows(Context&, ConstView bf16, int64_t stride);
  /// The operand used for v: v, or v widened.
  ConstView operand(Context&, ConstView v);
  void convert_rows(Context&, ConstView from, int64_t from_stride, View to, int64_t to_stride);
  template <class Then>
  void linear_blocks(Context&, ConstView x, ConstView w, ConstView bias, View y, Then&& then);
  /// do_softmax_stats() column by column: the first ones begin, others update the statistics.
  void add_softmax_stats(Context&, ConstView logits, ConstView targets, int64_t first_class, Range columns, View max,
                         View sum, View target);

  std::unique_ptr<Gemm> gemm_;  ///< primitives that were already built, by shape
};

/// Scratch that norms, activations, dropout, embeddings, losses and the operators on flat parameter arrays can ask for;
/// arguments as in Ops::scratch_bytes().
size_t small_ops_scratch_bytes(int64_t rows, int64_t width, int threads);

}  // namespace trireme
