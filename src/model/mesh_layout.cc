#include "model/mesh_layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/count.h"
#include "base/error.h"

namespace trireme {
namespace {

/// Multiplications per token, of an average layer.
double block_work(const Spec& spec) {
  double keys = 0, products = 0;
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    keys += visible_keys(spec, layer, spec.context);
    products += block_products(spec, layer) + state_products(spec, layer);
  }
  return (products + 2 * keys * static_cast<double>(spec.attention_width())) / static_cast<double>(spec.layers);
}

double head_work(const Spec& spec) {
  return spec.has_decoder() ? static_cast<double>(spec.vocabulary_rows * spec.token_width()) : 0;
}

/// `layers` divided by the count, rounded down: later ones take the rest.
std::vector<int64_t> shared_out(int64_t layers, int64_t among) {
  std::vector<int64_t> shares;
  for (int64_t left = among; left > 0; --left) {
    shares.push_back(layers / left);
    layers -= shares.back();
  }
  return shares;
}

/// Layers of each part, so that the slowest stage has the least work.
std::vector<int64_t> balanced_parts(const Spec& spec, int64_t stages, int64_t chunks) {
  if (stages == 1) return {spec.layers};
  const double head = head_work(spec) / block_work(spec);
  // The last stage has n blocks and the head; the others share the rest evenly.
  const auto slowest = [&](int64_t n) {
    const int64_t others = (spec.layers - n + stages - 2) / (stages - 1);
    return std::max(static_cast<double>(others), static_cast<double>(n) + head);
  };
  int64_t last = spec.layers - chunks * (stages - 1);
  for (int64_t n = last - 1; n >= chunks; --n) {
    if (slowest(n) < slowest(last)) last = n;
  }
  std::vector<int64_t> parts(static_cast<size_t>(stages * chunks));
  const auto set = [&](int64_t stage, const std::vector<int64_t>& of_chunks) {
    for (int64_t c = 0; c < chunks; ++c)
      parts[static_cast<size_t>(c * stages + stage)] = of_chunks[static_cast<size_t>(c)];
  };
  const std::vector<int64_t> others = shared_out(spec.layers - last, stages - 1);
  for (int64_t s = 0; s + 1 < stages; ++s) set(s, shared_out(others[static_cast<size_t>(s)], chunks));
  // The last chunk has the head and the rest of an equal share.
  const auto beside_head = std::llround((static_cast<double>(last) + head) / static_cast<double>(chunks) - head);
  const int64_t final = std::clamp<int64_t>(beside_head, 1, last - (chunks - 1));
  std::vector<int64_t> of_last = shared_out(last - final, chunks - 1);
  of_last.push_back(final);
  set(stages - 1, of_last);
  return parts;
}

void require_chunks(const Spec& spec, const MeshShape& mesh) {
  if (mesh.chunks == 1) return;
  require(mesh.pipeline > 1, ErrorKind::config,
          "mesh.chunks {} cuts the layers of pipeline stages further, but mesh.pipeline is 1; set --mesh.pipeline 2 or "
          "more, or --mesh.chunks 1",
          mesh.chunks);
  const int64_t most = spec.layers / mesh.pipeline;
  require(mesh.chunks <= most, ErrorKind::config, "mesh.chunks {} of {} are {} parts, more than the model's {}; {} fit",
          mesh.chunks, count_text(mesh.pipeline, "pipeline stage"), mesh.chunks * mesh.pipeline,
          count_text(spec.layers, "layer"), most == 1 ? "1" : fmt::format("1 to {}", most));
}

}  // namespace

std::vector<ModelPart> stages_of(const Spec& spec, const MeshShape& mesh) {
  require(mesh.pipeline >= 1 && mesh.pipeline <= spec.layers, ErrorKind::config,
          "mesh.pipeline is {}, but the model has only {}; set --mesh.pipeline {} or less", mesh.pipeline,
          count_text(spec.layers, "layer"), spec.layers);
  require_chunks(spec, mesh);
  const int64_t stages = mesh.pipeline * mesh.chunks;
  const std::vector<int64_t> balanced = balanced_parts(spec, mesh.pipeline, mesh.chunks);
  const std::vector<int64_t>& layers = mesh.stages.empty() ? balanced : mesh.stages;
  const int64_t sum = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  require(std::ranges::min(layers) > 0, ErrorKind::config,
          "mesh.stages {} has a stage without a layer; every one needs one or more, {} would balance them",
          fmt::join(layers, ","), fmt::join(balanced, ","));
  require(static_cast<int64_t>(layers.size()) == stages && sum == spec.layers, ErrorKind::config,
          "mesh.stages {} are {} of {}, but mesh.pipeline is {}{} and the model has {} layers; {} would balance them",
          fmt::join(layers, ","), count_text(layers.size(), "stage"), count_text(sum, "layer"), mesh.pipeline,
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

Spec with_rows_for(Spec spec, int64_t tensor) {
  spec.vocabulary_rows = (spec.vocabulary_rows + tensor - 1) / tensor * tensor;
  return spec;
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
