#include "bench/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <sstream>

#include "base/rng.h"
#include "base/time.h"
#include "ops/element_sum.h"

namespace trireme {
namespace {

/// Values in (-1, 1), or ids below `bound`: a block of random ones, repeated.
void fill(View v, int64_t bound) {
  constexpr int64_t kBlock = 1 << 16;
  RandomStream random(1);
  for (int64_t i = 0; i < std::min(kBlock, v.count()); ++i) {
    const double x = 2 * random.uniform() - 1;
    const double id = std::floor(std::abs(x) * static_cast<double>(bound));
    switch (v.dtype()) {
      case DType::f32:
        v.as<float>()[i] = static_cast<float>(x);
        break;
      case DType::bf16:
        v.as<bf16_t>()[i] = to_bf16(static_cast<float>(x));
        break;
      case DType::i32:
        v.as<int32_t>()[i] = static_cast<int32_t>(id);
        break;
      case DType::i64:
        v.as<int64_t>()[i] = static_cast<int64_t>(id);
        break;
      default:
        return;  // remainders of split weights: the arena's zeros do
    }
  }
  auto* bytes = static_cast<std::byte*>(v.data());
  const size_t block = static_cast<size_t>(kBlock) * size_of(v.dtype());
  for (size_t at = block; at < v.bytes(); at += block) std::memcpy(bytes + at, bytes, std::min(block, v.bytes() - at));
}

/// The tensors of one call, in enough sets to fill the rotation.
class Tensors {
 public:
  Tensors(Arena& arena, double rotation, double bytes_per_set)
      : arena_(arena), scope_(arena), sets_(static_cast<size_t>(std::clamp(rotation / bytes_per_set, 1.0, 64.0))) {}
  /// One tensor per set.
  std::vector<View> take(DType dtype, Shape shape, int64_t bound = 1) {
    std::vector<View> views;
    for (size_t i = 0; i < sets_; ++i) fill(views.emplace_back(arena_.take(dtype, shape)), bound);
    return views;
  }
  /// One tensor for all sets: weights and ids, which every call reads.
  View shared(DType dtype, Shape shape, int64_t bound = 1) {
    const View view = arena_.take(dtype, shape);
    fill(view, bound);
    return view;
  }
  size_t sets() const { return sets_; }

 private:
  Arena& arena_;
  ArenaScope scope_;
  size_t sets_;
};

class Bench {
 public:
  Bench(Ops& ops, const OpsBenchOptions& options)
      : ops_(ops),
        o_(options),
        rows_(o_.sequences * o_.length),
        memory_(memory_bytes()),
        offsets_(static_cast<size_t>(o_.sequences + 1)) {
    for (size_t i = 0; i < offsets_.size(); ++i)
      offsets_[i] = static_cast<int32_t>(static_cast<int64_t>(i) * o_.length);
    shape_.kv_heads = static_cast<int>(o_.heads);
    shape_.head_dim = static_cast<int>(o_.width / o_.heads);
    shape_.scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
    shape_.offsets = ConstView(offsets_.data(), DType::i32, {o_.sequences + 1});
    const int64_t widest = 4 * o_.width;
    const size_t layers = ops_.scratch_bytes({.dtype = o_.dtype,
                                              .rows = rows_,
                                              .width = widest,
                                              .weight_count = 4 * o_.width * o_.width,
                                              .attention = shape_,
                                              .threads = o_.threads});
    const size_t head = ops_.scratch_bytes({.dtype = o_.dtype,
                                            .rows = o_.loss_rows,
                                            .width = o_.columns,
                                            .inputs = o_.width,
                                            .weight_count = o_.columns * o_.width,
                                            .attention = shape_,
                                            .threads = o_.threads});
    scratch_ = Arena(std::max(layers, head));
    context_ = {o_.threads, &scratch_};
  }

  OpsBenchTable run() {
    copy();
    linear();
    norm();
    elementwise();
    decoders();
    embedding();
    attention();
    loss();
    head();
    parameters();
    weights_hash();
    for (OpsBenchRow& row : table_.rows) {
      row.share = row.rate / (row.counts_bytes ? table_.copy_bytes_per_s : table_.gemm_flops_per_s);
      row.best =
          row.amount / row.fastest / (row.counts_bytes ? table_.best_copy_bytes_per_s : table_.best_gemm_flops_per_s);
    }
    return table_;
  }

  /// Of operators that count bytes, without those that read a complete table.
  OpsBenchTable run_between_products() {
    copy();
    norm();
    elementwise();
    decoders();
    loss();
    parameters();
    weights_hash();
    return table_;
  }

 private:
  /// The rotation or one set of the largest operator, and the tensors that calls share: the flat arrays, tables,
  /// weights and the gradient of qkv.
  size_t memory_bytes() const {
    const double set = std::max(5 * activations(), static_cast<double>(o_.loss_rows * o_.columns)) * size();
    const double shared = static_cast<double>(o_.parameters + o_.columns * o_.width + 4 * o_.width * o_.width);
    return static_cast<size_t>(std::max(o_.rotation, set) + 16 * shared + 3 * activations() * size() + 1e6);
  }
  double size() const { return static_cast<double>(size_of(o_.dtype)); }
  double activations() const { return static_cast<double>(rows_ * o_.width); }

  /// Median time of call(set), sets in turn, after one call of each that is not counted.
  void measure(std::string op, ConstView sized_by, size_t sets, double amount, bool counts_bytes,
               const std::function<void(size_t)>& call) {
    if (!is_wanted(op)) return;
    for (size_t i = 0; i < sets; ++i) call(i);
    std::vector<double> times;
    const auto start = Clock::now();
    while (times.size() < 3 || seconds_since(start) < o_.seconds) {
      const auto begin = Clock::now();
      call(times.size() % sets);
      times.push_back(seconds_since(begin));
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    if (op == "copy") {
      table_.copy_bytes_per_s = amount / median;
      table_.best_copy_bytes_per_s = amount / times.front();
    } else if (op.starts_with("linear")) {
      table_.gemm_flops_per_s = std::max(table_.gemm_flops_per_s, amount / median);
      table_.best_gemm_flops_per_s = std::max(table_.best_gemm_flops_per_s, amount / times.front());
    }
    table_.rows.push_back({.op = std::move(op),
                           .shape = sized_by.shape().to_string(),
                           .seconds = median,
                           .fastest = times.front(),
                           .counts_bytes = counts_bytes,
                           .rate = amount / median,
                           .amount = amount});
  }
  /// The ceilings always are.
  bool is_wanted(std::string_view op) const {
    if (o_.only.empty() || op == "copy" || op.starts_with("linear")) return true;
    std::istringstream words(o_.only);
    for (std::string word; std::getline(words, word, ',');)
      if (op.starts_with(word)) return true;
    return false;
  }

  void copy() {
    Tensors t(memory_, o_.rotation, 2 * activations() * size());
    const auto x = t.take(o_.dtype, {rows_, o_.width}), y = t.take(o_.dtype, {rows_, o_.width});
    measure("copy", x[0], t.sets(), 2 * activations() * size(), true,
            [&](size_t i) { ops_.cast(context_, x[i], y[i]); });
  }

  void linear() {
    const int64_t in = o_.width, out = 4 * o_.width;
    Tensors t(memory_, o_.rotation, 5 * activations() * size());
    const auto x = t.take(o_.dtype, {rows_, in}), y = t.take(o_.dtype, {rows_, out});
    const View w = t.shared(o_.dtype, {out, in}), b = t.shared(o_.dtype, {out}), dw = t.shared(DType::f32, {out, in});
    const View db = t.shared(DType::f32, {out});
    const double flops = 2 * static_cast<double>(rows_ * in * out);
    measure("linear", y[0], t.sets(), flops, false, [&](size_t i) { ops_.linear(context_, x[i], w, b, y[i]); });
    measure("linear_backward_input", y[0], t.sets(), flops, false,
            [&](size_t i) { ops_.linear_backward_input(context_, y[i], w, x[i]); });
    measure("linear_backward_weight", y[0], t.sets(), flops, false,
            [&](size_t i) { ops_.linear_backward_weight(context_, y[i], x[i], dw, Write::overwrite); });
    measure("bias_backward", y[0], t.sets(), 4 * activations() * size(), true,
            [&](size_t i) { ops_.bias_backward(context_, y[i], db, Write::overwrite); });
  }

  void norm() {
    Tensors t(memory_, o_.rotation, 3 * activations() * size());
    const auto x = t.take(o_.dtype, {rows_, o_.width}), y = t.take(o_.dtype, {rows_, o_.width});
    const auto dx = t.take(o_.dtype, {rows_, o_.width});
    const View w = t.shared(o_.dtype, {o_.width}), b = t.shared(o_.dtype, {o_.width});
    const View dw = t.shared(DType::f32, {o_.width}), db = t.shared(DType::f32, {o_.width});
    const View mean = t.shared(DType::f32, {rows_}), rstd = t.shared(DType::f32, {rows_});
    measure("layer_norm", x[0], t.sets(), 2 * activations() * size(), true,
            [&](size_t i) { ops_.layer_norm(context_, x[i], w, b, 1e-5f, y[i], mean, rstd); });
    measure("layer_norm_backward", x[0], t.sets(), 4 * activations() * size(), true, [&](size_t i) {
      ops_.layer_norm_backward(context_, y[i], x[i], w, mean, rstd, dx[i], dw, db, Write::overwrite);
    });
  }

  void elementwise() {
    Tensors t(memory_, o_.rotation, 3 * activations() * size());
    const auto x = t.take(o_.dtype, {rows_, o_.width}), y = t.take(o_.dtype, {rows_, o_.width});
    const auto z = t.take(o_.dtype, {rows_, o_.width});
    const double bytes = activations() * size();
    for (const auto& [hyphened, f] : Names<Activation>::kAll) {
      std::string name(hyphened);
      std::ranges::replace(name, '-', '_');
      measure(name, x[0], t.sets(), 2 * bytes, true,
              [&, f = f](size_t i) { ops_.activation(context_, x[i], f, y[i]); });
      measure(fmt::format("{}_backward", name), x[0], t.sets(), 3 * bytes, true,
              [&, f = f](size_t i) { ops_.activation_backward(context_, x[i], y[i], f, z[i]); });
    }
    const View sample = t.shared(DType::i64, {rows_}, 1 << 20), position = t.shared(DType::i32, {rows_}, o_.length);
    const Dropout dropout{0.1f, 1, sample, position};
    measure("residual_add", x[0], t.sets(), 3 * bytes, true,
            [&](size_t i) { ops_.dropout_add(context_, x[i], y[i], Dropout(), z[i]); });
    measure("dropout_add", x[0], t.sets(), 3 * bytes, true,
            [&](size_t i) { ops_.dropout_add(context_, x[i], y[i], dropout, z[i]); });
    measure("dropout_backward", x[0], t.sets(), 2 * bytes, true,
            [&](size_t i) { ops_.dropout_backward(context_, x[i], dropout, y[i]); });
  }

  /// What decoders since Llama have between their products; queries and keys with the layer's own heads.
  void decoders() {
    const double bytes = activations() * size();
    {
      Tensors t(memory_, o_.rotation, 3 * bytes);
      const auto x = t.take(o_.dtype, {rows_, o_.width}), y = t.take(o_.dtype, {rows_, o_.width});
      const auto dx = t.take(o_.dtype, {rows_, o_.width});
      const View w = t.shared(o_.dtype, {o_.width}), dw = t.shared(DType::f32, {o_.width});
      const View rstd = t.shared(DType::f32, {rows_});
      measure("rms_norm", x[0], t.sets(), 2 * bytes, true,
              [&](size_t i) { ops_.rms_norm(context_, x[i], w, 0, 1e-5f, y[i], rstd); });
      measure("rms_norm_backward", x[0], t.sets(), 4 * bytes, true,
              [&](size_t i) { ops_.rms_norm_backward(context_, y[i], x[i], w, 0, rstd, dx[i], dw, Write::overwrite); });
    }
    {
      Tensors t(memory_, o_.rotation, 5 * bytes);
      const auto x = t.take(o_.dtype, {rows_, 2 * o_.width}), y = t.take(o_.dtype, {rows_, o_.width});
      const auto dx = t.take(o_.dtype, {rows_, 2 * o_.width});
      for (const auto& [name, f] : {std::pair("silu", Activation::silu), {"gelu_tanh", Activation::gelu_tanh}}) {
        measure(fmt::format("gated_{}", name), x[0], t.sets(), 3 * bytes, true,
                [&, f = f](size_t i) { ops_.gated_activation(context_, x[i], f, y[i]); });
        measure(fmt::format("gated_{}_backward", name), x[0], t.sets(), 5 * bytes, true,
                [&, f = f](size_t i) { ops_.gated_activation_backward(context_, y[i], x[i], f, dx[i]); });
      }
    }
    queries_and_keys();
  }

  /// In groups of four queries where the heads allow it, as most decoders have them. Values, a third of memory without
  /// groups, are not read by most of these operators and not counted then, but the CPU's prefetchers fetch them.
  void queries_and_keys() {
    const int64_t group = o_.heads % 4 == 0 ? 4 : 1, heads = o_.heads / group, dim = o_.width / o_.heads,
                  dims = dim / 2 * 2;
    const double bytes = static_cast<double>(rows_ * heads * dim) * size();  // of all keys
    const double turned = static_cast<double>(group + 1) * bytes, all = turned + bytes;
    Tensors t(memory_, o_.rotation, 2 * all);
    const Shape shape{rows_, heads, group + 2, dim};
    const auto qkv = t.take(o_.dtype, shape), y = t.take(o_.dtype, shape);
    const View positions = t.shared(DType::i32, {rows_}, o_.length);
    const View table = t.shared(DType::f32, {o_.length, dims});
    measure("rotary", qkv[0], t.sets(), 2 * turned, true,
            [&](size_t i) { ops_.rotary(context_, qkv[i], positions, table); });
    const View gain = t.shared(o_.dtype, {dim}), dq = t.shared(DType::f32, {dim}), dk = t.shared(DType::f32, {dim});
    const Shape statistics{rows_, heads * (group + 1)};
    const View squares = t.shared(DType::f32, statistics), products = t.shared(DType::f32, statistics);
    const QueryKeyNorm norm{.q = gain, .k = gain, .q_count = dim, .k_count = dim};
    measure("query_key_squares", qkv[0], t.sets(), turned, true,
            [&](size_t i) { ops_.query_key_squares(context_, qkv[i], norm, squares); });
    measure("query_key_norm", qkv[0], t.sets(), 2 * all, true,
            [&](size_t i) { ops_.query_key_norm(context_, qkv[i], norm, squares, y[i]); });
    measure("query_key_products", qkv[0], t.sets(), 2 * turned, true,
            [&](size_t i) { ops_.query_key_products(context_, y[i], qkv[i], norm, products); });
    measure("query_key_norm_backward", qkv[0], t.sets(), 3 * turned, true, [&](size_t i) {
      ops_.query_key_norm_backward(context_, y[i], qkv[i], norm, squares, products, dq, dk, Write::overwrite);
    });
  }

  void embedding() {
    Tensors t(memory_, o_.rotation, activations() * size());
    const auto y = t.take(o_.dtype, {rows_, o_.width});
    const View table = t.shared(o_.dtype, {o_.columns, o_.width}), places = t.shared(o_.dtype, {o_.length, o_.width});
    const View tokens = t.shared(DType::i32, {rows_}, o_.vocabulary),
               positions = t.shared(DType::i32, {rows_}, o_.length);
    const View dtable = t.shared(DType::f32, {o_.columns, o_.width});
    measure("embedding", y[0], t.sets(), 3 * activations() * size(), true,
            [&](size_t i) { ops_.embedding(context_, tokens, positions, table, places, y[i]); });
    measure("embedding_backward", y[0], t.sets(), activations() * size() + static_cast<double>(dtable.bytes()), true,
            [&](size_t i) { ops_.embedding_backward(context_, tokens, y[i], dtable, Write::overwrite); });
    measure("embedding_backward_add", y[0], t.sets(), activations() * (size() + 2 * sizeof(float)), true,
            [&](size_t i) { ops_.embedding_backward(context_, tokens, y[i], dtable, Write::add); });
  }

  /// The layer's own heads, heads of the other usual size, groups of heads, all rows as one sequence without and with
  /// windows, and rows of mixed lengths.
  void attention() {
    std::vector<int64_t> even(static_cast<size_t>(o_.sequences), o_.length);
    const int64_t own = o_.width / o_.heads, other = own == 128 ? 64 : 128;
    attention("", even, own);
    if (o_.width % other == 0) attention(fmt::format("_size_{}", other), even, other);
    for (const int group : {2, 4})
      if (o_.heads % group == 0) attention(fmt::format("_group_{}", group), even, own, group);
    if (o_.sequences > 1) attention("_one_sequence", {rows_}, own);
    for (const int64_t part : {2, 4, 8, 16, 32, 64})
      if (rows_ / part > 0) attention(fmt::format("_window_{}", rows_ / part), {rows_}, own, 1, rows_ / part);
    std::vector<int64_t> mixed;  // 1/4, 1/8, 1/2, 1/16 ... of a sequence
    for (int64_t left = rows_, i = 0; left > 0; left -= mixed.back(), ++i)
      mixed.push_back(
          std::min(left, std::max<int64_t>(1, o_.length >> std::array{2, 3, 1, 4}[static_cast<size_t>(i % 4)])));
    attention("_mixed_lengths", mixed, own);
  }

  void attention(const std::string& kind, const std::vector<int64_t>& lengths, int64_t head_dim, int group = 1,
                 int64_t window = 0) {
    const std::string forward = "attention" + kind, backward = "attention_backward" + kind;
    if (!is_wanted(forward) && !is_wanted(backward)) return;
    std::vector<int32_t> offsets{0};
    double keys = 0;  // that queries see, half of them where all rows before are seen
    for (const int64_t length : lengths) {
      offsets.push_back(offsets.back() + static_cast<int32_t>(length));
      const int64_t seen = window > 0 ? std::min(window, length) : length;
      keys += static_cast<double>(seen) * (static_cast<double>(length) - static_cast<double>(seen) / 2);
    }
    AttentionShape shape = shape_;
    shape.kv_heads = static_cast<int>(o_.width / head_dim) / group;
    shape.group = group;
    shape.window = window;
    shape.head_dim = static_cast<int>(head_dim);
    shape.scale = 1 / std::sqrt(static_cast<float>(head_dim));
    shape.offsets = ConstView(offsets.data(), DType::i32, {static_cast<int64_t>(offsets.size())});
    Arena scratch(ops_.scratch_bytes(
        {.dtype = o_.dtype, .rows = rows_, .width = o_.width, .attention = shape, .threads = o_.threads}));
    Context context{o_.threads, &scratch};
    Tensors t(memory_, o_.rotation, 5 * activations() * size());
    const Shape qkv_shape{rows_, shape.kv_heads, shape.group + 2, head_dim}, out_shape{rows_, shape.heads(), head_dim};
    const auto qkv = t.take(o_.dtype, qkv_shape), out = t.take(o_.dtype, out_shape);
    const View lse = t.shared(DType::f32, {shape.heads(), rows_}), dqkv = t.shared(o_.dtype, qkv_shape);
    // Two products of every query and the keys that it sees; backward makes five.
    const double flops = 4 * static_cast<double>(o_.width) * keys;
    measure(forward, qkv[0], t.sets(), flops, false,
            [&](size_t i) { ops_.attention(context, qkv[i], shape, Dropout(), out[i], lse); });
    measure(backward, qkv[0], t.sets(), 2.5 * flops, false,
            [&](size_t i) { ops_.attention_backward(context, out[i], qkv[i], out[i], lse, shape, Dropout(), dqkv); });
  }

  double logits_bytes() const { return static_cast<double>(o_.loss_rows * o_.columns) * size(); }
  struct Loss {
    std::vector<View> logits;
    View targets, max, sum, target;
  };
  Loss take_loss(Tensors& t) const {
    const auto statistic = [&] { return t.shared(DType::f32, {o_.loss_rows}); };
    return {.logits = t.take(o_.dtype, {o_.loss_rows, o_.columns}),
            .targets = t.shared(DType::i32, {o_.loss_rows}, o_.vocabulary),
            .max = statistic(),
            .sum = statistic(),
            .target = statistic()};
  }

  void loss() {
    const double bytes = logits_bytes();
    Tensors t(memory_, o_.rotation, bytes);
    const Loss l = take_loss(t);
    measure("softmax_stats", l.logits[0], t.sets(), bytes, true, [&](size_t i) {
      ops_.softmax_stats(context_, l.logits[i], l.targets, 0, o_.vocabulary, l.max, l.sum, l.target);
    });
    measure("cross_entropy_backward", l.logits[0], t.sets(), 2 * bytes, true, [&](size_t i) {
      ops_.cross_entropy_backward(context_, l.logits[i], l.targets, 0, o_.vocabulary, l.max, l.sum, 1e-3f);
    });
  }

  void head() {
    Tensors t(memory_, o_.rotation, logits_bytes());
    const Loss l = take_loss(t);
    const View x = t.shared(o_.dtype, {o_.loss_rows, o_.width}), w = t.shared(o_.dtype, {o_.columns, o_.width});
    const View dw = t.shared(DType::f32, {o_.columns, o_.width});
    const double flops = 2 * static_cast<double>(o_.loss_rows * o_.columns * o_.width);
    measure("head", l.logits[0], t.sets(), flops, false, [&](size_t i) {
      ops_.linear_softmax_stats(context_, x, w, {}, l.targets, 0, o_.vocabulary, l.logits[i], l.max, l.sum, l.target);
    });
    measure("head_backward_input", l.logits[0], t.sets(), flops, false,
            [&](size_t i) { ops_.linear_backward_input(context_, l.logits[i], w, x); });
    measure("head_backward_weight", l.logits[0], t.sets(), flops, false,
            [&](size_t i) { ops_.linear_backward_weight(context_, l.logits[i], x, dw, Write::accumulate); });
  }

  void parameters() {
    const auto n = static_cast<double>(o_.parameters);
    const Shape flat{o_.parameters};
    Tensors t(memory_, o_.rotation, 16 * n);
    const View grad = t.shared(DType::f32, flat), m = t.shared(DType::f32, flat), v = t.shared(DType::f32, flat);
    const bool split = o_.dtype == DType::bf16;
    const View weights = t.shared(o_.dtype, flat), remainder = split ? t.shared(DType::i16, flat) : View();
    const AdamW options{1e-4f};
    std::vector<double> norms(static_cast<size_t>((o_.parameters + kNormChunk - 1) / kNormChunk));
    const View values{std::span(norms), {static_cast<int64_t>(norms.size())}};
    measure("squared_norms", grad, 1, 4 * n, true, [&](size_t) { ops_.squared_norms(context_, grad, values); });
    measure("add", grad, 1, 12 * n, true, [&](size_t) { ops_.add(context_, grad, m); });
    measure("zero", grad, 1, 4 * n, true, [&](size_t) { ops_.zero(context_, v); });
    measure("adamw", grad, 1, 28 * n, true,
            [&](size_t) { ops_.adamw(context_, options, grad, m, v, weights, remainder); });
  }

  /// As a snapshot's writer computes it: on one thread, whatever o_.threads.
  void weights_hash() {
    const Shape flat{o_.parameters};
    Tensors t(memory_, o_.rotation, 4 * static_cast<double>(o_.parameters));
    const View weights = t.shared(DType::f32, flat);
    measure("element_sum_one_thread", weights, 1, 4 * static_cast<double>(o_.parameters), true,
            [&](size_t) { sum_ = element_sum(sum_, 0, weights.values<float>()); });
  }

  Ops& ops_;
  OpsBenchOptions o_;
  int64_t rows_;
  Arena memory_, scratch_;
  std::vector<int32_t> offsets_;
  AttentionShape shape_;
  Context context_;
  OpsBenchTable table_;
  uint64_t sum_ = 0;
};

/// The same operators with the tensors of one thread in its second-level cache.
OpsBenchOptions cached(OpsBenchOptions o) {
  constexpr double kTensor = 100e3;  // bytes: three of them fit beside tables and weights
  const auto elements = static_cast<int64_t>(kTensor / static_cast<double>(size_of(o.dtype)));
  o.sequences = 1;
  o.length = std::max<int64_t>(1, elements / o.width);
  o.loss_rows = 1;
  o.parameters = elements / 4;  // 14 to 16 bytes each
  o.threads = 1;
  o.rotation = 0;
  o.seconds /= 10;
  return o;
}

}  // namespace

std::string_view OpsBenchRow::bound() const {
  constexpr double kMost = 0.8;
  if (best >= kMost) return counts_bytes ? "memory" : "products";
  return cached > 0 && amount / fastest >= kMost * cached ? "arithmetic" : "";
}

OpsBenchTable bench_ops(Ops& ops, const OpsBenchOptions& options) {
  OpsBenchTable table = Bench(ops, options).run();
  const OpsBenchTable in_cache = Bench(ops, cached(options)).run_between_products();
  for (OpsBenchRow& row : table.rows)
    for (const OpsBenchRow& other : in_cache.rows)
      if (other.op == row.op)
        row.cached = other.amount / other.fastest * (row.op.ends_with("_one_thread") ? 1 : options.threads);
  return table;
}

std::string to_text(const OpsBenchTable& table) {
  std::string text =
      fmt::format("copy {:.1f} GB/s, linear {:.1f} GFLOP/s\n{:<32} {:>20} {:>10} {:>10} {:>16} {:>6} {:>6} {:>9}  {}\n",
                  table.copy_bytes_per_s / 1e9, table.gemm_flops_per_s / 1e9, "operator", "shape", "median ms",
                  "fastest", "rate", "share", "best", "in cache", "bound by");
  for (const OpsBenchRow& row : table.rows)
    text +=
        fmt::format("{:<32} {:>20} {:>10.3f} {:>10.3f} {:>8.1f} {:<7} {:>6.2f} {:>6.2f} {:>9}  {}\n", row.op, row.shape,
                    row.seconds * 1e3, row.fastest * 1e3, row.rate / 1e9, row.counts_bytes ? "GB/s" : "GFLOP/s",
                    row.share, row.best, row.cached > 0 ? fmt::format("{:.1f}", row.cached / 1e9) : "", row.bound());
  return text;
}

}  // namespace trireme
