#include "plan/layout_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/numbers.h"

namespace trireme {
namespace {

constexpr int64_t kMostSequences = 64, kMostChunks = 8;

/// Adds what one mesh and micro-batch leave open.
void add_variants(const ModelSize& model, const StepLayout& mesh, std::vector<StepLayout>& layouts) {
  std::vector<ShardChoice> shards{ShardChoice::none};
  if (mesh.data > 1) shards.push_back(ShardChoice::optimizer);
  if (mesh.data > 1 && mesh.pipeline == 1)
    shards.insert(shards.end(), {ShardChoice::gradients, ShardChoice::parameters});
  for (int64_t chunks = 1; chunks <= kMostChunks; ++chunks) {
    const bool interleaved =
        mesh.pipeline > 1 && mesh.pipeline * chunks <= model.layers && mesh.micro_batches() % mesh.pipeline == 0;
    if (chunks > 1 && !interleaved) break;
    for (const ShardChoice shard : shards) {
      for (const Recomputed recomputed : {Recomputed::nothing, Recomputed::attention, Recomputed::layers}) {
        for (const bool sequence : {false, true}) {
          if (sequence && mesh.tensor == 1) continue;
          StepLayout layout = mesh;
          layout.chunks = chunks;
          layout.shard = shard;
          layout.recomputed = recomputed;
          layout.sequence_parallel = sequence;
          layouts.push_back(layout);
        }
      }
    }
  }
}

/// Weights of a rank of the first or the last stage.
double held_weights(const ModelSize& model, const StepLayout& layout) {
  return (model.layer_parameters() * static_cast<double>(model.layers) / static_cast<double>(layout.pipeline) +
          static_cast<double>(model.vocabulary * model.width)) /
         static_cast<double>(layout.tensor);
}

using Cause = std::pair<const char*, double>;
constexpr size_t kCauses = 8;
std::array<Cause, kCauses> causes_of(const PlannedTime& time) {
  return {{{"products", time.products},
           {"passes", time.passes},
           {"tensor sums", time.tensor_sums},
           {"launches", time.launches},
           {"stage messages", time.stage_messages},
           {"bubble", time.bubble},
           {"exchange", time.exchange},
           {"update", time.update}}};
}

}  // namespace

std::vector<StepLayout> possible_layouts(const ModelSize& model, int64_t ranks, int64_t global_batch) {
  std::vector<StepLayout> layouts;
  for (const int64_t tensor : divisors(ranks)) {
    if (model.heads % tensor != 0 || model.key_heads() % tensor != 0 || model.inner_width() % tensor != 0) continue;
    for (const int64_t pipeline : divisors(ranks / tensor)) {
      if (pipeline > model.layers) continue;
      const int64_t data = ranks / tensor / pipeline;
      if (global_batch % data != 0) continue;
      for (const int64_t micro : divisors(global_batch / data)) {
        if (micro > kMostSequences) break;
        StepLayout mesh;
        mesh.data = data;
        mesh.tensor = tensor;
        mesh.pipeline = pipeline;
        mesh.global_batch = global_batch;
        mesh.micro_batch = micro;
        add_variants(model, mesh, layouts);
      }
    }
  }
  return layouts;
}

double least_memory(const ModelSize& model, const StepLayout& layout, double element_bytes) {
  const auto data = static_cast<double>(layout.data);
  const double weights = element_bytes, gradients = 4;
  const double moments = element_bytes < 4 ? 12 : 8;  // and the weights in f32
  double bytes = weights + gradients + moments;
  if (layout.shard == ShardChoice::optimizer) bytes = weights + gradients + moments / data;
  if (layout.shard == ShardChoice::gradients) bytes = weights + (gradients + moments) / data;
  if (layout.shard == ShardChoice::parameters) bytes = (weights + gradients + moments) / data;
  return bytes * held_weights(model, layout);
}

double rough_memory(const ModelSize& model, const StepLayout& layout, double element_bytes) {
  const double rows = static_cast<double>(layout.micro_batch * model.sequence),
               width = static_cast<double>(model.width);
  const auto tensor = static_cast<double>(layout.tensor);
  const double whole = layout.sequence_parallel ? 1 / tensor : 1;
  constexpr double kInside = 12;  // values per value of the residual stream that a layer keeps
  const double kept = layout.recomputed == Recomputed::layers ? whole : 3 * whole + kInside / tensor;
  const auto flying = static_cast<double>(std::min(layout.micro_batches(), layout.pipeline));
  const double layers = static_cast<double>(model.layers) / static_cast<double>(layout.pipeline);
  return least_memory(model, layout, element_bytes) + element_bytes * rows * width * kept * layers * flying;
}

std::string causes_text(const PlannedTime& time, double share) {
  std::string text;
  for (const auto& [name, seconds] : causes_of(time)) {
    if (seconds <= 0 || seconds < share * time.total()) continue;
    text += fmt::format("{}{} {:.3f} s", text.empty() ? "" : ", ", name, seconds);
  }
  return text;
}

std::string difference_text(const PlannedTime& faster, const PlannedTime& slower) {
  const auto before = causes_of(faster), after = causes_of(slower);
  std::array<Cause, kCauses> more{};
  for (size_t i = 0; i < kCauses; ++i) more[i] = {before[i].first, after[i].second - before[i].second};
  std::ranges::stable_sort(more, [](const Cause& a, const Cause& b) { return a.second > b.second; });
  constexpr double kShown = 1e-3;
  std::string text;
  for (const auto& [name, seconds] : more) {
    if (seconds > kShown * faster.total())
      text += fmt::format("{}{} +{:.3f} s", text.empty() ? "" : ", ", name, seconds);
  }
  return text;
}

}  // namespace trireme
