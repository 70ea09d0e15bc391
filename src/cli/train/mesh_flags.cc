#include "cli/train/mesh_flags.h"

#include "base/count.h"
#include "base/error.h"
#include "cli/threads.h"
#include "comm/scalars.h"
#include "train/start/ranks.h"
#include "train/start/resolve.h"

namespace trireme {

void MeshFlags::declare(Flags& flags) {
  flags.add("--mesh.tensor", options_.tensor, "ranks that split each layer; must divide the heads")
      .positive()
      .show_default();
  flags.add("--mesh.pipeline", options_.pipeline, "pipeline stages, each on different ranks").positive().show_default();
  flags.add("--mesh.stages", options_.stages, "layers of each stage, like 8,4 (default: balanced)");
}

void MeshFlags::declare_shard(Flags& flags) {
  flags.choice("--optim.shard", shard_,
               "parameters: the remaining data ranks each keep a part of the weights and gather the weights of a layer "
               "when it computes",
               {ShardChoice::none, ShardChoice::parameters});
}

std::unique_ptr<Mesh> MeshFlags::mesh(Process& process) const {
  const int64_t needed = options_.tensor * options_.pipeline;
  if (shards_weights() && process.size() > 1) {
    MeshOptions options = options_;
    options.data = 0;
    return std::make_unique<Mesh>(process.world(), mesh_of(options, process.size(), process.launcher().name));
  }
  if (needed != process.size()) {
    const std::string& launcher = process.launcher().name;
    fail(ErrorKind::config, "--mesh.tensor {} x --mesh.pipeline {} need {}, but {}; {}", options_.tensor,
         options_.pipeline, count_text(needed, "rank"),
         launcher.empty() ? "this process was started without a launcher and is alone"
                          : fmt::format("{} started {}", launcher, process.size()),
         process.size() == 1 ? fmt::format("start it as `mpirun -n {} trireme ...`", needed)
                             : fmt::format("set them to match, or start {} ranks", needed));
  }
  if (needed == 1) return nullptr;
  return std::make_unique<Mesh>(process.world(), mesh_of(options_, process.size(), process.launcher().name));
}

int rank_threads(Process& process, int64_t requested) {
  if (process.size() == 1) return compute_threads(requested);
  Scalars scalars(process.world());
  return take_cores(requested, process, scalars).threads;
}

}  // namespace trireme
