#pragma once
// The hash of a model's weights: of all (parameter, place in it, value), and of nothing else. docs/checkpoint-format.md
// defines it for readers of manifests.
//
//   hash = sum over parameters p, sum over elements i of p: element_term(key(p) + i kElementStride, bits(p, i)) mod
//   2^64
//
// key(p): XXH3-64 of the name. i: place in the whole tensor as it is stored, row-major, padding rows left out. bits: of
// the f32 master value. So it depends neither on what a rank holds of a tensor (tensor parallelism, stages, chunks) nor
// on who keeps what (optim.shard, data ranks), on precision.dtype only as far as values differ; parts add up.

#include "optim/training_state.h"

namespace trireme {

uint64_t parameter_key(std::string_view name);

/// The part of the hash that a box of a tensor has. shape: of the whole tensor, with or without padding rows. values:
/// of the box, row-major.
uint64_t box_hash(uint64_t key, const Shape& shape, const Box& box, std::span<const float> values);

/// Of all that this rank holds of the table, padding left out: of a whole table the model's hash. Equal on ranks that
/// hold the same, or they have drifted. Where ranks share the remainders of bf16 weights it is that of the weights
/// as they are, without remainders. Not of a state whose weights are shared.
uint64_t parameter_hash(const TrainingState& state, const ParameterTable& table);

}  // namespace trireme
