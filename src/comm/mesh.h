#pragma once
// How ranks are arranged: data x tensor x pipeline. Tensor peers are neighbours (they communicate most, on one host),
// then data, then pipeline: rank = (stage * data + replica) * tensor + shard.

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace trireme {

struct MeshShape {
  int64_t data = 0, tensor = 1, pipeline = 1;  ///< data 0: all ranks not used by the other axes
  std::vector<int64_t> stages{};  ///< layers of each pipeline stage or, with chunks, of each part; empty: balanced
  int64_t chunks = 1;             ///< parts of the model that a stage has: the c-th is part c * pipeline + stage
};

/// The shape with `data` filled in. Throws Error::config with the arithmetic and the nearest shape that fits if the
/// axes do not multiply to `ranks`; `source` names the origin of that number ("SLURM_NTASKS").
MeshShape resolve_mesh(MeshShape wanted, int ranks, const std::string& source);

/// A rank's coordinates.
struct MeshPlace {
  int data = 0, tensor = 0, pipeline = 0;
};
MeshPlace place_of(const MeshShape& shape, int rank);
/// Ranks that hold the same as `rank`, including itself, by their place on the data axis.
std::vector<int> replicas_of(const MeshShape& shape, int rank);
/// "data 1, tensor 0, pipeline 2"; empty if ranks differ along data only.
std::string describe_place(const MeshShape& shape, int rank);

class Mesh {
 public:
  /// Collective over `world`, which it borrows. shape: as resolve_mesh() gave it. The groups report where `world` does.
  Mesh(Communicator& world, const MeshShape& shape);

  const MeshShape& shape() const { return shape_; }
  MeshPlace place() const { return place_of(shape_, world_.rank()); }
  int data_rank() const { return data_->rank(); }
  int tensor_rank() const { return tensor_->rank(); }
  int pipeline_rank() const { return pipeline_->rank(); }
  Communicator& world() { return world_; }         ///< all ranks of the mesh
  Communicator& data() { return *data_; }          ///< ranks that hold the same weights
  Communicator& tensor() { return *tensor_; }      ///< ranks that share each layer
  Communicator& pipeline() { return *pipeline_; }  ///< ranks that hold successive layers

 private:
  Communicator& world_;
  MeshShape shape_;
  std::unique_ptr<Communicator> data_, tensor_, pipeline_;
};

}  // namespace trireme
