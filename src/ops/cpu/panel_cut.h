#pragma once
// How a product by panels (panel_gemm.h) is divided among threads and into parts that fit the caches.

#include <algorithm>
#include <cstdint>

#include "ops/cpu/rectangles.h"
#include "ops/gemm_shape.h"

namespace trireme {

constexpr int64_t kPanelColumns = 64;                ///< of b that are packed at a time
constexpr int64_t kStripRows = 6;                    ///< of a that are multiplied at a time
constexpr int64_t kPanelBytes = 512 << 10;           ///< of a panel at most: half of a second-level cache of 1 MiB
constexpr int64_t kChunkBytes = 2048;                ///< of k at a time where both operands are packed, per row of them
constexpr int64_t kBlockStrips = 256;                ///< of a that a thread packs for all panels there: 3 MiB
constexpr int64_t kStripEnd = 64;                    ///< bytes after each
constexpr int64_t kSharedBytes = int64_t{16} << 20;  ///< of panels that are packed at a time there

struct PanelCut : Rectangles {
  /// c: type of the result. also_k: of a second product, or 0.
  PanelCut(const GemmShape& shape, DType c, int threads, int64_t also_k = 0) {
    const GemmSizes s = sizes_of(shape);
    const auto size = static_cast<int64_t>(size_of(shape.dtype));
    const bool weight = shape.kind == GemmKind::weight;
    strips = (s.m + kStripRows - 1) / kStripRows;
    panels = (s.n + kPanelColumns - 1) / kPanelColumns;
    // Chunks of nearly equal length, in whole cache lines.
    const int64_t most = (weight ? kChunkBytes : kPanelBytes / kPanelColumns) / size, chunks = (s.k + most - 1) / most;
    constexpr int64_t kUnit = 32;
    chunk = std::min((s.k + chunks - 1) / chunks + kUnit - 1, s.k + kUnit - 1) / kUnit * kUnit;
    panels_at_once = weight ? std::clamp<int64_t>(kSharedBytes / (chunk * kPanelColumns * size), 1, panels) : panels;
    constexpr int64_t kToPack = 24;  // packing a panel takes as long as this number of its rows
    split(threads,
          [&](int64_t of_strips, int64_t of_panels) { return of_panels * (of_strips * kStripRows + kToPack); });
    if (weight) {
      shared_bytes = panels_at_once * chunk * kPanelColumns * size;
      own_bytes = std::min(kBlockStrips, strips_each) * (kStripRows * chunk * size + kStripEnd);
    } else {
      also = (also_k + kUnit - 1) / kUnit * kUnit;
      own_bytes = (chunk + also) * (kPanelColumns + kStripRows) * size;
      if (c != DType::f32 && chunk < s.k) own_bytes += strips_each * kStripRows * kPanelColumns * 4;
    }
    own_bytes = (own_bytes + 127) / 128 * 128;  // no two threads write one line, or the pair that a core fetches
  }

  int64_t chunk = 0;                        ///< elements of k at a time
  int64_t also = 0;                         ///< room for k of a second product, all of it at a time
  int64_t own_bytes = 0, shared_bytes = 0;  ///< scratch of each thread and of all
};

}  // namespace trireme
