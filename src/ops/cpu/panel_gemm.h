#pragma once
// Matrix products of linear layers by our own kernel: the second operand is packed into panels of 64 columns that
// stay in the second-level cache while the rows of the first pass by; rows of the first operand and of the result and
// the source of the next panel are prefetched.
// Source for the blocking: Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication".

#include "ops/gemm_shape.h"
#include "ops/ops.h"

namespace trireme {

/// c = a b + bias, or c += a b. a and c may be columns of wider matrices, as given by `strides`; b is contiguous. With
/// `also`, c has a second product of the same kind: also_a also_b.
struct PanelProduct {
  GemmShape shape;
  ConstView a, b, bias;  ///< bias: GemmKind::forward only, or empty
  View c;                ///< f32, or bf16 of bf16 operands; f32 for `accumulate` and GemmKind::weight
  GemmStrides strides;
  bool accumulate = false;
  ConstView also_a = {}, also_b = {};  ///< both or none, contiguous; not of GemmKind::weight
};

/// Whether multiply_panels() computes products of this shape on this CPU: f32 everywhere; bf16 where pairs are
/// multiplied (multiplies_pairs()), forward and input products with an even k.
bool has_panels(const GemmShape& shape);

/// Takes scratch. Each element of c is summed over k in f32, in rising order and in chunks determined by the shape
/// alone: the same bits for any threads, strides and other rows. No size is 0.
void multiply_panels(Context& context, const PanelProduct& product);

/// Scratch of the three products of layers within these sizes, at most. also: k of a second product in them.
size_t panel_scratch_bytes(int64_t rows, int64_t inputs, int64_t outputs, DType dtype, int threads, int64_t also = 0);

}  // namespace trireme
