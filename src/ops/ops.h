#pragma once
// The operator interface: every piece of maths that a model needs, on one device. Public functions check shapes and
// types once (check.cc) and call a private virtual of the backend: reference/ (f64 loops, the definition of correct),
// cpu/ (fast), cuda/.
//
// Conventions
// clang-format off
//   rows       tokens of a batch, packed: sequences follow each other without padding; `offsets` [sequences + 1] i32
//              says where each begins.
//   A          activation type of the call: f32 or bf16 (cpu), f32, bf16 or f16 (cuda), f64 (reference). Weights and biases have the same type.
//   S          type of statistics and gradients of weights: f32 (cpu), f64 (reference).
//   "=", "+="  a function overwrites its outputs unless its text says +=; Write::add turns = into "computed apart, then
//              added once".
// clang-format on
// Tensors are on the device of the operators (device()), and a call may return before it has run (Context::stream):
// what it computes is read by copies of the stream. Values are not checked, except ids, offsets and positions, once,
// when a batch is made (ops/check.h). Outputs do not alias inputs unless stated. Results are bit-identical from run to
// run for a fixed thread count. Every function throws Error::shape naming the function, what it got and what it
// expected.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tensor/activation.h"
#include "tensor/arena.h"
#include "tensor/view.h"

namespace trireme {

class OpRecorder;
struct ElementPlaces;

/// What an operator call runs on: the thread team, the scratch memory of the caller's plan, the stream of the device.
struct Context {
  int threads = 1;
  Arena* scratch = nullptr;  ///< a stack: an operator returns it as it found it. Size: Ops::scratch_bytes().
  DeviceStream* stream = &host_device().stream();  ///< of Ops::device(): calls run in the order of their issue
};

/// Elements whose squares are summed apart: one value of a gradient's norm.
constexpr int64_t kNormChunk = 65536;

/// How a weight gradient reaches its accumulator.
enum class Write : uint8_t {
  overwrite,  ///< out = value: first micro-batch
  add,  ///< out += value, with value computed completely in scratch first, so the sum does not depend on blocking:
        ///< later micro-batches
  accumulate,  ///< out += value in place: further parts of one micro-batch's sum, in a fixed order
};

/// Which random numbers a dropout uses. Element (row, channel) of a layer keeps iff philox(key(seed, step, layer,
/// site), {channel / 4, position, sample low, sample high}) word (channel mod 4) >= round(rate * 2^32); kept values are
/// scaled by 1 / (1 - rate). Attention uses {key position / 4, query position, sample low, (sample high & 0xFFFF) |
/// head << 16}, head counted over the whole model. Masks depend on the global sample and head only, never on the
/// layout, and are replayed in backward.
struct Dropout {
  float rate = 0;      ///< 0 <= rate < 1; 0: off, nothing else is read
  uint64_t key = 0;    ///< dropout_key()
  ConstView sample;    ///< [rows] i64, global sample index of each row
  ConstView position;  ///< [rows] i32, position in its sequence
};
/// `site` distinguishes the dropouts of a layer (embedding, attention, residual 1, residual 2).
uint64_t dropout_key(uint64_t seed, uint64_t step, uint32_t layer, uint32_t site);

/// Query heads in groups of equal size; those of a group share its keys and values. Source: Ainslie et al. 2023.
struct AttentionShape {
  int kv_heads = 0;  ///< groups
  int group = 1;     ///< query heads of each
  int head_dim = 0;
  bool causal = true;
  float scale = 0;     ///< multiplies q . k, above 0, usually head_dim^-1/2
  ConstView offsets;   ///< [sequences + 1] i32, rows of each sequence
  int first_head = 0;  ///< where heads are split over ranks: the model's number of the first query head, for dropout
  int64_t window = 0;  ///< causal: a query sees the `window` last keys, its own among them; 0: all before it
  float soft_cap = 0;  ///< above 0: scores s after scaling become soft_cap tanh(s / soft_cap); 0: they stay
  int64_t equal_length = 0;  ///< the rows of every sequence; 0: they differ, or the host does not know
  int heads() const { return kv_heads * group; }  ///< query heads
};

/// Normalisation of queries and keys by the root of their mean square. Each head by itself: gains [head_dim], shared by
/// the heads; or the whole projection: gains [heads x head_dim] and [kv_heads x head_dim], the statistics over all of a
/// row's queries and over all of its keys.
struct QueryKeyNorm {
  ConstView q = {}, k = {};  ///< A
  bool whole = false;        ///< of the projection
  int64_t q_count = 0;       ///< values of a mean: head_dim; whole: those of all tensor ranks
  int64_t k_count = 0;
  float offset = 0;  ///< 0 or 1: a gain is offset + q, offset + k
  float epsilon = 1e-6f;
};

/// A norm of rows: layer_norm()'s arguments, or rms_norm()'s where it is not centered.
struct RowNorm {
  ConstView w = {}, b = {};  ///< [width] A; b: or empty, always of rms_norm()
  bool centered = true;
  float offset = 0;  ///< of rms_norm(): 0 or 1
  float epsilon = 1e-5f;
};

/// Heads with a state instead of keys and values (gated DeltaNet). A query and a key serve a group of value heads, each
/// of which has a state [key_size, value_size]. `projected` has of each group its query, its key and its values (the
/// `mixed` ones), then of each of its value heads the output gate [value_size], then the beta and then the decay of
/// each.
struct DeltaShape {
  int key_heads = 0;  ///< groups
  int group = 1;      ///< value heads of each
  int key_size = 0, value_size = 0;
  ConstView offsets;  ///< [sequences + 1] i32, rows of each sequence, at whose first one the state is 0
  int heads() const { return key_heads * group; }  ///< value heads
  int64_t mixed_width() const { return 2 * key_size + int64_t{group} * value_size; }
  int64_t width() const { return mixed_width() + int64_t{group} * (value_size + 2); }
};
/// Rows of a sequence between two kept states.
constexpr int64_t kDeltaChunk = 64;
/// That many for so many rows, at most and at least 1.
constexpr int64_t delta_states(int64_t rows) { return rows < kDeltaChunk ? 1 : rows / kDeltaChunk; }
constexpr int64_t kMostTaps = 8;  ///< of a short convolution

struct AdamW {
  float learning_rate = 0, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weight_decay = 0;
  float correction1 = 1;     ///< 1 - beta1^t
  float correction2 = 1;     ///< 1 - beta2^t
  float gradient_scale = 1;  ///< multiplies every gradient first: clip factor
};

/// A call's table is the rows [first, first + own rows) of a larger table. of: the rows of the larger table; 0: the
/// call's table is complete.
struct TableRows {
  int64_t first = 0, of = 0;
};

/// Some rows of a larger matrix: of each `stride` rows the `count` rows from `first` on.
struct RowPattern {
  int64_t first = 0, count = 1, stride = 1;
  /// Of the rows of the larger matrix.
  int64_t share(int64_t rows) const { return rows / stride * count; }
  int64_t place(int64_t row) const { return row / count * stride + first + row % count; }
};

/// The largest operator calls of a plan, for its scratch memory.
struct CallSizes {
  DType dtype = DType::f32;  ///< A
  int64_t rows = 0;
  int64_t width = 0;           ///< most inputs or outputs of a linear
  int64_t inputs = 0;          ///< most inputs of one; 0: width
  int64_t weight_count = 0;    ///< elements of the largest [out, in] matrix
  int64_t rank = 0;            ///< most columns of `inner` of linear_low_rank() and its backward
  int64_t added_count = 0;     ///< elements of the largest gradient that is written with Write::add
  AttentionShape attention{};  ///< offsets are not read
  DeltaShape delta{};          ///< no key heads: none are called; offsets are not read
  int64_t taps = 0;            ///< of short_convolution()
  int threads = 1;
};

/// The rows of a decoder's head whose logits exist at a time: `rows`, fewer where `bytes` do not hold their logits.
struct HeadBlock {
  int64_t rows = 640;  ///< products of a CPU are at full speed from a few hundred rows on
  int64_t bytes = 256 << 20;
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual std::string_view name() const = 0;  ///< "cpu", "reference"
  virtual Device& device() const { return host_device(); }
  /// Scratch that any call within these sizes can ask for.
  virtual size_t scratch_bytes(const CallSizes& sizes) const = 0;
  /// Every block reads and adds to the head's f32 gradient once: what runs faster takes larger ones.
  virtual HeadBlock head_block() const { return {}; }
  /// Reports every call from now on to `recorder` (ops/profile.h), which outlives this object; nullptr: off.
  void report_to(OpRecorder* recorder) { recorder_ = recorder; }

  // ---- linear ----
  /// y = x w^T + bias.  x: [rows, in] A; w: [out, in] A; bias: [out] A or empty; y: [rows, out] A.
  void linear(Context&, ConstView x, ConstView w, ConstView bias, View y);
  /// pre = x w^T + bias; y = f(pre).  Fusion of linear and activation; pre is kept for activation_backward. pre, y:
  /// [rows, out] A. A backend may take f of the sum before it is rounded to pre.
  void linear_activation(Context&, ConstView x, ConstView w, ConstView bias, Activation f, View pre, View y);
  /// logits = x w^T + bias and softmax_stats() of them, without reading them again where a backend can.  Arguments as
  /// there and in linear().
  void linear_softmax_stats(Context&, ConstView x, ConstView w, ConstView bias, ConstView targets, int64_t first_class,
                            int64_t classes, View logits, View max, View sum, View target);
  /// dx = dy w.  dy: [rows, out] A; w: [out, in] A; dx: [rows, in] A.
  void linear_backward_input(Context&, ConstView dy, ConstView w, View dx);
  /// dw =/+= dy^T x.  dy: [rows, out] A; x: [rows, in] A; dw: [out, in] S.
  void linear_backward_weight(Context&, ConstView dy, ConstView x, View dw, Write);
  /// y = x w^T + bias + inner b^T: a linear with the outputs of a low-rank one, in one pass where a backend can.
  /// Arguments as in linear(); inner: [rows, rank] A; b: [out, rank] A.
  void linear_low_rank(Context&, ConstView x, ConstView w, ConstView bias, ConstView inner, ConstView b, View y);
  /// dx = dy w + inner a.  Arguments as in linear_backward_input(); inner: [rows, rank] A; a: [rank, in] A.
  void linear_low_rank_backward_input(Context&, ConstView dy, ConstView w, ConstView inner, ConstView a, View dx);
  /// db =/+= sum_rows(dy).  dy: [rows, out] A; db: [out] S.
  void bias_backward(Context&, ConstView dy, View db, Write);

  // ---- norm ----
  /// y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(var + eps), var biased.  x, y: [rows, width] A; w: [width] A; b:
  /// [width] A or empty; mean, rstd: [rows] S, saved for backward. Source: Ba et al. 2016.
  void layer_norm(Context&, ConstView x, ConstView w, ConstView b, float eps, View y, View mean, View rstd);
  /// dx += rstd * (dy*w - mean_c(dy*w) - xhat * mean_c(dy*w*xhat)); dw =/+= sum_rows(dy * xhat); db =/+= sum_rows(dy).
  /// dx is added to: it holds the gradient that flows around the norm (zero it if there is no such gradient). dw or db
  /// empty: not wanted, because the parameter is frozen or, for db, absent.
  void layer_norm_backward(Context&, ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd, View dx,
                           View dw, View db, Write);

  /// y = x * rstd * (offset + w), rstd = 1 / sqrt(mean(x^2) + eps).  x, y: [rows, width] A; w: [width] A; rstd: [rows]
  /// S, saved for backward; offset: 0 or 1. Source: Zhang & Sennrich 2019.
  void rms_norm(Context&, ConstView x, ConstView w, float offset, float eps, View y, View rstd);
  /// dx += rstd * (g - xhat * mean_c(g * xhat)), xhat = x * rstd, g = dy * (offset + w); dw =/+= sum_rows(dy * xhat).
  /// dx is added to, and dw may be empty, as in layer_norm_backward().
  void rms_norm_backward(Context&, ConstView dy, ConstView x, ConstView w, float offset, ConstView rstd, View dx,
                         View dw, Write);

  // Of queries and keys. qkv: [rows, kv_heads, group + 2, head_dim] A, as in attention(). squares, products: one value
  // per query head and key head, [rows, kv_heads x (group + 1)] S in their order in qkv; whole: [rows, 2] S, of all
  // queries and of all keys, which tensor ranks sum before they are used.
  /// squares = the sums of squares of queries and keys.
  void query_key_squares(Context&, ConstView qkv, const QueryKeyNorm&, View squares);
  /// y = qkv with each query and key times (offset + its gain) / sqrt(squares / count + eps); v is copied.  y: as qkv,
  /// not qkv itself.
  void query_key_norm(Context&, ConstView qkv, const QueryKeyNorm&, ConstView squares, View y);
  /// products = the sums of dqkv * (offset + gain) * qkv over the values of each of squares.
  void query_key_products(Context&, ConstView dqkv, ConstView qkv, const QueryKeyNorm&, View products);
  /// dqkv = gradient of query_key_norm()'s qkv, in place, from that of its y; dq, dk =/+= gradients of the gains.  dq,
  /// dk: as the gains, S; empty: not wanted.
  void query_key_norm_backward(Context&, View dqkv, ConstView qkv, const QueryKeyNorm&, ConstView squares,
                               ConstView products, View dq, View dk, Write);

  // ---- elementwise ----
  /// y = f(x).  gelu_tanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); gelu_erf: 0.5 x (1 + erf(x / sqrt 2));
  /// relu; tanh; silu: x / (1 + e^-x); relu2: relu(x)^2. y may be x.
  void activation(Context&, ConstView x, Activation f, View y);
  /// dx = dy f'(x).  x: what activation() got. dx may be dy.
  void activation_backward(Context&, ConstView dy, ConstView x, Activation f, View dx);
  /// y = f(gate) * up.  x: [rows, 2 width] A, each gate beside its up; y: [rows, width] A. Source: Shazeer 2020.
  void gated_activation(Context&, ConstView x, Activation f, View y);
  /// dx = (dy up f'(gate), dy f(gate)), as in x.  dy: [rows, width] A; dx: [rows, 2 width] A.
  void gated_activation_backward(Context&, ConstView dy, ConstView x, Activation f, View dx);
  /// y = residual + factor * dropout(x).  All [rows, width] A. y may be residual or x. residual empty: y = factor *
  /// dropout(x).
  void dropout_add(Context&, ConstView x, ConstView residual, const Dropout&, View y, float factor = 1);
  /// dx = factor * dy * mask / (1 - rate).  dx may be dy; with rate 0 and factor 1 a copy (nothing when dx is dy).
  void dropout_backward(Context&, ConstView dy, const Dropout&, View dx, float factor = 1);

  // Fusions: the bits of the operators that they name, in fewer passes over memory where a backend can.
  /// sum = residual + factor * dropout(x); y = norm(sum): dropout_add(), then layer_norm() or rms_norm().  x, residual,
  /// sum, y: [rows, width] A; sum and y may each be x or residual. mean, rstd: [rows] S; mean empty unless the norm is
  /// centered.
  void dropout_add_norm(Context&, ConstView x, ConstView residual, const Dropout&, float factor, View sum,
                        const RowNorm&, View y, View mean, View rstd);
  /// dx = dy f'(x); db =/+= sum_rows(dx): activation_backward(), then bias_backward().  dy, x, dx: [rows, width] A; db:
  /// [width] S. dx may be dy.
  void activation_bias_backward(Context&, ConstView dy, ConstView x, Activation f, View dx, View db, Write);

  // ---- embedding ----
  /// y = tokens_table[token] + positions_table[position].  tokens, positions: [rows] i32; tables: [n, width] A; y:
  /// [rows, width] A. positions and their table empty: y = tokens_table[token].
  void embedding(Context&, ConstView tokens, ConstView positions, ConstView tokens_table, ConstView positions_table,
                 View y);
  /// y = table[token - part.first], 0 where `part` of the whole table does not have the token's row.  As embedding().
  void embedding_part(Context&, ConstView tokens, ConstView table, TableRows part, View y);
  /// dtable[i] =/+= sum over rows with ids[row] == i of dy[row].  ids: [rows] i32; dy: [rows, width] A; dtable: [n,
  /// width] S. Each id's sum is made in row order before it is written or added, so the bits depend neither on the
  /// thread count nor on the previous dtable. Write::overwrite zeroes the rows that no id names; Write::add leaves
  /// them. Where dtable is `part` of the whole table, ids of other rows are skipped. On the host, where fewer ids than
  /// one row in kSparseTable overwrite a tensor of Arena::set_sparse(), rows that none names take no memory.
  void embedding_backward(Context&, ConstView ids, ConstView dy, View dtable, Write, TableRows part = {});
  static constexpr int64_t kSparseTable = 4;  ///< below that fresh zero pages cost less than writing zeros
  /// y += table[id].  ids: [rows] i32; table: [n, width] A; y: [rows, width] A.
  void embedding_add(Context&, ConstView ids, ConstView table, View y);
  /// x = 0, then x[rows[i]] = y[i]: the backward of embedding() where a table of activations is gathered.  y: [n,
  /// width] A; rows: [n] i32, none twice; x: [m, width] A.
  void scatter_rows(Context&, ConstView y, ConstView rows, View x);

  // ---- rotary positions ----
  /// table[p] = factor x (cos(p f_0) ... cos(p f_h), sin(p f_0) ... sin(p f_h)).  frequencies: f_0 ... f_h, radians per
  /// position (model/rotary.h), on the host; table: [positions, 2 (h + 1)] S. Source: Su et al. 2021.
  void rotary_table(Context&, std::span<const float> frequencies, double factor, View table);
  /// Turns q and k in place: (x_i, x_{i + dims / 2}) by the angle of position and i < dims / 2, times the table's
  /// factor; values from dims on and v stay.  qkv: [rows, kv_heads, group + 2, head_dim] A, as in attention();
  /// positions: [rows] i32; table: [n, dims] S of rotary_table(), dims <= head_dim.
  void rotary(Context&, View qkv, ConstView positions, ConstView table);
  /// dqkv of rotary(), in place: turns back, times the table's factor.
  void rotary_backward(Context&, View dqkv, ConstView positions, ConstView table);

  // ---- attention ----
  /// out = dropout(softmax(cap(scale q k^T) + mask)) v per query head and sequence; the T x T matrix is never stored.
  /// qkv: [rows, kv_heads, group + 2, head_dim] A (of each group its query heads, then k, then v: query head h reads k
  /// and v of group h / group); out: [rows, heads, head_dim] A; lse: [heads, rows] S, log-sum-exp of each query's
  /// scores, saved for backward. The time of a window grows with it, not with the sequence. Source: Dao et al. 2022,
  /// 2023.
  void attention(Context&, ConstView qkv, const AttentionShape&, const Dropout&, View out, View lse);
  /// dqkv = gradient of attention() by recomputation from lse.  out, dout: [rows, heads, head_dim] A; dqkv: as qkv. dk
  /// and dv are sums over the group's query heads, in their order.
  void attention_backward(Context&, ConstView dout, ConstView qkv, ConstView out, ConstView lse, const AttentionShape&,
                          const Dropout&, View dqkv);
  /// Generation: appends k and v of the new rows to the cache, then attends from the new rows to everything cached
  /// (causal, no dropout). qkv, out: as attention(), shape.offsets cuts rows into sequences; cache: [sequences, 2 *
  /// kv_heads, capacity, head_dim] A (2h: keys of group h, 2h + 1: values); past: [sequences] i32, positions already
  /// passed. Position p is at p mod capacity, which is at least the window, or without one holds all positions.
  void attention_cached(Context&, ConstView qkv, const AttentionShape&, ConstView past, View cache, View out);

  // ---- gates of attention, heads with a state ----
  /// Whether the backend has the operators of this section: a model that needs them does not start without.
  virtual bool has_delta_rule() const { return false; }
  /// qkv, gates = the vectors of x, apart.  x: [rows, kv_heads, 2 group + 2, head_dim] A, of each group its query
  /// heads, each before its gate, then k, then v; qkv: as in attention(); gates: [rows, heads, head_dim] A.
  void split_gates(Context&, ConstView x, View qkv, View gates);
  /// The inverse.
  void join_gates(Context&, ConstView qkv, ConstView gates, View x);
  /// y = x sigmoid(gates).  All of one shape, A. y may be x.
  void sigmoid_gate(Context&, ConstView x, ConstView gates, View y);
  /// dx = dy sigmoid(gates); dgates = dy x sigmoid'(gates).  dx may be dy.
  void sigmoid_gate_backward(Context&, ConstView dy, ConstView x, ConstView gates, View dx, View dgates);
  /// y_t = f(sum_k w_k x_{t - taps + 1 + k}), each channel by itself, rows before a sequence being 0; f: silu or the
  /// value itself.  x: [rows, groups, more] A, of which the first channels of each group are read, as many as y has; w:
  /// [groups x channels, 1, taps] A; y: [rows, groups, channels] A.
  void short_convolution(Context&, ConstView x, ConstView w, ConstView offsets, bool silu, View y);
  /// dx, in the channels that are read of x (others stay); dw =/+= the gradient of w.  dx: as x; dw: as w, S, or empty.
  void short_convolution_backward(Context&, ConstView dy, ConstView x, ConstView w, ConstView offsets, bool silu,
                                  View dx, View dw, Write);
  /// Generation: the rows of each sequence follow the ones in `window`, which becomes the last ones.  past: [sequences]
  /// i32, rows already passed; window: [sequences, taps - 1, groups x channels] A, not read where past is 0.
  void short_convolution_cached(Context&, ConstView x, ConstView w, ConstView offsets, bool silu, ConstView past,
                                View window, View y);
  /// Per value head, S being its state, with q = l2(q) key_size^-1/2, k = l2(k), l2(x) = x / sqrt(|x|^2 + 1e-6), beta =
  /// sigmoid(beta) and g = -e^decay_log softplus(decay + decay_bias):  S = e^g S; S += k (beta (v - S^T k))^T; out =
  /// S^T q.  mixed: [rows, key_heads, mixed_width()] A; projected: [rows, key_heads, width()] A, of which the betas and
  /// decays are read; decay_log, decay_bias: [heads] A; out: [rows, heads, value_size] A; states:
  /// [delta_states(rows), heads, key_size, value_size] S, for backward, or empty: those before the second, third, ...
  /// chunk of kDeltaChunk rows of each sequence in turn. Source: Yang, Kautz and Hatamizadeh 2025.
  void delta_rule(Context&, ConstView mixed, ConstView projected, ConstView decay_log, ConstView decay_bias,
                  const DeltaShape&, View out, View states);
  /// dmixed; the betas and decays of dprojected (the rest stays); ddecay_log, ddecay_bias =/+= ([heads] S, or empty).
  void delta_rule_backward(Context&, ConstView dout, ConstView mixed, ConstView projected, ConstView decay_log,
                           ConstView decay_bias, const DeltaShape&, ConstView states, View dmixed, View dprojected,
                           View ddecay_log, View ddecay_bias, Write);
  /// Generation: the same from `state`, which becomes that after the last row.  past: [sequences] i32; state:
  /// [sequences, heads, key_size, value_size] S, not read where past is 0.
  void delta_rule_cached(Context&, ConstView mixed, ConstView projected, ConstView decay_log, ConstView decay_bias,
                         const DeltaShape&, ConstView past, View state, View out);
  /// y = w x / sqrt(mean(x^2) + eps) silu(gate) per head.  x, y: [rows, heads, size] A; gates: [rows, groups, more] A,
  /// where the gates of a group's heads follow each other from `column` on; w: [size] A, of every head.
  void gated_norm(Context&, ConstView x, ConstView gates, int64_t column, ConstView w, float eps, View y);
  /// dx, which may be dy; dgates in their columns (others stay); dw =/+= ([size] S, or empty).
  void gated_norm_backward(Context&, ConstView dy, ConstView x, ConstView gates, int64_t column, ConstView w, float eps,
                           View dx, View dgates, View dw, Write);

  // ---- loss ----
  /// Per row over the first `classes` columns: max = max_j z_j; sum = sum_j exp(z_j - max); target = z[target -
  /// first_class], 0 if not in this slice. logits: [rows, columns] A or S, columns >= classes (padding columns never
  /// get probability); targets: [rows] i32, -1: ignored; max, sum, target: [rows] S. No classes: -infinity, 0, 0.
  void softmax_stats(Context&, ConstView logits, ConstView targets, int64_t first_class, int64_t classes, View max,
                     View sum, View target);
  /// The statistics of whole rows from those of their parts, in order: max = max_p max_p; sum = sum_p sum_p exp(max_p -
  /// max); target = sum_p target_p.  parts: [parts, 3, rows] S, of each part max, sum and target; max, sum, target:
  /// [rows] S.
  void softmax_combine(Context&, ConstView parts, View max, View sum, View target);
  /// target = (1 - smoothing) target + smoothing x mean of z over the first `classes` columns: what cross_entropy()
  /// takes where each label shares `smoothing`, at least 0 and at most 1, among all classes. logits: [rows, columns] A,
  /// whole rows; target: [rows] S of softmax_stats(). Source: Szegedy et al. 2016, section 7.
  void smooth_target(Context&, ConstView logits, int64_t classes, double smoothing, View target);
  /// total += sum over rows with target >= 0 of log(sum) + max - target value, made in f64 and row order. max, sum,
  /// target: [rows] S, after any reduction over vocabulary slices; total: [1] f64.
  void cross_entropy(Context&, ConstView max, ConstView sum, ConstView target, ConstView targets, View total);
  /// logits = scale * (exp(z - max) / sum - (1 - smoothing) [j == target] - smoothing / classes), in place; 0 in
  /// padding columns and in rows whose target is -1. smoothing: as in smooth_target(); above 0 rows must be complete.
  /// cap above 0: z came from soft_cap(), and the gradient is that of its argument: times 1 - (z / cap)^2.
  void cross_entropy_backward(Context&, View logits, ConstView targets, int64_t first_class, int64_t classes,
                              ConstView max, ConstView sum, float scale, double smoothing = 0, float cap = 0);
  /// x = cap * tanh(x / cap), in place.  x: A; cap above 0. Source: Gemma Team 2024, section 2.
  void soft_cap(Context&, View x, float cap);
  /// total += sum over rows of (z[row][0] - target[row])^2, made in f64 and row order.  z: [rows, 1] A; targets: [rows]
  /// S; total: [1] f64.
  void squared_error(Context&, ConstView z, ConstView targets, View total);
  /// z = 2 scale (z - target), in place.
  void squared_error_backward(Context&, View z, ConstView targets, float scale);

  // ---- parameters ----
  /// y = sum over p of parts[p], added in S in this order and rounded once: sums the contributions of several ranks.
  /// parts: [n, count] A or S; y: count elements of the same type. y may be one of the parts. It may run on a sending
  /// thread, concurrently with other operators, so it is not recorded.
  void sum_parts(Context&, ConstView parts, View y);
  /// y += x.  Both S.
  void add(Context&, ConstView x, View y);
  /// y = x converted (to bf16 and f16: nearest, ties to even).
  void cast(Context&, ConstView x, View y);
  /// x = 0.
  void zero(Context&, View x);
  /// The pattern's rows of y's columns [column, column + width) = factor * x; the other elements of y are kept.  x:
  /// [pattern.share(rows), width] A; y: [rows, more] A, rows a multiple of pattern.stride.
  void place_rows(Context&, ConstView x, const RowPattern& pattern, int64_t column, float factor, View y);
  /// y =/+= factor * the pattern's rows of x's columns [column, column + width).  x: [rows, more] S; y:
  /// [pattern.share(rows), width] S.
  void take_rows(Context&, ConstView x, const RowPattern& pattern, int64_t column, float factor, View y, Write);
  /// values[i] = sum of squares in f64 of chunk i, kNormChunk elements of x (the last one fewer): element j of a chunk
  /// is added to partial j mod 16, partials are added in order. No fused multiply-add: the same bits on every
  /// instruction set and thread count. x: [n] S; values: [ceil(n / kNormChunk)] f64.
  void squared_norms(Context&, ConstView x, View values);
  /// sums[i] = the sum of the terms (ops/element_sum.h) of chunk i, kNormChunk elements of x (the last one fewer), mod
  /// 2^64: the same on every device. x: [n] f32, bf16 or f16, of which n are of the places; of bf16 also with `low` [n]
  /// i16, the remainders that with x are f32 values, as for adamw(). sums: [ceil(n / kNormChunk)] i64.
  void element_sums(Context&, ConstView x, ConstView low, const ElementPlaces&, View sums);
  /// g = gradient_scale * grad; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr wd p; p -= lr (m / c1) /
  /// (sqrt(v / c2) + eps). grad, m, v: [n] S. weights: [n] f32 (f64 in reference) with remainder empty; or bf16 with
  /// remainder [n] i16, which together are the f32 master exactly (bf16 = (bits + 0x8000) >> 16, remainder = bits -
  /// (bf16 << 16)); or f16 (cuda) with remainder [n] f32, which is the master itself: weights become it, rounded. No
  /// fused multiply-add: the same bits everywhere. Source: Loshchilov & Hutter 2019, algorithm 2.
  void adamw(Context&, const AdamW&, ConstView grad, View m, View v, View weights, View remainder);

  // ---- magnitudes of outputs (DoRA) ----
  /// squares = the sum of squares of each row of w + b a.  w: [out, in] A; b: [out, rank] A; a: [rank, in] A; squares:
  /// [out] S. Source: Liu et al. 2024, eq. 5.
  void low_rank_squares(Context&, ConstView w, ConstView b, ConstView a, View squares);
  /// inverses = 1 / sqrt(squares); factors = magnitudes / sqrt(squares), or 1 where the magnitude is 0: an output
  /// without one.  All [out] S.
  void magnitude_factors(Context&, ConstView magnitudes, ConstView squares, View factors, View inverses);
  /// y = x * factors + bias, column by column.  x, y: [rows, width] A; factors: [width] S; bias: [width] A or empty. y
  /// may be x.
  void scale_columns(Context&, ConstView x, ConstView factors, ConstView bias, View y);
  /// products = sum over rows of dy * x; dx = dy * factors.  dy, x, dx: [rows, width] A; factors, products: [width] S.
  /// dx may be x.
  void scale_columns_backward(Context&, ConstView dy, ConstView x, ConstView factors, View dx, View products);

  // ---- exchange of gradients ----
  // They may run on a sending thread, concurrently with other operators, so they are not recorded. W: the type sent,
  // f32 or bf16.
  /// y = x, rounded to nearest, ties to even, where y is bf16.  x, y: [n] f32 or W.
  void wire_cast(Context&, ConstView x, View y);
  /// sum = parts[0] + parts[1] + ..., added in f32 in this order and rounded to W; own = sum. An empty part means the
  /// previous own, rounded to W.  parts, sum: [n] W; own: [n] f32.
  void sum_contributions(Context&, std::span<const ConstView> parts, View own, View sum);
  /// map = rows of x that have a bit set (a negative zero counts: only +0 may be left out of a sum).  x: [rows, width]
  /// f32; map: [ceil(rows / 64)] i64, row i is bit i mod 64 of word i / 64.
  void mark_rows(Context&, ConstView x, View map);
  /// Moves the marked rows of x to its front, in order. The rows after them are left undefined.
  void pack_rows(Context&, View x, ConstView map);
  /// Moves packed rows back to their places, of an array that pack_rows() left and whose other rows were zero before:
  /// they are zero again, and where nothing was moved no memory is written.
  void unpack_rows(Context&, View x, ConstView map);

 protected:
  // For operators that a backend may fuse: calls both in turn. Those of linear_low_rank() take a result's scratch.
  virtual void do_linear_low_rank(Context&, ConstView x, ConstView w, ConstView bias, ConstView inner, ConstView b,
                                  View y);
  virtual void do_linear_low_rank_backward_input(Context&, ConstView dy, ConstView w, ConstView inner, ConstView a,
                                                 View dx);
  virtual void do_linear_softmax_stats(Context&, ConstView x, ConstView w, ConstView bias, ConstView targets,
                                       int64_t first_class, int64_t classes, View logits, View max, View sum,
                                       View target);
  virtual void do_dropout_add_norm(Context&, ConstView x, ConstView residual, const Dropout&, float factor, View sum,
                                   const RowNorm&, View y, View mean, View rstd);
  virtual void do_activation_bias_backward(Context&, ConstView dy, ConstView x, Activation, View dx, View db, Write);

  // Of backends with has_delta_rule(); these refuse.
  virtual void do_split_gates(Context&, ConstView x, View qkv, View gates);
  virtual void do_join_gates(Context&, ConstView qkv, ConstView gates, View x);
  virtual void do_sigmoid_gate(Context&, ConstView x, ConstView gates, View y);
  virtual void do_sigmoid_gate_backward(Context&, ConstView dy, ConstView x, ConstView gates, View dx, View dgates);
  virtual void do_short_convolution(Context&, ConstView x, ConstView w, ConstView offsets, bool silu, View y);
  virtual void do_short_convolution_backward(Context&, ConstView dy, ConstView x, ConstView w, ConstView offsets,
                                             bool silu, View dx, View dw, Write);
  virtual void do_short_convolution_cached(Context&, ConstView x, ConstView w, ConstView offsets, bool silu,
                                           ConstView past, View window, View y);
  virtual void do_delta_rule(Context&, ConstView mixed, ConstView projected, ConstView decay_log, ConstView decay_bias,
                             const DeltaShape&, View out, View states);
  virtual void do_delta_rule_backward(Context&, ConstView dout, ConstView mixed, ConstView projected,
                                      ConstView decay_log, ConstView decay_bias, const DeltaShape&, ConstView states,
                                      View dmixed, View dprojected, View ddecay_log, View ddecay_bias, Write);
  virtual void do_delta_rule_cached(Context&, ConstView mixed, ConstView projected, ConstView decay_log,
                                    ConstView decay_bias, const DeltaShape&, ConstView past, View state, View out);
  virtual void do_gated_norm(Context&, ConstView x, ConstView gates, int64_t column, ConstView w, float eps, View y);
  virtual void do_gated_norm_backward(Context&, ConstView dy, ConstView x, ConstView gates, int64_t column, ConstView w,
                                      float eps, View dx, View dgates, View dw, Write);

 private:
  /// Whether A may be this type: f32 and bf16 (cpu), f16, too (cuda), f64 (reference).
  virtual bool takes(DType activation) const = 0;
  virtual void do_linear(Context&, ConstView x, ConstView w, ConstView bias, View y) = 0;
  virtual void do_linear_activation(Context&, ConstView x, ConstView w, ConstView bias, Activation, View pre,
                                    View y) = 0;
  virtual void do_linear_backward_input(Context&, ConstView dy, ConstView w, View dx) = 0;
  virtual void do_linear_backward_weight(Context&, ConstView dy, ConstView x, View dw, Write) = 0;
  virtual void do_bias_backward(Context&, ConstView dy, View db, Write) = 0;
  virtual void do_layer_norm(Context&, ConstView x, ConstView w, ConstView b, float eps, View y, View mean,
                             View rstd) = 0;
  virtual void do_layer_norm_backward(Context&, ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd,
                                      View dx, View dw, View db, Write) = 0;
  virtual void do_rms_norm(Context&, ConstView x, ConstView w, float offset, float eps, View y, View rstd) = 0;
  virtual void do_rms_norm_backward(Context&, ConstView dy, ConstView x, ConstView w, float offset, ConstView rstd,
                                    View dx, View dw, Write) = 0;
  virtual void do_query_key_squares(Context&, ConstView qkv, const QueryKeyNorm&, View squares) = 0;
  virtual void do_query_key_norm(Context&, ConstView qkv, const QueryKeyNorm&, ConstView squares, View y) = 0;
  virtual void do_query_key_products(Context&, ConstView dqkv, ConstView qkv, const QueryKeyNorm&, View products) = 0;
  virtual void do_query_key_norm_backward(Context&, View dqkv, ConstView qkv, const QueryKeyNorm&, ConstView squares,
                                          ConstView products, View dq, View dk, Write) = 0;
  virtual void do_activation(Context&, ConstView x, Activation, View y) = 0;
  virtual void do_activation_backward(Context&, ConstView dy, ConstView x, Activation, View dx) = 0;
  virtual void do_gated_activation(Context&, ConstView x, Activation, View y) = 0;
  virtual void do_gated_activation_backward(Context&, ConstView dy, ConstView x, Activation, View dx) = 0;
  virtual void do_dropout_add(Context&, ConstView x, ConstView residual, const Dropout&, View y, float factor) = 0;
  virtual void do_dropout_backward(Context&, ConstView dy, const Dropout&, View dx, float factor) = 0;
  virtual void do_embedding(Context&, ConstView tokens, ConstView positions, ConstView tokens_table,
                            ConstView positions_table, View y) = 0;
  virtual void do_embedding_part(Context&, ConstView tokens, ConstView table, TableRows part, View y) = 0;
  virtual void do_embedding_backward(Context&, ConstView ids, ConstView dy, View dtable, Write, TableRows part) = 0;
  virtual void do_embedding_add(Context&, ConstView ids, ConstView table, View y) = 0;
  virtual void do_scatter_rows(Context&, ConstView y, ConstView rows, View x) = 0;
  virtual void do_rotary_table(Context&, std::span<const float> frequencies, double factor, View table) = 0;
  /// inverse: by the negated angle
  virtual void do_rotary(Context&, View qkv, ConstView positions, ConstView table, bool inverse) = 0;
  virtual void do_attention(Context&, ConstView qkv, const AttentionShape&, const Dropout&, View out, View lse) = 0;
  virtual void do_attention_backward(Context&, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                                     const AttentionShape&, const Dropout&, View dqkv) = 0;
  virtual void do_attention_cached(Context&, ConstView qkv, const AttentionShape&, ConstView past, View cache,
                                   View out) = 0;
  virtual void do_softmax_stats(Context&, ConstView logits, ConstView targets, int64_t first_class, int64_t classes,
                                View max, View sum, View target) = 0;
  virtual void do_softmax_combine(Context&, ConstView parts, View max, View sum, View target) = 0;
  virtual void do_smooth_target(Context&, ConstView logits, int64_t classes, double smoothing, View target) = 0;
  virtual void do_cross_entropy(Context&, ConstView max, ConstView sum, ConstView target, ConstView targets,
                                View total) = 0;
  virtual void do_cross_entropy_backward(Context&, View logits, ConstView targets, int64_t first_class, int64_t classes,
                                         ConstView max, ConstView sum, float scale, double smoothing, float cap) = 0;
  virtual void do_soft_cap(Context&, View x, float cap) = 0;
  virtual void do_squared_error(Context&, ConstView z, ConstView targets, View total) = 0;
  virtual void do_squared_error_backward(Context&, View z, ConstView targets, float scale) = 0;
  virtual void do_sum_parts(Context&, ConstView parts, View y) = 0;
  virtual void do_add(Context&, ConstView x, View y) = 0;
  virtual void do_cast(Context&, ConstView x, View y) = 0;
  virtual void do_zero(Context&, View x) = 0;
  virtual void do_place_rows(Context&, ConstView x, const RowPattern&, int64_t column, float factor, View y) = 0;
  virtual void do_take_rows(Context&, ConstView x, const RowPattern&, int64_t column, float factor, View y, Write) = 0;
  virtual void do_low_rank_squares(Context&, ConstView w, ConstView b, ConstView a, View squares) = 0;
  virtual void do_magnitude_factors(Context&, ConstView magnitudes, ConstView squares, View factors, View inverses) = 0;
  virtual void do_scale_columns(Context&, ConstView x, ConstView factors, ConstView bias, View y) = 0;
  virtual void do_scale_columns_backward(Context&, ConstView dy, ConstView x, ConstView factors, View dx,
                                         View products) = 0;
  virtual void do_squared_norms(Context&, ConstView x, View values) = 0;
  virtual void do_element_sums(Context&, ConstView x, ConstView low, const ElementPlaces&, View sums) = 0;
  virtual void do_adamw(Context&, const AdamW&, ConstView grad, View m, View v, View weights, View remainder) = 0;
  virtual void do_wire_cast(Context&, ConstView x, View y) = 0;
  virtual void do_sum_contributions(Context&, std::span<const ConstView> parts, View own, View sum) = 0;
  virtual void do_mark_rows(Context&, ConstView x, View map) = 0;
  virtual void do_pack_rows(Context&, View x, ConstView map) = 0;
  virtual void do_unpack_rows(Context&, View x, ConstView map) = 0;

  OpRecorder* recorder_ = nullptr;
};

/// f64 loops.
std::unique_ptr<Ops> make_reference_ops();
/// Vectorised; the instruction set is chosen at run time, TRIREME_ISA names another (cpu/isa.h).
std::unique_ptr<Ops> make_cpu_ops();

}  // namespace trireme
