#include "bench/comm/gradient.h"

#include <algorithm>

#include "base/count.h"
#include "base/error.h"
#include "comm/half.h"
#include "tensor/dtype.h"

namespace trireme::comm_bench {
namespace {

// Prime, so that data that lands a chunk too far is wrong nearly everywhere.
constexpr int64_t kPeriod = 1021;
// The largest sum that i8 holds, and bf16 (8 bits of mantissa) counts to exactly.
constexpr int kLargest = 120;
constexpr int kLargestTerm = 4, kLargestProductBits = 6;

uint64_t mixed(uint64_t x) {  // splitmix64's finalizer
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

/// How many ranks share one term when only `terms` of them may count.
int stride(int ranks, int terms) { return (ranks + terms - 1) / terms; }

template <class T>
T narrowed(int x) {
  return static_cast<T>(x);
}
template <>
bf16_t narrowed<bf16_t>(int x) {
  return to_bf16(static_cast<float>(x));
}
template <>
half_t narrowed<half_t>(int x) {
  return to_half(static_cast<float>(x));
}

bool same(bf16_t a, bf16_t b) { return a.bits == b.bits; }
bool same(half_t a, half_t b) { return a.bits == b.bits; }
template <class T>
bool same(T a, T b) {
  return !(a < b) && !(b < a) && a == a;
}

template <class Do>
auto with_type(Element element, Do action) {
  switch (element) {
    case Element::i8:
      return action(int8_t());
    case Element::u8:
      return action(uint8_t());
    case Element::i32:
      return action(int32_t());
    case Element::u32:
      return action(uint32_t());
    case Element::i64:
      return action(int64_t());
    case Element::u64:
      return action(uint64_t());
    case Element::f16:
      return action(half_t());
    case Element::f32:
      return action(float());
    case Element::f64:
      return action(double());
    default:
      return action(bf16_t());
  }
}

template <class T>
std::vector<T> narrowed_table(const std::vector<int>& table) {
  std::vector<T> typed;
  for (const int value : table) typed.push_back(narrowed<T>(value));
  return typed;
}

}  // namespace

Pattern::Pattern(ReduceOp op, int ranks, uint64_t seed) : op_(op), ranks_(ranks), seed_(seed) {
  require(op != ReduceOp::avg || ranks <= kLargest, ErrorKind::usage,
          "-o avg can be verified on at most {}, but there are {}; add -c 0", count_text(kLargest, "rank"), ranks);
}

int Pattern::input(int rank, int64_t index) const {
  const auto k = static_cast<int>(index % kPeriod);
  const uint64_t random = mixed((seed_ << 40) ^ (static_cast<uint64_t>(rank) << 16) ^ static_cast<uint64_t>(k));
  switch (op_) {
    case ReduceOp::sum: {
      const int step = stride(ranks_, kLargest / kLargestTerm);
      return rank % step == k % step ? 1 + static_cast<int>(random % kLargestTerm) : 0;
    }
    case ReduceOp::prod: {
      const int step = stride(ranks_, kLargestProductBits);
      return rank % step == k % step ? 1 + static_cast<int>(random % 2) : 1;
    }
    case ReduceOp::avg:  // equal, except that one rank has one more and one has one less
      return 1 + k % (kLargest / ranks_) + (rank == k % ranks_ ? 1 : 0) - (rank == (k + 1) % ranks_ ? 1 : 0);
    default:
      return 1 + static_cast<int>(random % 100);
  }
}

/// One period of a rank's elements, or of the reduction.
std::vector<int> Pattern::table(int rank) const {
  std::vector<int> values(kPeriod);
  for (int64_t k = 0; k < kPeriod; ++k) {
    int value = input(std::max(rank, 0), k);
    for (int r = 1; rank < 0 && r < ranks_; ++r) {
      const int x = input(r, k);
      value = op_ == ReduceOp::prod  ? value * x
              : op_ == ReduceOp::min ? std::min(value, x)
              : op_ == ReduceOp::max ? std::max(value, x)
                                     : value + x;
    }
    values[static_cast<size_t>(k)] = rank < 0 && op_ == ReduceOp::avg ? value / ranks_ : value;
  }
  return values;
}

void Pattern::fill(Element element, void* values, int64_t first, int64_t count, int rank) const {
  const std::vector<int> period = table(rank);
  with_type(element, [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> typed = narrowed_table<T>(period);
    T* out = static_cast<T*>(values);
    int64_t k = first % kPeriod;
    for (int64_t i = 0; i < count; ++i) {
      out[i] = typed[static_cast<size_t>(k)];
      if (++k == kPeriod) k = 0;
    }
  });
}

int64_t Pattern::count_wrong(Element element, const void* values, int64_t first, int64_t count, int rank) const {
  const std::vector<int> period = table(rank);
  return with_type(element, [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> typed = narrowed_table<T>(period);
    const T* in = static_cast<const T*>(values);
    int64_t wrong = 0, k = first % kPeriod;
    for (int64_t i = 0; i < count; ++i) {
      wrong += same(in[i], typed[static_cast<size_t>(k)]) ? 0 : 1;
      if (++k == kPeriod) k = 0;
    }
    return wrong;
  });
}

}  // namespace trireme::comm_bench
