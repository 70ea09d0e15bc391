#pragma once
// Operators of the GPU and of the CPU, called in the same way with the same values, and what they gave compared.

#include <list>
#include <span>
#include <string>
#include <vector>

#include "model/spec.h"
#include "ops/ops.h"

namespace trireme::device_check {

/// The sizes of the calls.
struct Sizes {
  Spec spec;
  int64_t batch = 1, sequence = 256;  ///< sequences, tokens of each
  int64_t rows() const { return batch * sequence; }
  AttentionShape attention() const;  ///< of the model's layers, without offsets
};

/// One side: operators, and tensors that exist until the next call of begin().
class Side {
 public:
  /// dtype: of activations and weights as the operators take them. values: the type to which the values of inputs are
  /// rounded first. Borrows the operators.
  Side(Ops& ops, int threads, DType dtype, DType values, const Sizes& sizes);
  /// Ends the tensors and the results of the calls before.
  void begin();
  /// The rest of what was issued has run.
  void finish() { context.stream->finish(); }

  // Tensors of the device. Values are a pure function of the seed.
  View input(Shape shape, uint64_t seed, double scale = 1, double shift = 0);  ///< of the activation type
  View input_f32(Shape shape, uint64_t seed, double scale = 1, double shift = 0);
  View ids(DType dtype, Shape shape, int64_t bound);  ///< i32 or i64, below the bound
  View place(DType dtype, Shape shape, std::span<const std::byte> bytes);
  View empty(Shape shape) { return empty(dtype, shape); }  ///< zeros, of the activation type
  View empty(DType type, Shape shape);

  /// What a call wrote.
  struct Output {
    std::string name;
    DType dtype = DType::f32;
    std::vector<std::byte> bytes;
    double at(size_t i) const;
    size_t size() const { return bytes.size() / size_of(dtype); }
  };
  /// Keeps the tensor's values, after the calls so far.
  void keep(std::string name, ConstView tensor);

  /// A constant.
  const Sizes& sizes;
  Ops& ops;
  const DType dtype;
  Context context;
  std::vector<Output> outputs;

 private:
  View filled(DType type, Shape shape, uint64_t seed, double scale, double shift);

  DType values_;
  Arena scratch_;
  std::list<Arena> memory_;
};

/// How far two sides are apart, in units of the root mean square of the wanted values.
struct Difference {
  double worst = 0;       ///< of all elements |got - want| / (that + |want|); infinite for NaN
  double typical = 0;     ///< root mean square of the differences, of the output in which it is largest
  std::string text = {};  ///< of the worst: "y[17] is 2.5, not 0.1"
};
/// Of all outputs, which have the same names and sizes.
Difference difference(const Side& got, const Side& want);
/// The first output whose bits differ: "m: 3 of 1000 elements have other bits, the first is [17]: 0.5, on the CPU
/// 0.25"; empty: none.
std::string other_bits(const Side& got, const Side& want);

}  // namespace trireme::device_check
