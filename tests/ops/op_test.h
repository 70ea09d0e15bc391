#pragma once
// Shared by all operator tests: tensors with their memory, both backends ready to run, comparison with the float64
// reference, finite differences.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ops/ops.h"
#include "tensor/f16.h"

namespace trireme::test {

/// A tensor that owns its memory. Values go in and out as doubles and are rounded to the type.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape)
      : dtype_(dtype),
        shape_(shape),
        bytes_(std::max<size_t>(1, static_cast<size_t>(shape.count()) * size_of(dtype))) {}
  Tensor(DType dtype, Shape shape, const std::vector<double>& values) : Tensor(dtype, shape) {
    for (size_t i = 0; i < values.size(); ++i) set(i, values[i]);
  }
  /// Standard normal values times `scale` plus `shift`, a pure function of the seed.
  static Tensor random(DType dtype, Shape shape, uint64_t seed, double scale = 1, double shift = 0) {
    Tensor t(dtype, shape);
    // Drawing a number takes longer than multiplying it by many others: the numbers of a seed are kept.
    thread_local std::map<uint64_t, std::vector<double>> drawn;
    std::vector<double>& normal = drawn[seed];
    for (size_t i = normal.size(); i < t.size(); ++i) normal.push_back(normal_at(seed, i));
    for (size_t i = 0; i < t.size(); ++i) t.set(i, shift + scale * normal[i]);
    return t;
  }

  size_t size() const { return static_cast<size_t>(shape_.count()); }
  View view() { return {bytes_.data(), dtype_, shape_}; }
  ConstView view() const { return {bytes_.data(), dtype_, shape_}; }
  DType dtype() const { return dtype_; }
  /// The same values as f64 (integers unchanged): input of the reference.
  Tensor wide() const {
    if (dtype_ == DType::i32 || dtype_ == DType::i64) return *this;
    return Tensor(DType::f64, shape_, values());
  }
  std::vector<double> values() const {
    std::vector<double> out(size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = at(i);
    return out;
  }
  double at(size_t i) const {
    switch (dtype_) {
      case DType::f32:
        return read<float>(i);
      case DType::bf16:
        return static_cast<double>(to_float(read<bf16_t>(i)));
      case DType::f16:
        return static_cast<double>(to_float(read<f16_t>(i)));
      case DType::i32:
        return read<int32_t>(i);
      case DType::i64:
        return static_cast<double>(read<int64_t>(i));
      default:
        return read<double>(i);
    }
  }
  void set(size_t i, double value) {
    switch (dtype_) {
      case DType::f32:
        return write(i, static_cast<float>(value));
      case DType::bf16:
        return write(i, to_bf16(static_cast<float>(value)));
      case DType::f16:
        return write(i, to_f16(static_cast<float>(value)));
      case DType::i32:
        return write(i, static_cast<int32_t>(value));
      case DType::i64:
        return write(i, static_cast<int64_t>(value));
      default:
        return write(i, value);
    }
  }
  bool operator==(const Tensor& other) const { return bytes_ == other.bytes_; }

 private:
  template <class T>
  T read(size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  template <class T>
  void write(size_t i, T value) {
    std::memcpy(bytes_.data() + i * sizeof(T), &value, sizeof(T));
  }

  DType dtype_ = DType::f32;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

/// The backend under test, which each binary of these suites defines (cpu_backend.cc, ../gpu). variant: the thread
/// count of the case.
std::unique_ptr<Ops> make_tested_ops(int variant);

/// One backend with a thread team and scratch.
struct Device {
  std::unique_ptr<Ops> ops;
  Arena scratch;
  Context context;

  /// The backend under test.
  static std::unique_ptr<Device> cpu(int threads) { return make(make_tested_ops(threads), threads); }
  static std::unique_ptr<Device> reference() { return make(make_reference_ops(), 1); }

 private:
  static std::unique_ptr<Device> make(std::unique_ptr<Ops> ops, int threads) {
    auto device = std::make_unique<Device>();
    device->ops = std::move(ops);
    device->scratch = Arena(size_t{64} << 20);
    device->context = {threads, &device->scratch};
    return device;
  }
};

/// |got - want| <= absolute + relative * |want|.
struct Tolerance {
  double relative, absolute;
};

/// Fails with the worst element when one is outside the tolerance. NaN equals NaN only.
inline void expect_close(const Tensor& got, const Tensor& want, Tolerance tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = got.at(i), w = want.at(i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    const double excess = std::abs(g - w) / (tolerance.absolute + tolerance.relative * std::abs(w));
    if (excess > worst || std::isnan(excess)) {
      worst = std::isnan(excess) ? INFINITY : excess;
      where = i;
    }
  }
  EXPECT_LE(worst, 1) << fmt::format("{}: element {} is {}, expected {}", what, where, got.at(where), want.at(where));
}

/// Checks `gradient` against central differences of `loss` at `x`, at up to 40 elements. f64 throughout: the error of
/// the difference is about step^2 and 1e-16 / step.
inline void expect_gradient(const std::function<double(const Tensor&)>& loss, const Tensor& x, const Tensor& gradient,
                            const std::string& what) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(x.dtype(), DType::f64);
  Tensor moved = x;
  const size_t stride = std::max<size_t>(1, x.size() / 40);
  for (size_t i = 0; i < x.size(); i += stride) {
    moved.set(i, x.at(i) + kStep);
    const double above = loss(moved);
    moved.set(i, x.at(i) - kStep);
    const double below = loss(moved);
    moved.set(i, x.at(i));
    const double difference = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient.at(i), difference, 1e-6 * (1 + std::abs(difference))) << what << ", element " << i;
  }
}

/// Inner product: turns a tensor into a loss with known gradient.
inline double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

/// Half a unit in the last place of a 16-bit type, and a little more; `otherwise` of f32.
inline double rounding(DType dtype, double otherwise) {
  return dtype == DType::bf16 ? 0x1.1p-8 : dtype == DType::f16 ? 0x1.1p-11 : otherwise;
}

/// Activation type and thread count: parameters of every CPU test.
struct Case {
  DType dtype;
  int threads;
  double sums = 1;  ///< the error of f32 sums of products, in multiples of the CPU's
  /// Storing an activation rounds it; and the error of f32 arithmetic.
  Tolerance activation(double scale = 1) const {
    return {rounding(dtype, 2e-6), (dtype == DType::f32 ? 2e-6 : 1e-5) * scale};
  }
};

inline std::string case_name(const testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}_threads", name_of(info.param.dtype), info.param.threads);
}

class CpuOp : public testing::TestWithParam<Case> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  std::unique_ptr<Device> cpu = Device::cpu(GetParam().threads), reference = Device::reference();
};

/// Of the backend under test.
std::vector<Case> tested_cases();

inline auto every_case() { return testing::ValuesIn(tested_cases()); }

constexpr int64_t kWidths[] = {1, 7, 48, 768, 1600};
constexpr int64_t kRows[] = {0, 1, 37};

}  // namespace trireme::test
