#pragma once
// Matrix products of linear layers in the tile registers of AMX, bf16 with f32 sums, by our own kernel: both
// operands are packed as complete tiles. See tile_panel_gemm.cc for the sizes of its blocks.

#include "ops/cpu/panel_gemm.h"

namespace trireme {

/// Whether multiply_tiles() computes products of this shape on this CPU: of bf16, all where it multiplies in tiles.
bool has_tiles(const GemmShape& shape);

/// Takes scratch. Each element of c begins as the bias, as what c had, or as 0, and one tile instruction after the
/// other adds tiles::kSteps elements of k, in rising order; those of a second product follow. So its bits depend on the
/// elements alone, not on threads, strides and blocks. An also_k may be any, c bf16 or f32. No size is 0.
void multiply_tiles(Context& context, const PanelProduct& product);

/// Scratch of the three products of layers within these sizes, at most. also: k of a second product in them.
size_t tile_scratch_bytes(int64_t rows, int64_t inputs, int64_t outputs, int threads, int64_t also = 0);

}  // namespace trireme
