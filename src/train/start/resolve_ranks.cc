#include "train/start/resolve_ranks.h"

#include <fmt/format.h>

#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "config/validate.h"

namespace trireme {

MeshShape mesh_of(const MeshOptions& options, int ranks, const std::string& source) {
  MeshShape mesh = resolve_mesh({options.data, options.tensor, options.pipeline}, ranks, source);
  mesh.chunks = options.chunks;
  require(!options.sequence || mesh.tensor > 1, ErrorKind::config,
          "mesh.sequence splits rows among tensor ranks, but mesh.tensor is 1; set --mesh.tensor to at least 2, or "
          "--mesh.sequence false");
  std::istringstream words(options.stages);
  for (std::string word; std::getline(words, word, ',');) {
    const Value value = resolve_plain(word);
    const auto* layers = std::get_if<int64_t>(&value);
    require(layers, ErrorKind::config, "mesh.stages is \"{}\", expected layers of each stage, like 8,4",
            options.stages);
    mesh.stages.push_back(*layers);
  }
  return mesh;
}

void resolve_for_ranks(LoadedConfig& loaded, int ranks, const std::string& source) {
  MeshOptions& mesh = loaded.config.mesh;
  const MeshShape shape = mesh_of(mesh, ranks, source);
  loaded.derive("mesh.data", shape.data, count_text(ranks, "rank"));
  BatchOptions& batch = loaded.config.batch;
  const BatchPlan plan = plan_batch(loaded, static_cast<int>(shape.data));
  const std::string product = fmt::format("{}, {} x {}", loaded.where("batch.per-rank"), batch.per_rank,
                                          count_text(shape.data, "data-parallel rank"));
  loaded.derive("batch.global", plan.global, product);
  if (batch.per_rank > 0) {  // batch.global has replaced it
    batch.per_rank = 0;
    loaded.origins.erase("batch.per-rank");
  }
  const std::string rest = fmt::format("{} on each of {}", count_text(plan.per_rank, "sequence"),
                                       count_text(shape.data, "data-parallel rank"));
  loaded.derive("batch.micro", plan.micro, rest);
  loaded.derive("batch.accumulation", plan.accumulation, rest);
}

}  // namespace trireme
