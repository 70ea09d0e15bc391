#pragma once
// Commands that compute with a model that several ranks hold together: `mpirun -n 4 trireme sample --mesh.tensor 2
// --mesh.pipeline 2`.

#include <memory>

#include "cli/flags.h"
#include "comm/mesh.h"
#include "comm/process.h"
#include "config/config.h"

namespace trireme {

class MeshFlags {
 public:
  MeshFlags() { options_.data = 1; }
  void declare(Flags& flags);
  /// Additionally: data ranks that shard the weights.
  void declare_shard(Flags& flags);
  bool shards_weights() const { return shard_ == ShardChoice::parameters; }
  /// After parsing. Collective; nullptr: one rank. Throws Error::config if the axes do not match the number of ranks.
  std::unique_ptr<Mesh> mesh(Process& process) const;

 private:
  MeshOptions options_;
  ShardChoice shard_ = ShardChoice::none;
};

/// Threads of this rank, which is bound to its cores; requested: 0 for all of its share. Collective.
int rank_threads(Process& process, int64_t requested);

}  // namespace trireme
