#include "model/mesh_layout.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

/// Multiplications per token.
double block_work(const Spec& spec) {
  const auto width = static_cast<double>(spec.width), inner = static_cast<double>(spec.inner_width);
  const double keys = static_cast<double>(spec.context) / (spec.mask == Mask::causal ? 2 : 1);
  return 4 * width * width + 2 * width * inner + 2 * keys * width;
}

double head_work(const Spec& spec) {
  return spec.has_decoder() ? static_cast<double>(spec.vocabulary_rows * spec.token_width()) : 0;
}

}  // namespace

std::vector<ModelPart> stages_of(const Spec& spec, int64_t stages) {
  require(stages >= 1 && stages <= spec.layers, ErrorKind::config,
          "pipeline {} cuts {} layers into more stages than there are; at most {} have one each", stages, spec.layers,
          spec.layers);
  const double head = head_work(spec) / block_work(spec);
  // The last stage has n blocks and the head; the others share the rest evenly.
  const auto slowest = [&](int64_t n) {
    const int64_t others = stages == 1 ? 0 : (spec.layers - n + stages - 2) / (stages - 1);
    return std::max(static_cast<double>(others), static_cast<double>(n) + head);
  };
  int64_t last = stages == 1 ? spec.layers : spec.layers - (stages - 1);
  for (int64_t n = last - 1; stages > 1 && n >= 1; --n) {
    if (slowest(n) < slowest(last)) last = n;
  }
  std::vector<ModelPart> parts;
  for (int64_t s = 0, first = 0; s < stages; ++s) {
    const int64_t rest = spec.layers - last - first, left = stages - 1 - s;
    const int64_t blocks = left == 0 ? last : rest / left;  // rounded down: later stages take what is over
    parts.push_back({first, first + blocks, s == 0, left == 0});
    first += blocks;
  }
  return parts;
}

double pipeline_use(const Spec& spec, int64_t stages, int64_t micro_batches) {
  double most = 0, all = 0;
  for (const ModelPart& part : stages_of(spec, stages)) {
    const double work = static_cast<double>(part.layers()) * block_work(spec) + (part.head ? head_work(spec) : 0);
    most = std::max(most, work);
    all += work;
  }
  const auto m = static_cast<double>(micro_batches), p = static_cast<double>(stages);
  return m / (m + p - 1) * all / (p * most);
}

Layout layout_of(const Spec& spec, const MeshShape& mesh, int rank) {
  const MeshPlace place = place_of(mesh, rank);
  const ModelPart part = stages_of(spec, mesh.pipeline)[static_cast<size_t>(place.pipeline)];
  return Layout{part, place.tensor, static_cast<int>(mesh.tensor)}.of(spec);
}

std::vector<Layout> layouts_of_replica(const Spec& spec, const MeshShape& mesh) {
  std::vector<Layout> layouts;
  for (int64_t stage = 0; stage < mesh.pipeline; ++stage) {
    for (int64_t shard = 0; shard < mesh.tensor; ++shard)
      layouts.push_back(layout_of(spec, mesh, static_cast<int>(stage * mesh.data * mesh.tensor + shard)));
  }
  return layouts;
}

}  // namespace trireme
