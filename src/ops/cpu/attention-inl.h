// Shared by the forward and backward kernels of attention; compiled once per instruction set.

#if defined(TRIREME_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_ATTENTION_INL_H
#undef TRIREME_ATTENTION_INL_H
#else
#define TRIREME_ATTENTION_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>

#include "ops/cpu/attention.h"
#include "ops/cpu/operands-inl.h"
#include "ops/cpu/pairs-inl.h"
#include "ops/cpu/philox-inl.h"
#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// Keys of a tile: its transposed keys and its values, 16 KiB each at head size 64, stay in the first-level cache.
constexpr int64_t kKeys = kPanel;
constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

/// The first key that a query sees, both counted in their sequence.
HWY_INLINE int64_t first_seen(const AttentionShape& s, int64_t query) {
  return s.window > 0 ? std::max<int64_t>(0, query - s.window + 1) : 0;
}

/// Keys [begin, end) of a tile that a query sees.
struct Seen {
  int64_t begin, end;
};

/// First keys of a tile that no query from `query` on sees: a whole number of vectors, and of what products of operands
/// E take at once.
template <class E>
HWY_INLINE int64_t unseen_keys(const AttentionShape& s, int64_t query, int64_t first_key) {
  const int64_t whole = std::max({int64_t{kLanes}, Products<E>::kColumns, Products<E>::kSteps});
  return std::max<int64_t>(0, first_seen(s, query) - first_key) / whole * whole;
}

HWY_INLINE int64_t whole_vectors(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// Element where the transposed tile of the keys from first_key (a multiple of kKeys) begins.
template <class E>
HWY_INLINE int64_t key_tile(int64_t first_key, int64_t head_dim) {
  return first_key * whole_steps<E>(head_dim);
}
/// Elements between the rows of a left operand whose k is head_dim: whole vectors for copy_rows().
template <class E>
HWY_INLINE int64_t row_steps(int64_t head_dim) {
  return std::max(padded_head_dim(head_dim), whole_steps<E>(head_dim));
}

/// Cuts a thread's scratch into arrays; each begins at a float.
class Cutter {
 public:
  explicit Cutter(float* scratch) : next_(scratch) {}
  template <class E>
  E* take(int64_t n) {
    E* taken = reinterpret_cast<E*>(next_);
    next_ += (n * static_cast<int64_t>(sizeof(E)) + 3) / 4;
    return taken;
  }

 private:
  float* next_;
};

/// 2^x for x <= 128: relative error below 1.2e-7; 0 below -126; NaN stays NaN.
HWY_INLINE VecF32 exp2_f32(VecF32 x) {
  const TagF32 d;
  const VecF32 n = hn::Round(x), r = hn::Sub(x, n);
  // (2^r - 1) / r interpolated at the six Chebyshev nodes of |r| <= 1/2.
  VecF32 p = hn::MulAdd(hn::Set(d, 1.54531634e-4f), r, hn::Set(d, 1.33908633e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 9.61808302e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.55035696e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.240226507f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693147182f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return times_power_of_2(p, n, hn::Lt(x, hn::Set(d, -126.0f)));
}
/// The same for scores of elements T.
template <class T>
HWY_INLINE VecF32 exp2_of(VecF32 x) {
  return is_bf16<T> ? exp2_for_bf16(x) : exp2_f32(x);
}

/// tanh x: relative error below 4e-7. With y = -2 |x| it is -(e^y - 1) / (2 + (e^y - 1)), and e^y - 1 is made without
/// cancellation: y = n ln 2 + r.
HWY_INLINE VecF32 tanh_f32(VecF32 x) {
  const TagF32 d;
  const VecF32 one = hn::Set(d, 1.0f);
  const VecF32 y = at_least(hn::Mul(hn::Abs(x), hn::Set(d, -2.0f)), -30.0f);  // there tanh is 1
  const VecF32 n = hn::Round(hn::Mul(y, hn::Set(d, kLog2E)));
  VecF32 r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), y);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // (e^r - 1 - r) / r^2 as in exp_to_88().
  VecF32 p = hn::MulAdd(hn::Set(d, 0.00139262504f), r, hn::Set(d, 0.00836323295f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416665524f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665763f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(hn::Mul(p, r), r, r);  // e^r - 1
  const VecF32 power = times_power_of_2(one, n, hn::Lt(n, hn::Set(d, -126.0f)));
  const VecF32 less = hn::MulAdd(p, power, hn::Sub(power, one));
  return hn::CopySignToAbs(hn::Div(hn::Neg(less), hn::Add(hn::Set(d, 2.0f), less)), x);
}

/// How q . k becomes a score, which is kept times log2(e). Capped scores are stored before anything reads them.
struct Scores {
  float factor;          ///< of what is stored
  float cap, cap_scale;  ///< soft cap times log2(e), 0: none; scale / soft cap
  explicit Scores(const AttentionShape& s)
      : factor(s.soft_cap > 0 ? 1.0f : s.scale * kLog2E),
        cap(s.soft_cap * kLog2E),
        cap_scale(s.soft_cap > 0 ? s.scale / s.soft_cap : 0) {}
  bool capped() const { return cap > 0; }

  /// Scores of a row of q . k, in place: whole vectors.
  HWY_INLINE void apply_cap(float* row, int64_t columns) const {
    const TagF32 d;
    const VecF32 before = hn::Set(d, cap_scale), after = hn::Set(d, cap);
    for (int64_t j = 0; j < columns; j += kLanes)
      hn::StoreU(hn::Mul(tanh_f32(hn::Mul(hn::LoadU(d, row + j), before)), after), d, row + j);
  }
};

/// f(T(), E()): element types of activations of this type and of the operands of their products.
template <class F>
HWY_INLINE void with_operands(DType dtype, F&& f) {
  with_element(dtype, [&](auto element) HWY_ATTR {
    using T = decltype(element);
    constexpr bool kNative = std::is_same_v<T, native_bf16_t>;
    if constexpr (is_bf16<T> && (kNative || !kCanHaveDots))
      if (multiplies_tiles()) return f(element, tile_of<T>());
    if constexpr (kNative)
      if (multiplies_pairs()) return f(element, native_bf16_t());
    f(element, float());
  });
}

/// Rows of vector `part` of a task's group: a query head, k or v.
template <class T, class AnyView>
HWY_INLINE auto qkv_rows(AnyView qkv, const AttentionShape& s, const AttentionTask& task, int64_t part) {
  const int64_t parts = int64_t{s.group} + 2, stride = s.kv_heads * parts * s.head_dim;
  auto* data = qkv.template as<T>() + task.begin * stride + (task.kv_head * parts + part) * s.head_dim;
  return Rows<std::remove_pointer_t<decltype(data)>>{data, stride};
}
template <class T, class AnyView>
HWY_INLINE auto key_rows(AnyView qkv, const AttentionShape& s, const AttentionTask& task) {
  return qkv_rows<T>(qkv, s, task, s.group);
}
template <class T, class AnyView>
HWY_INLINE auto value_rows(AnyView qkv, const AttentionShape& s, const AttentionTask& task) {
  return qkv_rows<T>(qkv, s, task, s.group + 1);
}
/// The number in its call of query head `member` of a task's group.
HWY_INLINE int64_t head_of(const AttentionShape& s, const AttentionTask& task, int64_t member) {
  return task.kv_head * s.group + member;
}
/// Rows of that head in a [rows, heads, head_dim] tensor.
template <class T, class AnyView>
HWY_INLINE auto head_rows(AnyView v, const AttentionShape& s, const AttentionTask& task, int64_t member) {
  const int64_t stride = int64_t{s.heads()} * s.head_dim;
  auto* data = v.template as<T>() + task.begin * stride + head_of(s, task, member) * s.head_dim;
  return Rows<std::remove_pointer_t<decltype(data)>>{data, stride};
}

/// The same of a row that will be written.
template <class T>
HWY_INLINE void foresee_write(Rows<T> rows, int64_t row, int64_t dim) {
  const auto* p = reinterpret_cast<const char*>(rows[row]);
  for (int64_t byte = 0; byte < dim * static_cast<int64_t>(sizeof(T)); byte += 64) __builtin_prefetch(p + byte, 1);
}

/// Prefetches the rows of the task that a thread is likely to get next during the present one, if both fit the
/// second-level cache. All vectors of a row's group are adjacent, in qkv as in the output and its gradient.
template <class T>
class NextTask {
 public:
  NextTask(const AttentionShape& s, const AttentionTask& task, const AttentionTask& next)
      : shape_(s), next_(next), length_(task.length) {}

  /// qkv, or a [rows, heads, head_dim] tensor, too. All of them before foresee().
  void add_qkv(ConstView qkv) { add(qkv_rows<const T>(qkv, shape_, next_, 0), int64_t{shape_.group} + 2); }
  void add_heads(ConstView v) { add(head_rows<const T>(v, shape_, next_, 0), shape_.group); }

  /// The share that falls to a query of the present task.
  HWY_INLINE void foresee(int64_t member, int64_t query) const {
    const int64_t first = (member * length_ + query) * each_;
    for (int64_t i = first; i < std::min(first + each_, count_); ++i)
      for (int t = 0; t < tensors_; ++t) {
        const auto* p = reinterpret_cast<const char*>(rows_[t][i]);
        for (int64_t byte = 0; byte < row_bytes_[t]; byte += 64) __builtin_prefetch(p + byte, 0, 2);
      }
  }

 private:
  void add(Rows<const T> rows, int64_t vectors) {
    constexpr int64_t kMost = 512 << 10;
    rows_[tensors_] = rows;
    row_bytes_[tensors_] = vectors * shape_.head_dim * static_cast<int64_t>(sizeof(T));
    all_bytes_ += next_.length * row_bytes_[tensors_++];
    count_ = length_ == 0 || all_bytes_ > kMost ? 0 : next_.length;
    each_ = count_ == 0 ? 0 : (count_ + length_ * shape_.group - 1) / (length_ * shape_.group);
  }

  const AttentionShape& shape_;
  AttentionTask next_;
  int64_t length_, count_ = 0, each_ = 0, all_bytes_ = 0;
  int tensors_ = 0;
  Rows<const T> rows_[3] = {};
  int64_t row_bytes_[3] = {};
};

/// to [count, dim] = scale * from [count, ld].
template <class T>
HWY_INLINE void store_rows(const float* from, int64_t ld, int64_t count, int64_t dim, float scale, Rows<T> to) {
  const VecF32 factor = hn::Set(TagF32(), scale);
  const auto scaled = [&](int64_t at) HWY_ATTR { return hn::Mul(hn::LoadU(TagF32(), from + at), factor); };
  for (int64_t row = 0; row < count; ++row) {
    int64_t begin = 0;
    if constexpr (is_bf16<T>)
      for (; begin + 2 * kLanes <= dim; begin += 2 * kLanes)
        store_in_order(scaled(row * ld + begin), scaled(row * ld + begin + kLanes), to[row] + begin);
    for_each_vector(dim - begin, [&](int64_t c, auto lanes)
                                     HWY_ATTR { store(scaled(row * ld + begin + c), to[row] + begin + c, lanes); });
  }
}

/// The dropout of one query head of a task, ready for its rows.
class DropoutRows {
 public:
  DropoutRows(const Dropout& dropout, const AttentionShape& shape, const AttentionTask& task, int64_t member)
      : on_(dropout.rate > 0),
        key_(dropout.key),
        head_(static_cast<uint32_t>(shape.first_head + head_of(shape, task, member)) << 16) {
    if (!on_) return;
    threshold_ = static_cast<uint32_t>(std::llround(static_cast<double>(dropout.rate) * 0x1p32));
    scale_ = 1.0f / (1.0f - dropout.rate);
    sample_ = dropout.sample.as<int64_t>() + task.begin;
    position_ = dropout.position.as<int32_t>() + task.begin;
  }
  bool on() const { return on_; }

  /// factors[j] = 1 / (1 - rate) or 0 for keys first_key + j, j < count <= kKeys, of one query; whole vectors.
  HWY_INLINE void factors(int64_t query, int64_t first_key, int64_t count, float* factors) const {
    constexpr int64_t kWords = kKeys + 4 * kPhiloxBlocks + kLanes;
    HWY_ALIGN uint32_t words[kWords];
    const auto first = static_cast<uint32_t>(position_[first_key]), skipped = first % 4;
    const auto sample = static_cast<uint64_t>(sample_[query]);
    philox_blocks(key_, first / 4, static_cast<uint32_t>(position_[query]), static_cast<uint32_t>(sample),
                  (static_cast<uint32_t>(sample >> 32) & 0xFFFF) | head_, (skipped + count + 3) / 4, words);
    const TagU32 d;
    for (int64_t j = 0; j < count; j += kLanes) {
      const auto dropped = hn::Lt(hn::LoadU(d, words + skipped + j), hn::Set(d, threshold_));
      hn::StoreU(hn::IfThenZeroElse(hn::RebindMask(TagF32(), dropped), hn::Set(TagF32(), scale_)), TagF32(),
                 factors + j);
    }
  }

 private:
  bool on_;
  uint64_t key_;
  uint32_t head_, threshold_ = 0;
  float scale_ = 1;
  const int64_t* sample_ = nullptr;
  const int32_t* position_ = nullptr;
};

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
