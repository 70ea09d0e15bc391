#pragma once
// The part of a model that each rank of a mesh holds. A pure function: every rank knows the parts of all others.

#include <vector>

#include "comm/mesh.h"
#include "model/parameter_table.h"

namespace trireme {

/// Blocks of each pipeline stage, so that the slowest one has the least work: a block's matrices and attention over the
/// whole context against the head's matrix, which goes to the last stage. Of equal cuts the one whose first stages,
/// which keep most micro-batches, have the fewest blocks. Or what mesh.stages says. With chunks the same of the
/// pipeline x chunks parts: part c * pipeline + s is chunk c of stage s. Throws Error::config where there are more of
/// them than blocks, or the list does not fit.
std::vector<ModelPart> stages_of(const Spec& spec, const MeshShape& mesh);

/// Share of a step's time in which the stages of such a pipeline can compute at most: m / (m + (p - 1) / chunks) of it
/// is neither filling nor draining, and in this time a stage waits for the one with the most work.
double pipeline_use(const Spec& spec, const MeshShape& mesh, int64_t micro_batches);

/// The model with rows of padding in its token matrix, which no number depends on and no checkpoint holds, until the
/// tensor ranks can share the rows evenly.
Spec with_rows_for(Spec spec, int64_t tensor);

/// Throws Error::config naming what does not fit the model and the sizes that do. mesh: as resolve_mesh() gave it.
Layout layout_of(const Spec& spec, const MeshShape& mesh, int rank);

/// The layouts of one data replica, in rank order: of (stage, tensor rank) = (0, 0), (0, 1) ...
std::vector<Layout> layouts_of_replica(const Spec& spec, const MeshShape& mesh);

}  // namespace trireme
