#pragma once
// Matrix products of linear layers through oneDNN. Primitives are built once per shape and kept.

#include <memory>
#include <string>

#include "ops/gemm_shape.h"
#include "ops/ops.h"

namespace trireme {

/// Version of the oneDNN library that is loaded, "2.6.3".
std::string onednn_version_text();
/// Whether bf16 operands can be multiplied directly. Elsewhere they are widened to f32 first: oneDNN would emulate bf16
/// instructions at 1 to 20 GFLOP/s.
bool gemm_has_bf16();
/// Whether linear layers multiply bf16 directly: by oneDNN, or in emulated tile registers.
bool multiplies_bf16();

/// The faster layout of a shape; see gemm.cc for the measurements.
GemmLayout best_layout(const GemmShape& shape);
/// Whether that is GemmLayout::packed for a forward or input product with this number of rows, for any other sizes.
bool may_be_packed(int64_t rows, DType dtype);
/// Whether it may be GemmLayout::panels for a product with this number of rows.
bool may_take_panels(int64_t rows);
/// Whether it may be GemmLayout::tiles for a product with this number of rows.
bool may_take_tiles(int64_t rows, DType dtype);

/// Not for several threads at once: one team of threads works on one product after the other.
class Gemm {
 public:
  Gemm();
  ~Gemm();

  /// c = product, or c += product in f32. bias: GemmKind::forward only, or empty. No size is 0. c of bf16 operands may
  /// be f32. Packing takes scratch.
  void multiply(Context& context, GemmKind kind, ConstView a, ConstView b, ConstView bias, View c,
                bool accumulate = false, GemmStrides strides = {});

  /// Whether multiply_both() computes such products: those that panels or tiles are best for.
  static bool takes_both(GemmKind kind, ConstView a, ConstView b, ConstView also_a, ConstView also_b);
  /// c = a b + bias + also_a also_b, two products of one kind, forward or input: one pass over c.
  void multiply_both(Context& context, GemmKind kind, ConstView a, ConstView b, ConstView bias, ConstView also_a,
                     ConstView also_b, View c);

  /// Seconds of one product with the given layout, for benchmarks. Time to pack is not counted.
  double measure(Context& context, const GemmShape& shape, GemmLayout layout, ConstView a, ConstView b, View c);

  /// Scratch of a product whose second operand is [n, m] or [m, n], at most.
  static size_t packed_bytes(int64_t n, int64_t m, DType dtype);

 private:
  struct Plan;
  struct State;
  struct Call {
    GemmShape shape;
    GemmLayout layout;
    GemmStrides strides;
    DType c = DType::f32;
    bool bias = false, accumulate = false;
    auto operator<=>(const Call&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  Plan& plan(Context& context, const Call& call);
  void bind(Context& context, Plan& plan, ConstView a, ConstView b, ConstView bias, View c);
  std::unique_ptr<State> state_;
};

}  // namespace trireme
