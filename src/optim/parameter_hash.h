#pragma once
// The hash of a model's weights: of all triples (parameter, place in it, value), and of nothing else.
// docs/checkpoint-format.md defines it for readers of manifests.
//
//   hash = sum over parameters p, sum over elements i of p: element_term(key(p) + i kElementStride, bits(p, i)) mod
//   2^64
// key(p): XXH3-64 of the name. i: place in the complete tensor as stored, row-major, without padding rows. bits: of the
// f32 master value. So it does not depend on the layout (tensor parallelism, stages, chunks) or the sharding
// (optim.shard, data ranks), and on precision.dtype only if values differ; hashes of parts add up.

#include "optim/training_state.h"

namespace trireme {

uint64_t parameter_key(std::string_view name);

/// A box's part of the hash. shape: of the complete tensor, with or without padding rows. values: of the box,
/// row-major.
uint64_t box_hash(uint64_t key, const Shape& shape, const Box& box, std::span<const float> values);

/// Hash of all parameters that this rank holds, without padding: for a complete table the model's hash. Ranks that hold
/// the same must have equal hashes; otherwise they have diverged. If the remainders of bf16 or f16 weights are sharded,
/// it is the hash of the weights without remainders. Not for a state whose weights are sharded.
/// On the host.
uint64_t parameter_hash(const TrainingState& state, const ParameterTable& table);
/// The hash of a state on the device of `ops`, which sums it: only sums of kNormChunk elements come to the host.
uint64_t parameter_hash(const TrainingState& state, const ParameterTable& table, Ops& ops);

}  // namespace trireme
