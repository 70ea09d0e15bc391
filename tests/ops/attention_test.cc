#include "ops/cpu/tiles.h"
#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

/// Packed sequences of the given lengths, attention inputs and outputs. heads: kv heads, with `group` query heads each.
struct Attention {
  AttentionShape shape;
  Dropout dropout;
  Tensor offsets, sample, position;
  Tensor qkv, out, lse, dout, dqkv;

  Attention(DType a, std::vector<int> lengths, int heads, int head_dim, bool causal, float rate = 0,
            int first_position = 0, int group = 1) {
    const DType s = a == DType::f64 ? DType::f64 : DType::f32;
    std::vector<double> ends{0}, samples, positions;
    for (size_t i = 0; i < lengths.size(); ++i) {
      ends.push_back(ends.back() + lengths[i]);
      for (int t = 0; t < lengths[i]; ++t) {
        samples.push_back(static_cast<double>((int64_t{3} << 32) + 17 + static_cast<int64_t>(i)));
        positions.push_back(first_position + t);
      }
    }
    const auto rows = static_cast<int64_t>(ends.back());
    offsets = Tensor(DType::i32, {static_cast<int64_t>(ends.size())}, ends);
    sample = Tensor(DType::i64, {rows}, samples);
    position = Tensor(DType::i32, {rows}, positions);
    qkv = Tensor::random(a, {rows, heads, group + 2, head_dim}, 1, 2);  // peaked: every key matters to some query
    dout = Tensor::random(a, {rows, heads * group, head_dim}, 2);
    out = Tensor(a, dout.view().shape());
    dqkv = Tensor(a, qkv.view().shape());
    lse = Tensor(s, {heads * group, rows});
    shape = {.kv_heads = heads,
             .group = group,
             .head_dim = head_dim,
             .causal = causal,
             .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
             .offsets = {}};
    if (!lengths.empty() && std::ranges::count(lengths, lengths[0]) == std::ssize(lengths))
      shape.equal_length = lengths[0];
    dropout = {rate, dropout_key(1, 2, 3, 4), {}, {}};
  }
  Attention wide() const {
    Attention w = *this;
    for (Tensor* t : {&w.qkv, &w.dout, &w.out, &w.dqkv, &w.lse}) *t = t->wide();
    return w;
  }
  void bind() {
    shape.offsets = offsets.view();
    dropout.sample = sample.view();
    dropout.position = position.view();
  }
  void forward(Device& d) {
    bind();
    d.ops->attention(d.context, qkv.view(), shape, dropout, out.view(), lse.view());
  }
  void backward(Device& d) {
    bind();
    d.ops->attention_backward(d.context, dout.view(), qkv.view(), out.view(), lse.view(), shape, dropout, dqkv.view());
  }
  std::string name() const {
    return fmt::format("rows {} kv heads {} group {} size {} causal {} dropout {} window {} cap {}", qkv.view().rows(),
                       shape.kv_heads, shape.group, shape.head_dim, shape.causal, dropout.rate, shape.window,
                       shape.soft_cap);
  }
};

Attention windowed(Attention a, int64_t window) {
  a.shape.window = window;
  return a;
}
Attention capped(Attention a, float soft_cap) {
  a.shape.soft_cap = soft_cap;
  return a;
}

/// Outputs are averages of values of size 2. With bf16 operands, scores are exact sums in f32, and probabilities and dS
/// are rounded to bf16 (2^-9) where the CPU multiplies bf16. Gradients also see that `out` was saved in bf16: dO . out
/// is off by about 0.03, which meets keys of size 2. f16 rounds eight times finer. In f32 the error of a score of 40,
/// 5e-6, is one of its exponential.
Tolerance output_tolerance(DType dtype) {
  return dtype == DType::f32   ? Tolerance{1e-5, 2e-5}
         : dtype == DType::f16 ? Tolerance{0x1.2p-11, 0.001}
                               : Tolerance{0x1.2p-8, 0.008};
}
double lse_tolerance(DType dtype) { return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 2.5e-4 : 2e-3; }
/// dK and dV of a group are sums whose errors do not depend on each other.
Tolerance gradient_tolerance(DType dtype, int group = 1) {
  const double terms = std::sqrt(static_cast<double>(group));
  if (dtype == DType::f32) return {2e-5, 4e-5 * terms};
  return dtype == DType::f16 ? Tolerance{0x1.2p-11, 0.015 * terms} : Tolerance{0x1.2p-8, 0.12 * terms};
}

class AttentionOp : public CpuOp {
 protected:
  void expect_equals_reference(Attention got) {
    Attention want = got.wide();
    got.forward(*cpu);
    want.forward(*reference);
    expect_close(got.out, want.out, output_tolerance(dtype()), "out, " + got.name());
    expect_close(got.lse, want.lse, {lse_tolerance(dtype()), 1e-5}, "lse, " + got.name());
    got.backward(*cpu);
    want.backward(*reference);
    expect_close(got.dqkv, want.dqkv, gradient_tolerance(dtype(), got.shape.group), "dqkv, " + got.name());
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, AttentionOp, every_case(), case_name);

TEST_P(AttentionOp, EqualsTheReferenceForEveryHeadSize) {
  for (int head_dim : {1, 8, 16, 20, 64, 80, 96, 128})
    for (bool causal : {true, false}) expect_equals_reference(Attention(dtype(), {37, 1, 70}, 2, head_dim, causal));
}

TEST_P(AttentionOp, EqualsTheReferenceOverTilesOfKeysAndBlocksOfQueries) {
  for (bool causal : {true, false}) {
    expect_equals_reference(Attention(dtype(), {201}, 1, 64, causal));
    expect_equals_reference(Attention(dtype(), {64, 128, 96, 65, 3, 0, 2}, 3, 16, causal));
    expect_equals_reference(Attention(dtype(), {530}, 1, 64, causal));  // three spans of keys in bf16
    expect_equals_reference(Attention(dtype(), {300}, 1, 16, causal, 0.3f));
  }
}

TEST_P(AttentionOp, EqualsTheReferenceForEqualLengths) {
  for (bool causal : {true, false}) {
    for (int head_dim : {32, 80, 128}) expect_equals_reference(Attention(dtype(), {128, 128}, 2, head_dim, causal));
    expect_equals_reference(Attention(dtype(), {192}, 3, 64, causal));
  }
}

TEST_P(AttentionOp, DropoutFollowsTheCounterRule) {
  for (bool causal : {true, false})
    for (int first_position : {0, 5})
      expect_equals_reference(Attention(dtype(), {130, 7}, 2, 16, causal, 0.3f, first_position));
}

TEST_P(AttentionOp, EqualsTheReferenceForGroupsOfQueryHeads) {
  for (int group : {2, 3, 4, 8})
    for (bool causal : {true, false})
      expect_equals_reference(Attention(dtype(), {37, 1, 70}, 1, 20, causal, 0, 0, group));
  expect_equals_reference(Attention(dtype(), {201}, 1, 64, true, 0, 0, 3));
  expect_equals_reference(Attention(dtype(), {67, 0, 5}, 5, 128, true, 0, 0, 2));
  expect_equals_reference(Attention(dtype(), {130, 7}, 2, 16, true, 0.3f, 5, 3));
}

TEST_P(AttentionOp, EqualsTheReferenceForWindows) {
  constexpr int kTile = 64;  // keys
  for (const int window : {1, 5, kTile - 1, kTile, kTile + 1, 2 * kTile + 37, 300}) {
    expect_equals_reference(windowed(Attention(dtype(), {230}, 1, 20, true), window));
    expect_equals_reference(windowed(Attention(dtype(), {70, 0, 9, 131}, 1, 64, true, 0, 0, 2), window));
  }
  expect_equals_reference(windowed(Attention(dtype(), {150, 7}, 2, 16, true, 0.3f, 5, 3), 70));
  expect_equals_reference(windowed(Attention(dtype(), {400}, 1, 128, true), 33));
}

TEST_P(AttentionOp, EqualsTheReferenceForSoftCaps) {
  for (const float cap : {0.5f, 5.0f, 50.0f}) {
    expect_equals_reference(capped(Attention(dtype(), {37, 1, 140}, 1, 20, true, 0, 0, 2), cap));
    expect_equals_reference(capped(Attention(dtype(), {101}, 1, 64, false), cap));
  }
  Attention all(dtype(), {150, 7}, 1, 16, true, 0.3f, 5, 3);
  all.shape.scale = 0.7f;
  expect_equals_reference(capped(windowed(all, 70), 10));
}

TEST_P(AttentionOp, AWindowOfAllKeysHasTheBitsOfNone) {
  Attention all(dtype(), {150, 90}, 2, 64, true, 0, 0, 2), wide = windowed(all, 150);
  for (Attention* a : {&all, &wide}) {
    a->forward(*cpu);
    a->backward(*cpu);
  }
  EXPECT_TRUE(all.out == wide.out && all.lse == wide.lse && all.dqkv == wide.dqkv);
}

TEST_P(AttentionOp, AWindowDoesNotReadTheTilesBeforeIt) {
  Attention a = windowed(Attention(dtype(), {300}, 1, 16, true), 5);
  for (size_t i = 0; i < 64 * 48; ++i) a.qkv.set(i, NAN);  // the first tile of keys
  a.forward(*cpu);
  a.backward(*cpu);
  for (size_t i = 192 * 16; i < 300 * 16; ++i) ASSERT_TRUE(std::isfinite(a.out.at(i))) << i;
  for (size_t i = 192 * 48; i < 300 * 48; ++i) ASSERT_TRUE(std::isfinite(a.dqkv.at(i))) << i;
}

/// The same with every group's k and v copied for each of its query heads.
Attention repeated(const Attention& of, DType dtype, const std::vector<int>& lengths) {
  const int group = of.shape.group;
  const int64_t dim = of.shape.head_dim, vectors = of.qkv.view().count() / dim, parts = group + 2;
  Attention all(dtype, lengths, of.shape.heads(), of.shape.head_dim, of.shape.causal);
  for (int64_t i = 0; i < vectors / parts * group * 3 * dim; ++i) {
    const int64_t head = i / (3 * dim), part = i / dim % 3, from = part == 0 ? head % group : group + part - 1;
    all.qkv.set(static_cast<size_t>(i), of.qkv.at(static_cast<size_t>((head / group * parts + from) * dim + i % dim)));
  }
  return all;
}

TEST_P(AttentionOp, AGroupSharesItsKeysAndValues) {
  const std::vector<int> lengths = {70, 9};
  for (Device* device : {cpu.get(), reference.get()}) {
    const DType dtype = device == cpu.get() ? this->dtype() : DType::f64;
    const int group = 3, dim = 16, parts = group + 2;
    Attention grouped(dtype, lengths, 2, dim, true, 0, 0, group), all = repeated(grouped, dtype, lengths);
    for (Attention* a : {&grouped, &all}) {
      a->forward(*device);
      a->backward(*device);
    }
    EXPECT_TRUE(grouped.out == all.out && grouped.lse == all.lse);
    Tensor sums(DType::f64, grouped.dqkv.view().shape());
    for (size_t i = 0; i < all.dqkv.size(); ++i) {
      const size_t head = i / (3 * dim), part = i / dim % 3, to = part == 0 ? head % group : group + part - 1;
      const size_t at = (head / group * parts + to) * dim + i % dim;
      sums.set(at, sums.at(at) + all.dqkv.at(i));
    }
    expect_close(grouped.dqkv, sums, gradient_tolerance(dtype, group), "dqkv");
  }
}

/// KV heads [first, first + count) of a call with their groups, as a rank has them that holds only these.
Attention heads_of(const Attention& all, int first, int count) {
  Attention part = all;
  const int64_t rows = all.qkv.view().rows(), dim = all.shape.head_dim, group = all.shape.group;
  const auto cut = [&](const Tensor& from, const Shape& shape) {
    Tensor to(from.view().dtype(), shape);
    const int64_t part_row = to.view().count() / rows, all_row = from.view().count() / rows;
    for (int64_t i = 0; i < rows * part_row; ++i) {
      const int64_t at = i / part_row * all_row + first * part_row / count + i % part_row;
      to.set(static_cast<size_t>(i), from.at(static_cast<size_t>(at)));
    }
    return to;
  };
  part.qkv = cut(all.qkv, {rows, count, group + 2, dim});
  part.dqkv = cut(all.dqkv, {rows, count, group + 2, dim});
  part.out = cut(all.out, {rows, count * group, dim});
  part.dout = cut(all.dout, {rows, count * group, dim});
  part.lse = Tensor(all.lse.view().dtype(), {count * group, rows});
  part.shape.kv_heads = count;
  part.shape.first_head = all.shape.first_head + first * all.shape.group;
  return part;
}

TEST_P(AttentionOp, DropoutCountsHeadsOverTheWholeModel) {
  for (Device* device : {cpu.get(), reference.get()})
    for (const int group : {1, 2}) {
      const DType dtype = device == cpu.get() ? this->dtype() : DType::f64;
      Attention all(dtype, {70, 9}, 4, 16, true, 0.3f, 0, group);
      all.forward(*device);
      all.backward(*device);
      for (const int first : {0, 1, 2}) {
        Attention part = heads_of(all, first, 2);
        const Attention want = part;  // holds the outputs of all heads, cut
        part.out = Tensor(dtype, part.out.view().shape());
        part.dqkv = Tensor(dtype, part.dqkv.view().shape());
        part.forward(*device);
        part.backward(*device);
        expect_close(part.out, want.out, output_tolerance(dtype), "out of heads from " + std::to_string(first));
        expect_close(part.dqkv, want.dqkv, gradient_tolerance(dtype), "dqkv of heads from " + std::to_string(first));
      }
      Attention other = heads_of(all, 2, 2);
      const Attention want = other;
      other.shape.first_head = 0;
      other.forward(*device);
      EXPECT_FALSE(other.out == want.out) << "the masks of heads 0 and 1 are others";
    }
}

TEST_P(AttentionOp, LargeScoresDoNotOverflow) {
  Attention a(dtype(), {90}, 1, 16, true);
  a.qkv = Tensor::random(dtype(), {90, 1, 3, 16}, 1, 30);
  for (const float cap : {0.0f, 1000.0f}) {
    a.shape.soft_cap = cap;
    Attention want = a.wide();
    a.forward(*cpu);
    want.forward(*reference);
    expect_close(a.out, want.out, {0.03, dtype() == DType::f32 ? 2e-2 : dtype() == DType::f16 ? 0.1 : 0.6}, a.name());
  }
}

TEST_P(AttentionOp, ScoresMayRiseOrFallFromTileToTile) {
  constexpr int kRows = 330, kSize = 16;
  for (double per_key : {0.02, 0.05, 0.3, -0.3}) {  // powers of 2: within the slack; past it in steps; at once; falling
    Attention a(dtype(), {kRows}, 1, kSize, true);
    a.qkv = Tensor::random(dtype(), {kRows, 1, 3, kSize}, 1, 0.5);
    for (size_t row = 0; row < kRows; ++row) {
      a.qkv.set(row * 3 * kSize, std::sqrt(kSize));
      a.qkv.set((row * 3 + 1) * kSize, per_key * std::log(2.0) * static_cast<double>(row));
    }
    Attention want = a.wide();
    a.forward(*cpu);
    want.forward(*reference);
    expect_close(a.out, want.out, output_tolerance(dtype()), fmt::format("out, {} per key", per_key));
    expect_close(a.lse, want.lse, {lse_tolerance(dtype()), 1e-5}, fmt::format("lse, {}", per_key));
  }
}

TEST_P(AttentionOp, AQueryThatIsNaNStaysNaN) {
  Attention a(dtype(), {20}, 1, 16, true);
  a.qkv.set(7 * 48, NAN);
  a.forward(*cpu);
  for (size_t c = 0; c < 16; ++c) {
    EXPECT_FALSE(std::isnan(a.out.at(6 * 16 + c)));
    EXPECT_TRUE(std::isnan(a.out.at(7 * 16 + c)));
  }
}

TEST_P(AttentionOp, GivesTheSameBitsTwice) {
  for (int group : {1, 3}) {
    Attention a(dtype(), {150, 90}, 2, 64, true, 0.1f, 0, group), b = a;
    for (Attention* x : {&a, &b}) {
      x->forward(*cpu);
      x->backward(*cpu);
    }
    EXPECT_TRUE(a.out == b.out && a.lse == b.lse && a.dqkv == b.dqkv);
  }
}

/// Tile instructions per product of tiles: what a CPU with AMX has to do besides multiplying.
TEST_P(AttentionOp, ReadsAndWritesTilesRarelyPerProduct) {
  if (!emulates_tiles()) GTEST_SKIP() << "tile instructions are not emulated";
  if (dtype() != DType::bf16) return;
  const auto expect_at_most = [&](std::vector<int> lengths, int head_dim, bool backward, double loads, double stores) {
    Attention a(dtype(), std::move(lengths), 1, head_dim, true);
    a.forward(*cpu);
    const tiles::emulated::Counts before = tiles::emulated::counts();
    backward ? a.backward(*cpu) : a.forward(*cpu);
    const tiles::emulated::Counts after = tiles::emulated::counts();
    const auto products = static_cast<double>(after.products - before.products);
    const double loads_each = static_cast<double>(after.loads - before.loads) / products,
                 stores_each = static_cast<double>(after.stores - before.stores) / products;
    const std::string what =
        fmt::format("{}, {}: {} products, {:.3f} loads, {:.3f} stores each, {} shapes", a.name(),
                    backward ? "backward" : "forward", products, loads_each, stores_each, after.shapes - before.shapes);
    RecordProperty(fmt::format("{}_{}_{}", backward ? "backward" : "forward", a.qkv.view().rows(), head_dim), what);
    EXPECT_LE(loads_each, loads) << what;
    EXPECT_LE(stores_each, stores) << what;
  };
  for (const int head_dim : {64, 128}) {
    expect_at_most({1024}, head_dim, false, 1.2, 0.4);
    expect_at_most({1024}, head_dim, true, 1.2, 0.4);
    expect_at_most({256, 128, 512, 64}, head_dim, false, 1.2, 0.4);
    expect_at_most({256, 128, 512, 64}, head_dim, true, 1.2, 0.4);
  }
}

TEST_P(AttentionOp, StaysWithinThePlannedScratch) {
  for (const int group : {1, 4})
    for (const int length : {5, 150, 700}) {
      Attention a(dtype(), {length}, 3, 20, true, 0, 0, group);
      a.bind();
      const size_t planned = cpu->ops->scratch_bytes({.dtype = GetParam().dtype,
                                                      .rows = length,
                                                      .width = 60 * group,
                                                      .attention = a.shape,
                                                      .threads = GetParam().threads});
      cpu->scratch = Arena(planned);
      cpu->context.scratch = &cpu->scratch;
      a.forward(*cpu);
      a.backward(*cpu);
      Tensor cache(dtype(), {1, 6, length, 20});
      const Tensor past(DType::i32, {1}, {0});
      cpu->ops->attention_cached(cpu->context, a.qkv.view(), a.shape, past.view(), cache.view(), a.out.view());
      EXPECT_LE(cpu->scratch.peak(), planned) << a.name();
      EXPECT_EQ(cpu->scratch.used(), 0u);
    }
}

/// Generation in steps of the given sizes equals the reference.
TEST_P(AttentionOp, CachedAttentionEqualsTheReference) {
  constexpr int kHeads = 2;
  struct Case {
    int head_dim, group, window, capacity;
    float cap;
  };
  const std::vector<std::vector<int>> few = {{5, 3}, {1, 1}, {1, 0}, {1, 270}, {4, 2}, {1, 1}};
  const std::vector<std::vector<int>> long_prompt = {{130, 3}, {1, 1}, {30, 0}, {0, 1}};
  for (const Case& c : {Case{8, 1, 0, 300, 0},
                        {20, 1, 0, 300, 0},
                        {64, 1, 0, 300, 3},
                        {20, 3, 0, 300, 0},
                        {64, 2, 40, 40, 0},
                        {20, 1, 1, 1, 0},
                        {8, 4, 7, 19, 5},
                        {16, 1, 280, 300, 0}})
    for (const auto& steps : {few, long_prompt}) {
      Tensor cache(dtype(), {2, 2 * kHeads, c.capacity, c.head_dim});
      Tensor wide_cache = cache.wide();
      std::vector<double> past{0, 0};
      for (size_t step = 0; step < steps.size(); ++step) {
        Attention got(dtype(), steps[step], kHeads, c.head_dim, true, 0, 0, c.group);
        got.qkv = Tensor::random(dtype(), got.qkv.view().shape(), 100 + step);
        got = capped(windowed(got, c.window), c.cap);
        Attention want = got.wide();
        const Tensor cached(DType::i32, {2}, past);
        got.bind();
        want.bind();
        cpu->ops->attention_cached(cpu->context, got.qkv.view(), got.shape, cached.view(), cache.view(),
                                   got.out.view());
        reference->ops->attention_cached(reference->context, want.qkv.view(), want.shape, cached.view(),
                                         wide_cache.view(), want.out.view());
        expect_close(got.out, want.out, output_tolerance(dtype()), fmt::format("step {}, {}", step, got.name()));
        expect_close(cache, wide_cache, {0, 0}, fmt::format("cache after step {}, {}", step, got.name()));
        for (size_t s = 0; s < 2; ++s) past[s] += steps[step][s];
      }
    }
}

/// One key head and more threads: they divide its query heads, over the end of a ring, too.
TEST_P(AttentionOp, CachedAttentionHasTheSameBitsForEveryNumberOfThreads) {
  for (const int group : {2, 3, 8}) {
    std::vector<Tensor> outs, caches;
    for (const int threads : {1, 2, 4}) {
      Tensor cache(dtype(), {1, 2, 40, 20});
      int past = 0;
      for (const int rows : {37, 1, 1, 1, 1, 1, 3, 1}) {
        Attention a = windowed(Attention(dtype(), {rows}, 1, 20, true, 0, 0, group), 40);
        a.qkv = Tensor::random(dtype(), a.qkv.view().shape(), 100 + static_cast<size_t>(past));
        a.bind();
        cpu->scratch = Arena(cpu->ops->scratch_bytes(
            {.dtype = GetParam().dtype, .rows = rows, .width = 20 * group, .attention = a.shape, .threads = threads}));
        Context context{threads, &cpu->scratch};
        const Tensor before(DType::i32, {1}, {static_cast<double>(past)});
        cpu->ops->attention_cached(context, a.qkv.view(), a.shape, before.view(), cache.view(), a.out.view());
        past += rows;
        outs.push_back(a.out);
      }
      caches.push_back(cache);
    }
    for (size_t i = 0; i < outs.size(); ++i) EXPECT_TRUE(outs[i] == outs[i % 8]) << "group " << group << ", " << i;
    for (const Tensor& cache : caches) EXPECT_TRUE(cache == caches[0]) << "group " << group;
  }
}

TEST(ReferenceAttention, CachedStepsEqualOnePass) {
  const auto device = Device::reference();
  constexpr int kHeads = 2, kSize = 4;
  const std::vector<int> steps = {1, 1, 3, 1, 5, 2, 1};
  for (const auto& [group, window, cap] :
       {std::tuple{1, 0, 0.0f}, {3, 0, 0.0f}, {1, 4, 0.0f}, {2, 4, 1.5f}, {1, 1, 0.0f}}) {
    Attention whole = capped(windowed(Attention(DType::f64, {14}, kHeads, kSize, true, 0, 0, group), window), cap);
    whole.forward(*device);
    Tensor cache(DType::f64, {1, 2 * kHeads, window > 0 ? window : 14, kSize});
    int64_t past = 0;
    for (const int rows : steps) {
      Attention part = capped(windowed(Attention(DType::f64, {rows}, kHeads, kSize, true, 0, 0, group), window), cap);
      part.bind();
      const Tensor before(DType::i32, {1}, {static_cast<double>(past)});
      device->ops->attention_cached(device->context, whole.qkv.view().rows_slice(past, rows), part.shape, before.view(),
                                    cache.view(), part.out.view());
      const size_t first = static_cast<size_t>(past) * kHeads * kSize * static_cast<size_t>(group);
      for (size_t i = 0; i < part.out.size(); ++i)
        EXPECT_NEAR(part.out.at(i), whole.out.at(first + i), 1e-14) << whole.name() << " from " << past;
      past += rows;
    }
  }
}

TEST(ReferenceAttention, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  for (const auto& [causal, rate, group] : {std::tuple{true, 0.0f, 1},
                                            {true, 0.4f, 1},
                                            {false, 0.0f, 1},
                                            {false, 0.4f, 1},
                                            {true, 0.0f, 2},
                                            {false, 0.4f, 3}}) {
    Attention a(DType::f64, {6, 1, 4}, 2, 3, causal, rate, 0, group);
    a.forward(*device);
    a.backward(*device);
    const auto loss = [&](const Tensor& qkv) {
      Attention moved = a;
      moved.qkv = qkv;
      moved.forward(*device);
      return dot(moved.out, a.dout);
    };
    expect_gradient(loss, a.qkv, a.dqkv, a.name());
  }
}

TEST(ReferenceAttention, BackwardOfWindowsAndCapsEqualsFiniteDifferences) {
  const auto device = Device::reference();
  for (const auto& [window, cap, group] :
       {std::tuple{1, 0.0f, 1}, {3, 0.0f, 2}, {0, 2.0f, 1}, {0, 30.0f, 3}, {2, 1.0f, 2}, {9, 0.0f, 1}}) {
    Attention a = capped(windowed(Attention(DType::f64, {6, 1, 4}, 2, 3, true, 0.2f, 0, group), window), cap);
    a.shape.scale = 0.9f;
    a.forward(*device);
    a.backward(*device);
    const auto loss = [&](const Tensor& qkv) {
      Attention moved = a;
      moved.qkv = qkv;
      moved.forward(*device);
      return dot(moved.out, a.dout);
    };
    expect_gradient(loss, a.qkv, a.dqkv, a.name());
  }
}

TEST(ReferenceAttention, AWindowEndsWithTheQueryItself) {
  const auto device = Device::reference();
  Attention a(DType::f64, {4, 3}, 1, 1, true);  // equal scores: each output is the mean of the values seen
  for (size_t row = 0; row < 7; ++row)
    for (size_t part = 0; part < 3; ++part) a.qkv.set(row * 3 + part, part == 2 ? std::pow(10.0, row) : 0);
  a.shape.window = 2;
  a.forward(*device);
  const double want[] = {1, 5.5, 55, 550, 1e4, 5.5e4, 5.5e5};
  for (size_t row = 0; row < 7; ++row) EXPECT_NEAR(a.out.at(row), want[row], 1e-9 * want[row]);
}

TEST(ReferenceAttention, ASoftCapBoundsScores) {
  const auto device = Device::reference();
  Attention a(DType::f64, {2}, 1, 1, true);
  a.qkv = Tensor(DType::f64, {2, 1, 3, 1}, {0, 3, 1, 4, 5, 7});  // q 0 k 3 v 1; q 4 k 5 v 7
  a.shape.scale = 0.5f;
  a.shape.soft_cap = 2;
  a.forward(*device);
  const double first = 2 * std::tanh(3.0), second = 2 * std::tanh(5.0);  // of scores 6 and 10
  EXPECT_NEAR(a.lse.at(1), std::log(std::exp(first) + std::exp(second)), 1e-12);
}

TEST(ReferenceAttention, LseIsTheLogOfTheSumOfExponentials) {
  const auto device = Device::reference();
  Attention a(DType::f64, {2}, 1, 1, true);
  a.qkv = Tensor(DType::f64, {2, 1, 3, 1}, {2, 3, 1, 4, 5, 7});  // q 2 k 3 v 1; q 4 k 5 v 7
  a.shape.scale = 0.5f;
  a.forward(*device);
  EXPECT_NEAR(a.lse.at(0), 3, 1e-12);
  EXPECT_NEAR(a.lse.at(1), std::log(std::exp(6.0) + std::exp(10.0)), 1e-12);
  EXPECT_NEAR(a.out.at(1), (std::exp(6.0) + 7 * std::exp(10.0)) / (std::exp(6.0) + std::exp(10.0)), 1e-12);
}

TEST(ReferenceAttention, DropsTheShareThatWasAskedFor) {
  // Equal scores and values of 1: each output is the kept share / (1 - rate).
  const auto device = Device::reference();
  Attention a(DType::f64, {200}, 1, 1, false, 0.25f);
  for (size_t i = 0; i < a.qkv.size(); ++i) a.qkv.set(i, i % 3 == 2 ? 1 : 0);
  a.forward(*device);
  double mean = 0;
  for (size_t i = 0; i < 200; ++i) mean += a.out.at(i) / 200;
  EXPECT_NEAR(mean, 1, 0.02);  // 40,000 draws: standard deviation of the mean 0.003
}

}  // namespace
}  // namespace trireme::test
