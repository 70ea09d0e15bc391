// Operators on the GPU and on the CPU, with the same values. The CPU computes in f32; inputs are rounded to the type in
// which the GPU computes, so a difference is what the GPU rounds and the order of its sums.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/device/checks.h"

namespace trireme::device_check {
namespace {

/// Limits of Difference. f32: sums of up to 50,304 products in another order. bf16: a rounding is at most 4e-3, 2e-3
/// typically, and attention rounds probabilities and dS, too. The most that the operators of GPT-2 124M showed on the
/// executor: f32 4e-6, bf16 3.1e-2 (dS of a single element).
struct Tolerance {
  double worst, typical;
};
constexpr Tolerance kTolerance32{5e-5, 5e-6}, kTolerance16{1e-1, 1e-2};

Tolerance tolerance_of(DType dtype) { return dtype == DType::f32 ? kTolerance32 : kTolerance16; }

/// Why the difference is too large; empty: it is not.
std::string excess(const Difference& found, const Tolerance& most) {
  if (found.worst > most.worst)
    return fmt::format("{}: a difference of {:.2g}, but at most {:.2g} is expected", found.text, found.worst,
                       most.worst);
  if (found.typical > most.typical)
    return fmt::format("typical differences of {:.2g}, but at most {:.2g} is expected; the largest: {}", found.typical,
                       most.typical, found.text);
  return "";
}

struct Case {
  const char* name;
  void (*run)(Side&);
};

/// Weights of that many inputs: outputs are of the size of inputs.
View weights(Side& s, int64_t out, int64_t in, uint64_t seed) {
  return s.input({out, in}, seed, 1 / std::sqrt(static_cast<double>(in)));
}

void linear(Side& s, int64_t in, int64_t out) {
  const View y = s.empty({s.sizes.rows(), out});
  s.ops.linear(s.context, s.input({s.sizes.rows(), in}, 1), weights(s, out, in, 2), s.input({out}, 3), y);
  s.keep("y", y);
}

void linear_backward(Side& s, Write write) {
  const int64_t in = s.sizes.spec.width, out = s.sizes.spec.mlp_in_width();
  const View dy = s.input({s.sizes.rows(), out}, 1), dx = s.empty({s.sizes.rows(), in});
  const View dw = s.input_f32({out, in}, 4);
  s.ops.linear_backward_input(s.context, dy, weights(s, out, in, 2), dx);
  s.ops.linear_backward_weight(s.context, dy, s.input({s.sizes.rows(), in}, 3), dw, write);
  s.keep("dx", dx);
  s.keep("dw", dw);
}

const Case kProducts[] = {
    {"linear of queries, keys, values", [](Side& s) { linear(s, s.sizes.spec.width, s.sizes.spec.qkv_width()); }},
    {"linear out of the MLP", [](Side& s) { linear(s, s.sizes.spec.inner_width, s.sizes.spec.width); }},
    {"linear_activation",
     [](Side& s) {
       const int64_t in = s.sizes.spec.width, out = s.sizes.spec.inner_width;
       const View pre = s.empty({s.sizes.rows(), out}), y = s.empty({s.sizes.rows(), out});
       s.ops.linear_activation(s.context, s.input({s.sizes.rows(), in}, 1), weights(s, out, in, 2), s.input({out}, 3),
                               s.sizes.spec.activation, pre, y);
       s.keep("pre", pre);
       s.keep("y", y);
     }},
    {"linear_backward", [](Side& s) { linear_backward(s, Write::overwrite); }},
    {"linear_backward that adds", [](Side& s) { linear_backward(s, Write::add); }},
    {"head",
     [](Side& s) {
       const Spec& spec = s.sizes.spec;
       const int64_t rows = s.sizes.rows();
       const View logits = s.empty({rows, spec.vocabulary_rows}), max = s.empty(DType::f32, {rows}),
                  sum = s.empty(DType::f32, {rows}), target = s.empty(DType::f32, {rows});
       const View x = s.input({rows, spec.width}, 1), dx = s.empty({rows, spec.width});
       const View w = weights(s, spec.vocabulary_rows, spec.width, 2),
                  dw = s.input_f32({spec.vocabulary_rows, spec.width}, 3);
       s.ops.linear_softmax_stats(s.context, x, w, {}, s.ids(DType::i32, {rows}, spec.vocabulary), 0, spec.vocabulary,
                                  logits, max, sum, target);
       s.ops.linear_backward_input(s.context, logits, w, dx);
       s.ops.linear_backward_weight(s.context, logits, x, dw, Write::accumulate);
       s.keep("max", max);
       s.keep("sum", sum);
       s.keep("target", target);
       s.keep("dx", dx);
       s.keep("dw", dw);
     }},
};

/// Rows of the model's width, and what norms save of them.
struct Rows {
  explicit Rows(Side& s) : side(s), shape{s.sizes.rows(), s.sizes.spec.width} {}
  View statistic() const { return side.empty(DType::f32, {shape[0]}); }
  View gain(uint64_t seed) const { return side.input({shape[1]}, seed, 0.5, 1); }
  Side& side;
  Shape shape;
};

Dropout dropout_of(Side& s) {
  std::vector<int32_t> positions(static_cast<size_t>(s.sizes.rows()));
  for (size_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<int32_t>(static_cast<int64_t>(i) % s.sizes.sequence);
  return {.rate = 0.1f,
          .key = dropout_key(1, 2, 3, 0),
          .sample = s.ids(DType::i64, {s.sizes.rows()}, int64_t{1} << 40),
          .position = s.place(DType::i32, {s.sizes.rows()}, std::as_bytes(std::span(positions)))};
}

View positions_of(Side& s) { return s.ids(DType::i32, {s.sizes.rows()}, s.sizes.sequence); }

AttentionShape attention_of(Side& s, int group) {
  AttentionShape shape = s.sizes.attention();
  if (group > 0) {
    const int heads = shape.heads();
    shape.group = heads % group == 0 ? group : 1;
    shape.kv_heads = heads / shape.group;
  }
  std::vector<int32_t> ends(static_cast<size_t>(s.sizes.batch + 1));
  for (size_t i = 0; i < ends.size(); ++i) ends[i] = static_cast<int32_t>(static_cast<int64_t>(i) * s.sizes.sequence);
  shape.offsets = s.place(DType::i32, {s.sizes.batch + 1}, std::as_bytes(std::span(ends)));
  shape.equal_length = s.sizes.sequence;
  return shape;
}

Shape qkv_of(Side& s, const AttentionShape& shape) {
  return {s.sizes.rows(), shape.kv_heads, shape.group + 2, shape.head_dim};
}

void attention(Side& s, const AttentionShape& shape, const Dropout& dropout) {
  const Shape heads{s.sizes.rows(), shape.heads(), shape.head_dim};
  const View qkv = s.input(qkv_of(s, shape), 1), out = s.empty(heads), dqkv = s.empty(qkv.shape());
  const View lse = s.empty(DType::f32, {shape.heads(), s.sizes.rows()});
  s.ops.attention(s.context, qkv, shape, dropout, out, lse);
  s.ops.attention_backward(s.context, s.input(heads, 2), qkv, out, lse, shape, dropout, dqkv);
  s.keep("out", out);
  s.keep("lse", lse);
  s.keep("dqkv", dqkv);
}

const Case kOperators[] = {
    {"bias_backward",
     [](Side& s) {
       const View db = s.empty(DType::f32, {s.sizes.spec.inner_width});
       s.ops.bias_backward(s.context, s.input({s.sizes.rows(), s.sizes.spec.inner_width}, 1), db, Write::overwrite);
       s.keep("db", db);
     }},
    {"layer_norm",
     [](Side& s) {
       const Rows r(s);
       const View x = s.input(r.shape, 1), w = r.gain(2), y = s.empty(r.shape), mean = r.statistic(),
                  rstd = r.statistic(), dx = s.input(r.shape, 5);
       const View dw = s.empty(DType::f32, {r.shape[1]}), db = s.empty(DType::f32, {r.shape[1]});
       s.ops.layer_norm(s.context, x, w, s.input({r.shape[1]}, 3), 1e-5f, y, mean, rstd);
       s.ops.layer_norm_backward(s.context, s.input(r.shape, 4), x, w, mean, rstd, dx, dw, db, Write::overwrite);
       s.keep("y", y);
       s.keep("rstd", rstd);
       s.keep("dx", dx);
       s.keep("dw", dw);
       s.keep("db", db);
     }},
    {"rms_norm",
     [](Side& s) {
       const Rows r(s);
       const View x = s.input(r.shape, 1), w = r.gain(2), y = s.empty(r.shape), rstd = r.statistic(),
                  dx = s.input(r.shape, 4), dw = s.empty(DType::f32, {r.shape[1]});
       s.ops.rms_norm(s.context, x, w, 0, 1e-6f, y, rstd);
       s.ops.rms_norm_backward(s.context, s.input(r.shape, 3), x, w, 0, rstd, dx, dw, Write::overwrite);
       s.keep("y", y);
       s.keep("dx", dx);
       s.keep("dw", dw);
     }},
    {"activation",
     [](Side& s) {
       const Shape shape{s.sizes.rows(), s.sizes.spec.inner_width};
       const View x = s.input(shape, 1, 3), y = s.empty(shape), dx = s.empty(shape),
                  db = s.empty(DType::f32, {shape[1]});
       s.ops.activation(s.context, x, s.sizes.spec.activation, y);
       s.ops.activation_bias_backward(s.context, s.input(shape, 2), x, s.sizes.spec.activation, dx, db,
                                      Write::overwrite);
       s.keep("y", y);
       s.keep("dx", dx);
       s.keep("db", db);
     }},
    {"gated_activation",
     [](Side& s) {
       const Shape wide{s.sizes.rows(), 2 * s.sizes.spec.width}, shape{s.sizes.rows(), s.sizes.spec.width};
       const View x = s.input(wide, 1, 3), y = s.empty(shape), dx = s.empty(wide);
       s.ops.gated_activation(s.context, x, Activation::silu, y);
       s.ops.gated_activation_backward(s.context, s.input(shape, 2), x, Activation::silu, dx);
       s.keep("y", y);
       s.keep("dx", dx);
     }},
    {"dropout_add_norm",
     [](Side& s) {
       const Rows r(s);
       const View sum = s.empty(r.shape), y = s.empty(r.shape), mean = r.statistic(), rstd = r.statistic();
       const RowNorm norm{.w = r.gain(3), .b = s.input({r.shape[1]}, 4)};
       s.ops.dropout_add_norm(s.context, s.input(r.shape, 1), s.input(r.shape, 2), dropout_of(s), 1, sum, norm, y, mean,
                              rstd);
       s.keep("sum", sum);
       s.keep("y", y);
     }},
    {"embedding",
     [](Side& s) {
       const Rows r(s);
       const Spec& spec = s.sizes.spec;
       const View tokens = s.ids(DType::i32, {r.shape[0]}, spec.vocabulary), y = s.empty(r.shape),
                  dtable = s.empty(DType::f32, {spec.vocabulary_rows, spec.width});
       s.ops.embedding(s.context, tokens, positions_of(s), s.input({spec.vocabulary_rows, spec.width}, 1),
                       s.input({s.sizes.sequence, spec.width}, 2), y);
       s.ops.embedding_backward(s.context, tokens, s.input(r.shape, 3), dtable, Write::overwrite);
       s.keep("y", y);
       s.keep("dtable", dtable);
     }},
    {"rotary",
     [](Side& s) {
       const AttentionShape shape = s.sizes.attention();
       const int dims = shape.head_dim / 2 * 2;
       std::vector<float> frequencies(static_cast<size_t>(dims / 2));
       for (size_t i = 0; i < frequencies.size(); ++i)
         frequencies[i] = std::pow(10000.0f, -2 * static_cast<float>(i) / static_cast<float>(dims));
       const View table = s.empty(DType::f32, {s.sizes.sequence, dims}), qkv = s.input(qkv_of(s, shape), 1);
       s.ops.rotary_table(s.context, frequencies, 1, table);
       s.ops.rotary(s.context, qkv, positions_of(s), table);
       s.keep("qkv", qkv);
     }},
    {"query_key_norm",
     [](Side& s) {
       const AttentionShape shape = s.sizes.attention();
       const View qkv = s.input(qkv_of(s, shape), 1), y = s.empty(qkv.shape());
       const View squares = s.empty(DType::f32, {s.sizes.rows(), shape.kv_heads * (shape.group + 1)});
       const QueryKeyNorm norm{.q = s.input({shape.head_dim}, 2, 0.5, 1),
                               .k = s.input({shape.head_dim}, 3, 0.5, 1),
                               .q_count = shape.head_dim,
                               .k_count = shape.head_dim};
       s.ops.query_key_squares(s.context, qkv, norm, squares);
       s.ops.query_key_norm(s.context, qkv, norm, squares, y);
       s.keep("y", y);
     }},
    {"attention", [](Side& s) { attention(s, attention_of(s, 0), {}); }},
    {"attention with dropout", [](Side& s) { attention(s, attention_of(s, 0), dropout_of(s)); }},
    {"attention in groups and windows",
     [](Side& s) {
       AttentionShape shape = attention_of(s, 2);
       shape.window = std::max<int64_t>(1, s.sizes.sequence / 2);
       attention(s, shape, {});
     }},
    {"attention_cached",
     [](Side& s) {
       AttentionShape shape = s.sizes.attention();
       std::vector<int32_t> ends, past;
       for (int64_t i = 0; i <= s.sizes.batch; ++i) ends.push_back(static_cast<int32_t>(i));
       for (int64_t i = 0; i < s.sizes.batch; ++i) past.push_back(static_cast<int32_t>(s.sizes.sequence - 1));
       shape.offsets = s.place(DType::i32, {s.sizes.batch + 1}, std::as_bytes(std::span(ends)));
       const View cache = s.input({s.sizes.batch, 2 * shape.kv_heads, s.sizes.sequence, shape.head_dim}, 1);
       const View qkv = s.input({s.sizes.batch, shape.kv_heads, shape.group + 2, shape.head_dim}, 2);
       const View out = s.empty({s.sizes.batch, shape.heads(), shape.head_dim});
       s.ops.attention_cached(s.context, qkv, shape,
                              s.place(DType::i32, {s.sizes.batch}, std::as_bytes(std::span(past))), cache, out);
       s.keep("out", out);
     }},
    {"cross_entropy",
     [](Side& s) {
       const int64_t rows = s.sizes.rows(), classes = s.sizes.spec.vocabulary, columns = s.sizes.spec.vocabulary_rows;
       const View logits = s.input({rows, columns}, 1, 4), targets = s.ids(DType::i32, {rows}, classes);
       const View max = s.empty(DType::f32, {rows}), sum = s.empty(DType::f32, {rows}),
                  target = s.empty(DType::f32, {rows}), total = s.empty(DType::f64, {1});
       s.ops.softmax_stats(s.context, logits, targets, 0, classes, max, sum, target);
       s.ops.cross_entropy(s.context, max, sum, target, targets, total);
       s.ops.cross_entropy_backward(s.context, logits, targets, 0, classes, max, sum, 1);
       s.keep("total", total);
       s.keep("sum", sum);
       s.keep("dlogits", logits);
     }},
    {"sum_parts",
     [](Side& s) {
       const Rows r(s);
       const View y = s.empty({r.shape.count()});
       s.ops.sum_parts(s.context, s.input({3, r.shape.count()}, 1), y);
       s.keep("y", y);
     }},
};

/// All cases in f32 and bf16, against the CPU in f32.
Result compare(const Bench& bench, std::span<const Case> cases) {
  Result result;
  std::string worst_names;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Side gpu(*bench.gpu.ops, 1, dtype, dtype, bench.sizes);
    Side cpu(*bench.cpu.ops, bench.rank.threads, DType::f32, dtype, bench.sizes);
    Difference worst;
    double typical = 0;
    const char* worst_name = "";
    for (const Case& one : cases) {
      gpu.begin();
      cpu.begin();
      one.run(gpu);
      one.run(cpu);
      const Difference found = difference(gpu, cpu);
      if (const std::string too_large = excess(found, tolerance_of(dtype)); !too_large.empty())
        return failed(fmt::format("{} in {}: {}", one.name, name_of(dtype), too_large));
      typical = std::max(typical, found.typical);
      if (found.worst < worst.worst) continue;
      worst = found;
      worst_name = one.name;
    }
    gpu.begin();
    result.figures.push_back({fmt::format("worst_{}", name_of(dtype)), worst.worst});
    result.figures.push_back({fmt::format("typical_{}", name_of(dtype)), typical});
    worst_names += fmt::format("{}{} {:.1e} of {:.1e} ({})", worst_names.empty() ? "" : ", ", name_of(dtype),
                               worst.worst, tolerance_of(dtype).worst, worst_name);
  }
  result.text = fmt::format("{} kinds of calls, largest differences from the CPU: {}", cases.size(), worst_names);
  return result;
}

}  // namespace

Result check_products(const Bench& bench) { return compare(bench, kProducts); }

Result check_operators(const Bench& bench) { return compare(bench, kOperators); }

Result check_cudnn(const Bench& bench) {
  // What cuDNN may compute (docs/gpu.md), with the model's heads where they are such.
  Sizes sizes = bench.sizes;
  Spec& spec = sizes.spec;
  sizes.sequence = std::max<int64_t>(128, sizes.sequence / 64 * 64);
  spec.key_heads = 0;
  if (spec.head_dim() % 16 != 0 || spec.head_dim() < 32 || spec.head_dim() > 128) spec.head_size = 64;
  const auto call = [](Side& s) {
    s.begin();
    attention(s, attention_of(s, 0), {});
  };
  Backend backend = bench.open_with_cudnn();
  Side theirs(*backend.ops, 1, DType::bf16, DType::bf16, sizes),
      ours(*bench.gpu.ops, 1, DType::bf16, DType::bf16, sizes);
  Side cpu(*bench.cpu.ops, bench.rank.threads, DType::f32, DType::bf16, sizes);
  call(theirs);
  call(ours);
  if (other_bits(theirs, ours).empty())
    return not_checked("this program's kernels computed the attention, for the reason that the log gives");
  call(cpu);
  const Difference of_cpu = difference(theirs, cpu), of_ours = difference(theirs, ours);
  for (const auto& [found, from] : {std::pair{of_cpu, "the CPU"}, std::pair{of_ours, "this program's kernels"}})
    if (const std::string too_large = excess(found, kTolerance16); !too_large.empty())
      return failed(fmt::format("attention by cuDNN and by {}: {}", from, too_large));
  theirs.begin();
  return {.text = fmt::format("largest difference from the CPU {:.1e}, from this program's kernels {:.1e}, of {:.1e}",
                              of_cpu.worst, of_ours.worst, kTolerance16.worst),
          .figures = {{"worst_from_cpu", of_cpu.worst}, {"worst_from_kernels", of_ours.worst}}};
}

}  // namespace trireme::device_check
