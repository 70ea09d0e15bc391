#include "model/mesh_layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

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

/// Layers of each stage, so that the slowest one has the least work.
std::vector<int64_t> balanced_stages(const Spec& spec, int64_t stages) {
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
  std::vector<int64_t> layers;
  int64_t rest = spec.layers - last;
  for (int64_t left = stages - 1; left > 0; --left) {
    layers.push_back(rest / left);  // rounded down: later stages take what is over
    rest -= layers.back();
  }
  layers.push_back(last);
  return layers;
}

}  // namespace

namespace {

void require_chunks(const Spec& spec, const MeshShape& mesh) {
  if (mesh.chunks == 1) return;
  require(mesh.pipeline > 1, ErrorKind::config,
          "mesh.chunks {} cuts the layers of pipeline stages further, but mesh.pipeline is 1; set --mesh.pipeline 2 or "
          "more, or --mesh.chunks 1",
          mesh.chunks);
  const int64_t most = spec.layers / mesh.pipeline;
  require(mesh.chunks <= most, ErrorKind::config,
          "mesh.chunks {} of {} pipeline stages are {} parts, more than the model's {} layers; {} fit", mesh.chunks,
          mesh.pipeline, mesh.chunks * mesh.pipeline, spec.layers, most == 1 ? "1" : fmt::format("1 to {}", most));
}

}  // namespace

std::vector<ModelPart> stages_of(const Spec& spec, const MeshShape& mesh) {
  require(mesh.pipeline >= 1 && mesh.pipeline <= spec.layers, ErrorKind::config,
          "pipeline {} cuts {} layers into more stages than there are; at most {} have one each", mesh.pipeline,
          spec.layers, spec.layers);
  require_chunks(spec, mesh);
  const int64_t stages = mesh.pipeline * mesh.chunks;
  const std::vector<int64_t> balanced = balanced_stages(spec, stages);
  const std::vector<int64_t>& layers = mesh.stages.empty() ? balanced : mesh.stages;
  const int64_t sum = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  require(static_cast<int64_t>(layers.size()) == stages && sum == spec.layers && std::ranges::min(layers) > 0,
          ErrorKind::config,
          "mesh.stages {} are {} stages of {} layers, but mesh.pipeline is {}{} and the model has {} layers; {} would "
          "balance them",
          fmt::join(layers, ","), layers.size(), sum, mesh.pipeline,
          mesh.chunks == 1 ? "" : fmt::format(" with {} chunks each, {} parts,", mesh.chunks, stages), spec.layers,
          fmt::join(balanced, ","));
  std::vector<ModelPart> parts;
  int64_t first = 0;
  for (const int64_t count : layers) {
    parts.push_back({first, first + count, first == 0, first + count == spec.layers});
    first += count;
  }
  return parts;
}

double pipeline_use(const Spec& spec, const MeshShape& mesh, int64_t micro_batches) {
  std::vector<double> work(static_cast<size_t>(mesh.pipeline));  // of each stage
  double all = 0;
  const std::vector<ModelPart> parts = stages_of(spec, mesh);
  for (size_t i = 0; i < parts.size(); ++i) {
    const double own =
        static_cast<double>(parts[i].layers()) * block_work(spec) + (parts[i].head ? head_work(spec) : 0);
    work[i % work.size()] += own;
    all += own;
  }
  const auto m = static_cast<double>(micro_batches), p = static_cast<double>(mesh.pipeline);
  return m / (m + (p - 1) / static_cast<double>(mesh.chunks)) * all / (p * std::ranges::max(work));
}

Layout layout_of(const Spec& spec, const MeshShape& mesh, int rank) {
  const MeshPlace place = place_of(mesh, rank);
  const std::vector<ModelPart> parts = stages_of(spec, mesh);
  Layout layout{{}, place.tensor, static_cast<int>(mesh.tensor), {}};
  for (auto i = static_cast<size_t>(place.pipeline); i < parts.size(); i += static_cast<size_t>(mesh.pipeline))
    layout.chunks.push_back(parts[i]);
  const ModelPart &first = layout.chunks.front(), &last = layout.chunks.back();
  layout.part = {first.first_layer, last.last_layer, first.embedding, last.head};
  if (layout.chunks.size() == 1) layout.chunks.clear();
  return layout.of(spec);
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
