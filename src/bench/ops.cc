#include "bench/ops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <list>
#include <sstream>

#include "base/error.h"
#include "base/rng.h"
#include "base/time.h"
#include "ops/element_sum.h"

namespace trireme {
namespace {

/// Values in (-1, 1), or ids below `bound`: a block of random ones, repeated.
void fill(View v, int64_t bound) {
  constexpr int64_t kBlock = 1 << 16;
  const int64_t n = std::min(kBlock, v.count());
  std::vector<std::byte> block(static_cast<size_t>(n) * size_of(v.dtype()));
  const View values(block.data(), v.dtype(), {n});
  RandomStream random(1);
  for (int64_t i = 0; i < n; ++i) {
    const double x = 2 * random.uniform() - 1;
    const double id = std::floor(std::abs(x) * static_cast<double>(bound));
    switch (v.dtype()) {
      case DType::f32:
        values.as<float>()[i] = static_cast<float>(x);
        break;
      case DType::bf16:
        values.as<bf16_t>()[i] = to_bf16(static_cast<float>(x));
        break;
      case DType::i32:
        values.as<int32_t>()[i] = static_cast<int32_t>(id);
        break;
      case DType::i64:
        values.as<int64_t>()[i] = static_cast<int64_t>(id);
        break;
      default:
        return;  // remainders of split weights: the arena's zeros do
    }
  }
  Device& device = v.device() ? *v.device() : host_device();
  const View flat = v.reshape({v.count()});
  for (int64_t at = 0; at < v.count(); at += kBlock) {
    const int64_t length = std::min(kBlock, v.count() - at);
    device.stream().copy(values.rows_slice(0, length), flat.rows_slice(at, length));
  }
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

/// Where operators are measured: the shapes of a layer, memory for its tensors, and the table of what was measured.
struct Bench {
  Bench(Ops& backend, const OpsBenchOptions& options)
      : ops(backend), o(options), rows(o.sequences * o.length), memory(memory_bytes(), ops.device()) {
    std::vector<int32_t> ends(static_cast<size_t>(o.sequences + 1));
    for (size_t i = 0; i < ends.size(); ++i) ends[i] = static_cast<int32_t>(static_cast<int64_t>(i) * o.length);
    shape.kv_heads = static_cast<int>(o.heads);
    shape.head_dim = static_cast<int>(o.width / o.heads);
    shape.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    shape.offsets = offsets(ends);
    const int64_t widest = 4 * o.width;
    const size_t layers = ops.scratch_bytes({.dtype = o.dtype,
                                             .rows = rows,
                                             .width = widest,
                                             .weight_count = 4 * o.width * o.width,
                                             .attention = shape,
                                             .threads = o.threads});
    const size_t head = ops.scratch_bytes({.dtype = o.dtype,
                                           .rows = o.loss_rows,
                                           .width = o.columns,
                                           .inputs = o.width,
                                           .weight_count = o.columns * o.width,
                                           .attention = shape,
                                           .threads = o.threads});
    scratch = Arena(std::max(layers, head), ops.device());
    context = {o.threads, &scratch, &ops.device().stream()};
  }

  /// The rows after which sequences end, on the operators' device.
  ConstView offsets(const std::vector<int32_t>& ends) {
    const Shape all{std::ssize(ends)};
    Arena& arena = offset_memory.emplace_back(ends.size() * sizeof(int32_t), ops.device());
    const View own = arena.take(DType::i32, all);
    ops.device().stream().copy(ConstView(ends.data(), DType::i32, all), own);
    return own;
  }

  /// Median time of call(set), sets in turn, after one call of each that is not counted.
  void measure(std::string op, ConstView sized_by, size_t sets, double amount, bool counts_bytes,
               const std::function<void(size_t)>& call) {
    if (!is_wanted(op)) return;
    for (size_t i = 0; i < sets; ++i) call(i);
    std::vector<double> times;
    const auto start = Clock::now();
    while (times.size() < 3 || seconds_since(start) < o.seconds) {
      const Event begin = context.stream->record_time();
      call(times.size() % sets);
      const Event end = context.stream->record_time();
      end.wait();
      times.push_back(end.seconds_since(begin));
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    if (op == "copy") {
      table.copy_bytes_per_s = amount / median;
      table.best_copy_bytes_per_s = amount / times.front();
    } else if (op.starts_with("linear")) {
      table.gemm_flops_per_s = std::max(table.gemm_flops_per_s, amount / median);
      table.best_gemm_flops_per_s = std::max(table.best_gemm_flops_per_s, amount / times.front());
    }
    table.rows.push_back({.op = std::move(op),
                          .shape = sized_by.shape().to_string(),
                          .seconds = median,
                          .fastest = times.front(),
                          .counts_bytes = counts_bytes,
                          .rate = amount / median,
                          .amount = amount});
  }
  /// The ceilings always are.
  bool is_wanted(std::string_view op) {
    if (std::ranges::find(operators, op) == operators.end()) operators.emplace_back(op);
    if (o.only.empty() || op == "copy" || op.starts_with("linear")) return true;
    return std::ranges::any_of(words(), [&](const std::string& word) { return op.starts_with(word); });
  }

  bool wants_any(std::initializer_list<std::string_view> some) {
    return std::ranges::count_if(some, [&](std::string_view op) { return is_wanted(op); }) >
           0;  // looks at each of them
  }

  /// Throws Error::usage for a word with which no operator's name begins.
  void require_known() const {
    for (const std::string& word : words()) {
      const bool known = std::ranges::any_of(operators, [&](const std::string& op) { return op.starts_with(word); });
      require(known, ErrorKind::usage, "--only {}: no operator's name begins with it; there are {}", word,
              fmt::join(operators, ", "));
    }
  }

  std::vector<std::string> words() const {
    std::vector<std::string> all;
    std::istringstream text(o.only);
    for (std::string word; std::getline(text, word, ',');) all.push_back(word);
    return all;
  }

  double size() const { return static_cast<double>(size_of(o.dtype)); }
  double activations() const { return static_cast<double>(rows * o.width); }

  Ops& ops;
  OpsBenchOptions o;
  int64_t rows;
  Arena memory, scratch;
  std::list<Arena> offset_memory;
  AttentionShape shape;
  Context context;
  OpsBenchTable table;
  std::vector<std::string> operators;  ///< that there are, wanted or not

 private:
  /// The rotation or one set of the largest operator, and the tensors that calls share: the flat arrays, tables,
  /// weights and the gradient of qkv.
  size_t memory_bytes() const {
    const double set = std::max(5 * activations(), static_cast<double>(o.loss_rows * o.columns)) * size();
    const double shared = static_cast<double>(o.parameters + o.columns * o.width + 4 * o.width * o.width);
    return static_cast<size_t>(std::max(o.rotation, set) + 16 * shared + 3 * activations() * size() + 1e6);
  }
};

void measure_copy(Bench& b) {
  Tensors t(b.memory, b.o.rotation, 2 * b.activations() * b.size());
  const auto x = t.take(b.o.dtype, {b.rows, b.o.width}), y = t.take(b.o.dtype, {b.rows, b.o.width});
  b.measure("copy", x[0], t.sets(), 2 * b.activations() * b.size(), true,
            [&](size_t i) { b.ops.cast(b.context, x[i], y[i]); });
}

void measure_linear(Bench& b) {
  const int64_t in = b.o.width, out = 4 * b.o.width;
  Tensors t(b.memory, b.o.rotation, 5 * b.activations() * b.size());
  const auto x = t.take(b.o.dtype, {b.rows, in}), y = t.take(b.o.dtype, {b.rows, out});
  const View w = t.shared(b.o.dtype, {out, in}), bias = t.shared(b.o.dtype, {out}),
             dw = t.shared(DType::f32, {out, in});
  const View db = t.shared(DType::f32, {out});
  const double flops = 2 * static_cast<double>(b.rows * in * out);
  b.measure("linear", y[0], t.sets(), flops, false, [&](size_t i) { b.ops.linear(b.context, x[i], w, bias, y[i]); });
  b.measure("linear_backward_input", y[0], t.sets(), flops, false,
            [&](size_t i) { b.ops.linear_backward_input(b.context, y[i], w, x[i]); });
  b.measure("linear_backward_weight", y[0], t.sets(), flops, false,
            [&](size_t i) { b.ops.linear_backward_weight(b.context, y[i], x[i], dw, Write::overwrite); });
  b.measure("bias_backward", y[0], t.sets(), 4 * b.activations() * b.size(), true,
            [&](size_t i) { b.ops.bias_backward(b.context, y[i], db, Write::overwrite); });
}

void measure_norm(Bench& b) {
  Tensors t(b.memory, b.o.rotation, 3 * b.activations() * b.size());
  const auto x = t.take(b.o.dtype, {b.rows, b.o.width}), y = t.take(b.o.dtype, {b.rows, b.o.width});
  const auto dx = t.take(b.o.dtype, {b.rows, b.o.width});
  const View w = t.shared(b.o.dtype, {b.o.width}), bias = t.shared(b.o.dtype, {b.o.width});
  const View dw = t.shared(DType::f32, {b.o.width}), db = t.shared(DType::f32, {b.o.width});
  const View mean = t.shared(DType::f32, {b.rows}), rstd = t.shared(DType::f32, {b.rows});
  b.measure("layer_norm", x[0], t.sets(), 2 * b.activations() * b.size(), true,
            [&](size_t i) { b.ops.layer_norm(b.context, x[i], w, bias, 1e-5f, y[i], mean, rstd); });
  b.measure("layer_norm_backward", x[0], t.sets(), 4 * b.activations() * b.size(), true, [&](size_t i) {
    b.ops.layer_norm_backward(b.context, y[i], x[i], w, mean, rstd, dx[i], dw, db, Write::overwrite);
  });
}

void measure_elementwise(Bench& b) {
  Tensors t(b.memory, b.o.rotation, 3 * b.activations() * b.size());
  const auto x = t.take(b.o.dtype, {b.rows, b.o.width}), y = t.take(b.o.dtype, {b.rows, b.o.width});
  const auto z = t.take(b.o.dtype, {b.rows, b.o.width});
  const double bytes = b.activations() * b.size();
  for (const auto& [hyphened, f] : Names<Activation>::kAll) {
    std::string name(hyphened);
    std::ranges::replace(name, '-', '_');
    b.measure(name, x[0], t.sets(), 2 * bytes, true,
              [&, which = f](size_t i) { b.ops.activation(b.context, x[i], which, y[i]); });
    b.measure(fmt::format("{}_backward", name), x[0], t.sets(), 3 * bytes, true,
              [&, which = f](size_t i) { b.ops.activation_backward(b.context, x[i], y[i], which, z[i]); });
  }
  const View sample = t.shared(DType::i64, {b.rows}, 1 << 20), position = t.shared(DType::i32, {b.rows}, b.o.length);
  const Dropout dropout{0.1f, 1, sample, position};
  b.measure("residual_add", x[0], t.sets(), 3 * bytes, true,
            [&](size_t i) { b.ops.dropout_add(b.context, x[i], y[i], Dropout(), z[i]); });
  b.measure("dropout_add", x[0], t.sets(), 3 * bytes, true,
            [&](size_t i) { b.ops.dropout_add(b.context, x[i], y[i], dropout, z[i]); });
  b.measure("dropout_backward", x[0], t.sets(), 2 * bytes, true,
            [&](size_t i) { b.ops.dropout_backward(b.context, x[i], dropout, y[i]); });
}

/// In groups of four queries where the heads allow it, as most decoders have them. Values, a third of memory without
/// groups, are not read by most of these operators and not counted then, but the CPU's prefetchers fetch them.
void measure_queries_and_keys(Bench& b) {
  const int64_t group = b.o.heads % 4 == 0 ? 4 : 1, heads = b.o.heads / group, dim = b.o.width / b.o.heads,
                dims = dim / 2 * 2;
  const double bytes = static_cast<double>(b.rows * heads * dim) * b.size();  // of all keys
  const double turned = static_cast<double>(group + 1) * bytes, all = turned + bytes;
  Tensors t(b.memory, b.o.rotation, 2 * all);
  const Shape shape{b.rows, heads, group + 2, dim};
  const auto qkv = t.take(b.o.dtype, shape), y = t.take(b.o.dtype, shape);
  const View positions = t.shared(DType::i32, {b.rows}, b.o.length);
  const View table = t.shared(DType::f32, {b.o.length, dims});
  b.measure("rotary", qkv[0], t.sets(), 2 * turned, true,
            [&](size_t i) { b.ops.rotary(b.context, qkv[i], positions, table); });
  const View gain = t.shared(b.o.dtype, {dim}), dq = t.shared(DType::f32, {dim}), dk = t.shared(DType::f32, {dim});
  const Shape statistics{b.rows, heads * (group + 1)};
  const View squares = t.shared(DType::f32, statistics), products = t.shared(DType::f32, statistics);
  const QueryKeyNorm norm{.q = gain, .k = gain, .q_count = dim, .k_count = dim};
  b.measure("query_key_squares", qkv[0], t.sets(), turned, true,
            [&](size_t i) { b.ops.query_key_squares(b.context, qkv[i], norm, squares); });
  b.measure("query_key_norm", qkv[0], t.sets(), 2 * all, true,
            [&](size_t i) { b.ops.query_key_norm(b.context, qkv[i], norm, squares, y[i]); });
  b.measure("query_key_products", qkv[0], t.sets(), 2 * turned, true,
            [&](size_t i) { b.ops.query_key_products(b.context, y[i], qkv[i], norm, products); });
  b.measure("query_key_norm_backward", qkv[0], t.sets(), 3 * turned, true, [&](size_t i) {
    b.ops.query_key_norm_backward(b.context, y[i], qkv[i], norm, squares, products, dq, dk, Write::overwrite);
  });
}

/// What decoders since Llama have between their products; queries and keys with the layer's own heads.
void measure_decoders(Bench& b) {
  const double bytes = b.activations() * b.size();
  {
    Tensors t(b.memory, b.o.rotation, 3 * bytes);
    const auto x = t.take(b.o.dtype, {b.rows, b.o.width}), y = t.take(b.o.dtype, {b.rows, b.o.width});
    const auto dx = t.take(b.o.dtype, {b.rows, b.o.width});
    const View w = t.shared(b.o.dtype, {b.o.width}), dw = t.shared(DType::f32, {b.o.width});
    const View rstd = t.shared(DType::f32, {b.rows});
    b.measure("rms_norm", x[0], t.sets(), 2 * bytes, true,
              [&](size_t i) { b.ops.rms_norm(b.context, x[i], w, 0, 1e-5f, y[i], rstd); });
    b.measure("rms_norm_backward", x[0], t.sets(), 4 * bytes, true, [&](size_t i) {
      b.ops.rms_norm_backward(b.context, y[i], x[i], w, 0, rstd, dx[i], dw, Write::overwrite);
    });
  }
  {
    Tensors t(b.memory, b.o.rotation, 5 * bytes);
    const auto x = t.take(b.o.dtype, {b.rows, 2 * b.o.width}), y = t.take(b.o.dtype, {b.rows, b.o.width});
    const auto dx = t.take(b.o.dtype, {b.rows, 2 * b.o.width});
    for (const auto& [name, f] : {std::pair("silu", Activation::silu), {"gelu_tanh", Activation::gelu_tanh}}) {
      b.measure(fmt::format("gated_{}", name), x[0], t.sets(), 3 * bytes, true,
                [&, which = f](size_t i) { b.ops.gated_activation(b.context, x[i], which, y[i]); });
      b.measure(fmt::format("gated_{}_backward", name), x[0], t.sets(), 5 * bytes, true,
                [&, which = f](size_t i) { b.ops.gated_activation_backward(b.context, y[i], x[i], which, dx[i]); });
    }
  }
  measure_queries_and_keys(b);
}

void measure_embedding(Bench& b) {
  if (!b.wants_any({"embedding", "embedding_backward", "embedding_backward_add"})) return;
  Tensors t(b.memory, b.o.rotation, b.activations() * b.size());
  const auto y = t.take(b.o.dtype, {b.rows, b.o.width});
  const View table = t.shared(b.o.dtype, {b.o.columns, b.o.width}),
             places = t.shared(b.o.dtype, {b.o.length, b.o.width});
  const View tokens = t.shared(DType::i32, {b.rows}, b.o.vocabulary),
             positions = t.shared(DType::i32, {b.rows}, b.o.length);
  const View dtable = t.shared(DType::f32, {b.o.columns, b.o.width});
  b.measure("embedding", y[0], t.sets(), 3 * b.activations() * b.size(), true,
            [&](size_t i) { b.ops.embedding(b.context, tokens, positions, table, places, y[i]); });
  b.measure("embedding_backward", y[0], t.sets(), b.activations() * b.size() + static_cast<double>(dtable.bytes()),
            true, [&](size_t i) { b.ops.embedding_backward(b.context, tokens, y[i], dtable, Write::overwrite); });
  b.measure("embedding_backward_add", y[0], t.sets(), b.activations() * (b.size() + 2 * sizeof(float)), true,
            [&](size_t i) { b.ops.embedding_backward(b.context, tokens, y[i], dtable, Write::add); });
}

void measure_attention(Bench& b, const std::string& kind, const std::vector<int64_t>& lengths, int64_t head_dim,
                       int group = 1, int64_t window = 0) {
  const std::string forward = "attention" + kind, backward = "attention_backward" + kind;
  if (!b.is_wanted(forward) && !b.is_wanted(backward)) return;
  std::vector<int32_t> offsets{0};
  double keys = 0;  // that queries see, half of them where all rows before are seen
  for (const int64_t length : lengths) {
    offsets.push_back(offsets.back() + static_cast<int32_t>(length));
    const int64_t seen = window > 0 ? std::min(window, length) : length;
    keys += static_cast<double>(seen) * (static_cast<double>(length) - static_cast<double>(seen) / 2);
  }
  AttentionShape shape = b.shape;
  shape.kv_heads = static_cast<int>(b.o.width / head_dim) / group;
  shape.group = group;
  shape.window = window;
  shape.head_dim = static_cast<int>(head_dim);
  shape.scale = 1 / std::sqrt(static_cast<float>(head_dim));
  shape.offsets = b.offsets(offsets);
  Arena scratch(
      b.ops.scratch_bytes(
          {.dtype = b.o.dtype, .rows = b.rows, .width = b.o.width, .attention = shape, .threads = b.o.threads}),
      b.ops.device());
  Context context{b.o.threads, &scratch, &b.ops.device().stream()};
  Tensors t(b.memory, b.o.rotation, 5 * b.activations() * b.size());
  const Shape qkv_shape{b.rows, shape.kv_heads, shape.group + 2, head_dim}, out_shape{b.rows, shape.heads(), head_dim};
  const auto qkv = t.take(b.o.dtype, qkv_shape), out = t.take(b.o.dtype, out_shape);
  const View lse = t.shared(DType::f32, {shape.heads(), b.rows}), dqkv = t.shared(b.o.dtype, qkv_shape);
  // Two products of every query and the keys that it sees; backward makes five.
  const double flops = 4 * static_cast<double>(b.o.width) * keys;
  b.measure(forward, qkv[0], t.sets(), flops, false,
            [&](size_t i) { b.ops.attention(context, qkv[i], shape, Dropout(), out[i], lse); });
  b.measure(backward, qkv[0], t.sets(), 2.5 * flops, false,
            [&](size_t i) { b.ops.attention_backward(context, out[i], qkv[i], out[i], lse, shape, Dropout(), dqkv); });
}

/// The layer's own heads, heads of the other usual size, groups of heads, all rows as one sequence without and with
/// windows, and rows of mixed lengths.
void measure_attention(Bench& b) {
  std::vector<int64_t> even(static_cast<size_t>(b.o.sequences), b.o.length);
  const int64_t own = b.o.width / b.o.heads, other = own == 128 ? 64 : 128;
  measure_attention(b, "", even, own);
  if (b.o.width % other == 0) measure_attention(b, fmt::format("_size_{}", other), even, other);
  for (const int group : {2, 4})
    if (b.o.heads % group == 0) measure_attention(b, fmt::format("_group_{}", group), even, own, group);
  if (b.o.sequences > 1) measure_attention(b, "_one_sequence", {b.rows}, own);
  for (const int64_t part : {2, 4, 8, 16, 32, 64})
    if (b.rows / part > 0)
      measure_attention(b, fmt::format("_window_{}", b.rows / part), {b.rows}, own, 1, b.rows / part);
  std::vector<int64_t> mixed;  // 1/4, 1/8, 1/2, 1/16 ... of a sequence
  for (int64_t left = b.rows, i = 0; left > 0; left -= mixed.back(), ++i)
    mixed.push_back(
        std::min(left, std::max<int64_t>(1, b.o.length >> std::array{2, 3, 1, 4}[static_cast<size_t>(i % 4)])));
  measure_attention(b, "_mixed_lengths", mixed, own);
}

/// Heads with a state, of the published sizes, as many as the width holds: the products of their chunks, the half of a
/// triangle that is used.
void measure_delta(Bench& b) {
  constexpr int kSize = 128;
  const int64_t heads = b.o.width / kSize;
  if (heads == 0 || !b.ops.has_delta_rule()) return;
  const DeltaShape shape{.key_heads = static_cast<int>(heads),
                         .group = 1,
                         .key_size = kSize,
                         .value_size = kSize,
                         .offsets = b.shape.offsets};
  const CallSizes sizes{
      .dtype = b.o.dtype, .rows = b.rows, .width = b.o.width, .delta = shape, .taps = 4, .threads = b.o.threads};
  Arena scratch(b.ops.scratch_bytes(sizes), b.ops.device());
  Context context{b.o.threads, &scratch, &b.ops.device().stream()};
  const double values = b.activations() * b.size();
  Tensors t(b.memory, b.o.rotation, 12 * values);
  const Shape all{b.rows, heads, shape.mixed_width()}, wide{b.rows, heads, shape.width()}, one{b.rows, heads, kSize};
  const auto mixed = t.take(b.o.dtype, all), projected = t.take(b.o.dtype, wide), out = t.take(b.o.dtype, one);
  const View dmixed = t.shared(b.o.dtype, all), dprojected = t.shared(b.o.dtype, wide);
  const View log = t.shared(b.o.dtype, {heads}), bias = t.shared(b.o.dtype, {heads});
  const View states = t.shared(DType::f32, {delta_states(b.rows), heads, kSize, kSize});
  const View weights = t.shared(b.o.dtype, {heads * shape.mixed_width(), 1, 4});
  const View dweights = t.shared(DType::f32, weights.shape());
  const View dlog = t.shared(DType::f32, {heads}), dbias = t.shared(DType::f32, {heads});
  const double of_state = static_cast<double>(b.rows * heads) * 2 * kSize * kSize,
               of_chunk = static_cast<double>(b.rows * heads) * kSize * static_cast<double>(kDeltaChunk);
  b.measure("delta_rule", mixed[0], t.sets(), 3 * of_state + 4 * of_chunk, false,
            [&](size_t i) { b.ops.delta_rule(context, mixed[i], projected[i], log, bias, shape, out[i], states); });
  b.measure("delta_rule_backward", mixed[0], t.sets(), 7 * of_state + 11 * of_chunk, false, [&](size_t i) {
    b.ops.delta_rule_backward(context, out[i], mixed[i], projected[i], log, bias, shape, states, dmixed, dprojected,
                              dlog, dbias, Write::overwrite);
  });
  b.measure("short_convolution", mixed[0], t.sets(), 6 * values, true,
            [&](size_t i) { b.ops.short_convolution(context, projected[i], weights, shape.offsets, true, mixed[i]); });
  b.measure("short_convolution_backward", mixed[0], t.sets(), 9 * values, true, [&](size_t i) {
    b.ops.short_convolution_backward(context, mixed[i], projected[i], weights, shape.offsets, true, dprojected,
                                     dweights, Write::overwrite);
  });
}

double logits_bytes(const Bench& b) { return static_cast<double>(b.o.loss_rows * b.o.columns) * b.size(); }
struct Loss {
  std::vector<View> logits;
  View targets, max, sum, target;
};
Loss take_loss(const Bench& b, Tensors& t) {
  const auto statistic = [&] { return t.shared(DType::f32, {b.o.loss_rows}); };
  return {.logits = t.take(b.o.dtype, {b.o.loss_rows, b.o.columns}),
          .targets = t.shared(DType::i32, {b.o.loss_rows}, b.o.vocabulary),
          .max = statistic(),
          .sum = statistic(),
          .target = statistic()};
}

void measure_loss(Bench& b) {
  if (!b.wants_any({"softmax_stats", "cross_entropy_backward"})) return;
  const double bytes = logits_bytes(b);
  Tensors t(b.memory, b.o.rotation, bytes);
  const Loss l = take_loss(b, t);
  b.measure("softmax_stats", l.logits[0], t.sets(), bytes, true, [&](size_t i) {
    b.ops.softmax_stats(b.context, l.logits[i], l.targets, 0, b.o.vocabulary, l.max, l.sum, l.target);
  });
  b.measure("cross_entropy_backward", l.logits[0], t.sets(), 2 * bytes, true, [&](size_t i) {
    b.ops.cross_entropy_backward(b.context, l.logits[i], l.targets, 0, b.o.vocabulary, l.max, l.sum, 1e-3f);
  });
}

void measure_head(Bench& b) {
  if (!b.wants_any({"head", "head_backward_input", "head_backward_weight"})) return;
  Tensors t(b.memory, b.o.rotation, logits_bytes(b));
  const Loss l = take_loss(b, t);
  const View x = t.shared(b.o.dtype, {b.o.loss_rows, b.o.width}), w = t.shared(b.o.dtype, {b.o.columns, b.o.width});
  const View dw = t.shared(DType::f32, {b.o.columns, b.o.width});
  const double flops = 2 * static_cast<double>(b.o.loss_rows * b.o.columns * b.o.width);
  b.measure("head", l.logits[0], t.sets(), flops, false, [&](size_t i) {
    b.ops.linear_softmax_stats(b.context, x, w, {}, l.targets, 0, b.o.vocabulary, l.logits[i], l.max, l.sum, l.target);
  });
  b.measure("head_backward_input", l.logits[0], t.sets(), flops, false,
            [&](size_t i) { b.ops.linear_backward_input(b.context, l.logits[i], w, x); });
  b.measure("head_backward_weight", l.logits[0], t.sets(), flops, false,
            [&](size_t i) { b.ops.linear_backward_weight(b.context, l.logits[i], x, dw, Write::accumulate); });
}

void measure_parameters(Bench& b) {
  if (!b.wants_any({"squared_norms", "add", "zero", "adamw"})) return;
  const auto n = static_cast<double>(b.o.parameters);
  const Shape flat{b.o.parameters};
  Tensors t(b.memory, b.o.rotation, 16 * n);
  const View grad = t.shared(DType::f32, flat), m = t.shared(DType::f32, flat), v = t.shared(DType::f32, flat);
  const bool split = b.o.dtype == DType::bf16;
  const View weights = t.shared(b.o.dtype, flat), remainder = split ? t.shared(DType::i16, flat) : View();
  const AdamW options{1e-4f};
  Arena norms(static_cast<size_t>((b.o.parameters + kNormChunk - 1) / kNormChunk) * sizeof(double), b.ops.device());
  const View values = norms.take(DType::f64, {(b.o.parameters + kNormChunk - 1) / kNormChunk});
  b.measure("squared_norms", grad, 1, 4 * n, true, [&](size_t) { b.ops.squared_norms(b.context, grad, values); });
  b.measure("add", grad, 1, 12 * n, true, [&](size_t) { b.ops.add(b.context, grad, m); });
  b.measure("zero", grad, 1, 4 * n, true, [&](size_t) { b.ops.zero(b.context, v); });
  b.measure("adamw", grad, 1, 28 * n, true,
            [&](size_t) { b.ops.adamw(b.context, options, grad, m, v, weights, remainder); });
}

/// As a snapshot's writer computes it: on one thread of the CPU, whatever b.o.threads.
void measure_weights_hash(Bench& b) {
  if (!b.ops.device().is_host() || !b.is_wanted("element_sum_one_thread")) return;
  const Shape flat{b.o.parameters};
  Tensors t(b.memory, b.o.rotation, 4 * static_cast<double>(b.o.parameters));
  const View weights = t.shared(DType::f32, flat);
  uint64_t sum = 0;  // keeps the call
  b.measure("element_sum_one_thread", weights, 1, 4 * static_cast<double>(b.o.parameters), true,
            [&](size_t) { sum = element_sum(sum, 0, weights.values<float>()); });
}

OpsBenchTable run(Bench&& b) {
  measure_copy(b);
  measure_linear(b);
  measure_norm(b);
  measure_elementwise(b);
  measure_decoders(b);
  measure_embedding(b);
  measure_attention(b);
  measure_delta(b);
  measure_loss(b);
  measure_head(b);
  measure_parameters(b);
  measure_weights_hash(b);
  b.require_known();
  for (OpsBenchRow& row : b.table.rows) {
    row.share = row.rate / (row.counts_bytes ? b.table.copy_bytes_per_s : b.table.gemm_flops_per_s);
    row.best =
        row.amount / row.fastest / (row.counts_bytes ? b.table.best_copy_bytes_per_s : b.table.best_gemm_flops_per_s);
  }
  return std::move(b.table);
}

/// Measures operators that count bytes, without those that read a complete table.
OpsBenchTable run_between_products(Bench&& b) {
  measure_copy(b);
  measure_norm(b);
  measure_elementwise(b);
  measure_decoders(b);
  measure_loss(b);
  measure_parameters(b);
  measure_weights_hash(b);
  return std::move(b.table);
}

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
  OpsBenchTable table = run(Bench(ops, options));
  if (!ops.device().is_host()) return table;
  const OpsBenchTable in_cache = run_between_products(Bench(ops, cached(options)));
  for (OpsBenchRow& row : table.rows)
    for (const OpsBenchRow& other : in_cache.rows)
      if (other.op == row.op)
        row.cached = other.amount / other.fastest * (row.op.ends_with("_one_thread") ? 1 : options.threads);
  return table;
}

std::string to_text(const OpsBenchTable& table, DType dtype, const DataSheet& sheet) {
  std::string text;
  if (!sheet.card.empty())
    text = fmt::format("data sheet of {}: copy reaches {:.0f} % of {:.0f} GB/s, linear {:.0f} % of {:.0f} TFLOP/s\n",
                       sheet.card, 1e2 * table.copy_bytes_per_s / sheet.bytes, sheet.bytes / 1e9,
                       1e2 * table.gemm_flops_per_s / sheet.flops(dtype), sheet.flops(dtype) / 1e12);
  text +=
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
