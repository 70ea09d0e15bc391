#pragma once
// The layouts of every rank of a mesh.

#include <vector>

#include "model/parameter_table.h"

namespace trireme {

/// tensor x pipeline x data ranks, tensor ranks adjacent; stages have equal numbers of blocks.
inline std::vector<Layout> layouts_of(const Spec& spec, int tensor, int pipeline, int data = 1) {
  std::vector<Layout> layouts;
  const int64_t blocks = spec.layers / pipeline;
  for (int d = 0; d < data; ++d) {
    for (int p = 0; p < pipeline; ++p) {
      const ModelPart part{p * blocks, (p + 1) * blocks, p == 0, p + 1 == pipeline};
      for (int t = 0; t < tensor; ++t) layouts.push_back(Layout{part, t, tensor}.of(spec));
    }
  }
  return layouts;
}

}  // namespace trireme
