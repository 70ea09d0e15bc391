#include "train/resolve_ranks.h"

#include <fmt/format.h>

#include "comm/mesh.h"
#include "config/validate.h"

namespace trireme {
namespace {

void settle(LoadedConfig& loaded, const char* option, int64_t& field, int64_t value, const std::string& origin) {
  if (field == value) return;
  field = value;
  loaded.origins[option] = {origin, 0, kDefaultLayer};
}

}  // namespace

void resolve_for_ranks(LoadedConfig& loaded, int ranks) {
  MeshOptions& mesh = loaded.config.mesh;
  const MeshShape shape = resolve_mesh({mesh.data, mesh.tensor, mesh.pipeline}, ranks, "--ranks");
  settle(loaded, "mesh.data", mesh.data, shape.data, fmt::format("{} ranks", ranks));
  BatchOptions& batch = loaded.config.batch;
  const BatchPlan plan = plan_batch(loaded, static_cast<int>(shape.data));
  const std::string product =
      fmt::format("{}, {} x {} data-parallel ranks", loaded.where("batch.per-rank"), batch.per_rank, shape.data);
  settle(loaded, "batch.global", batch.global, plan.global, product);
  if (batch.per_rank > 0) {  // said by global now
    batch.per_rank = 0;
    loaded.origins.erase("batch.per-rank");
  }
  const std::string rest = fmt::format("{} sequences on each of {} data-parallel ranks", plan.per_rank, shape.data);
  settle(loaded, "batch.micro", batch.micro, plan.micro, rest);
  settle(loaded, "batch.accumulation", batch.accumulation, plan.accumulation, rest);
}

}  // namespace trireme
