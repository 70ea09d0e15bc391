#pragma once
// Commands that compute with a model which no rank has to have all of: `mpirun -n 4 trireme sample --mesh.tensor 2
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
  /// Beside them: data ranks that share the weights.
  void declare_shard(Flags& flags);
  bool shares_weights() const { return shard_ == ShardChoice::parameters; }
  /// After parsing. Collective; nullptr: one rank. Throws Error::config where the axes are not as many ranks as there
  /// are.
  std::unique_ptr<Mesh> mesh(Process& process) const;

 private:
  MeshOptions options_;
  ShardChoice shard_ = ShardChoice::none;
};

/// Threads of this rank, which is bound to its cores; requested: 0 for all of its share. Collective.
int rank_threads(Process& process, int64_t requested);

}  // namespace trireme
