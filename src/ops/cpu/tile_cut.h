#pragma once
// How a product in tile registers (tile_panel_gemm.h) is divided among threads and into parts that fit the caches.

#include <algorithm>
#include <cstdint>

#include "ops/cpu/rectangles.h"
#include "ops/cpu/tiles.h"
#include "ops/gemm_shape.h"

namespace trireme {

constexpr int64_t kTileBlock = 2 * tiles::kRows;  ///< rows of a strip of a, columns of a panel of b
/// Of one step of k (tiles::kSteps elements) of a strip or a panel: two tiles.
constexpr int64_t kTileStepBytes = int64_t{2} * tiles::kRows * tiles::kRowBytes;
constexpr int64_t kTileBlockBytes = 1 << 20;  ///< of strips that a thread packs: half of a second-level cache of 2 MiB
constexpr int64_t kTileStrips = 16;           ///< of them at most
constexpr int64_t kTileChunk = 32;            ///< steps at a time of weight gradients, whose c is f32
constexpr int64_t kTileSteps = 16;            ///< of a panel that stay in a first-level cache: 32 KiB of 48
constexpr int64_t kTileSharedBytes = int64_t{16} << 20;  ///< of panels that are packed at a time

struct TileCut : Rectangles {
  static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; }

  /// also_k: of a second product, or 0; not of GemmKind::weight.
  TileCut(const GemmShape& shape, int threads, int64_t also_k = 0) {
    const GemmSizes s = sizes_of(shape);
    const bool weight = shape.kind == GemmKind::weight;
    strips = parts(s.m, kTileBlock);
    panels = parts(s.n, kTileBlock);
    first_steps = parts(s.k, tiles::kSteps);
    steps = first_steps + parts(also_k, tiles::kSteps);
    chunk = weight ? parts(steps, parts(steps, kTileChunk)) : steps;
    steps_at_once = parts(chunk, parts(chunk, kTileSteps));
    const int64_t bytes = chunk * kTileStepBytes;
    panels_at_once = std::clamp<int64_t>(kTileSharedBytes / bytes, 1, panels);
    constexpr int64_t kToPack = 4;  // packing a strip takes as long as this number of blocks of c
    split(threads, [&](int64_t of_strips, int64_t of_panels) { return of_strips * (of_panels + kToPack); });
    strips_at_once = std::min(strips_each, std::clamp<int64_t>(kTileBlockBytes / bytes, 1, kTileStrips));
    shared_bytes = panels_at_once * bytes;
    own_bytes = strips_at_once * (bytes + kSumsBytes);
  }

  static constexpr int64_t kSumsBytes = kTileBlock * kTileBlock * int64_t{sizeof(float)};  ///< of a strip and a panel

  int64_t first_steps = 0, steps = 0;       ///< of k: of the first product, and of both
  int64_t chunk = 0, steps_at_once = 0;     ///< steps that are packed, that are multiplied at a time
  int64_t strips_at_once = 0;               ///< those that are packed together
  int64_t own_bytes = 0, shared_bytes = 0;  ///< scratch of each thread and of all
};

}  // namespace trireme
