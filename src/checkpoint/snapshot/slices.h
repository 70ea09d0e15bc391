#pragma once
// How the tensors of a checkpoint are cut into files. Ranks that hold the same box of a parameter share it: the stored
// rows of all boxes that the same ranks hold, in table order, form one long list; the k-th of N holders stores the k-th
// part of it, cut at row boundaries so that the parts have nearly equal bytes. So of replicas one stores, and a shard
// holds at most one slice of each parameter.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/parameter_table.h"
#include "optim/training_state.h"

namespace trireme {

/// The stored parts of a parameter, f32 each, are its value and the states of its update rule (StateKind::name).
inline constexpr std::string_view kWeightPart = "weight";

/// Name of a part inside a shard: "x.weight", "x.weight.adam.m", "x.weight.adam.v".
std::string stored_name(const std::string& parameter, std::string_view part);

struct Slice {
  size_t parameter = 0;  ///< index in the whole model's ParameterTable::all()
  std::string_view part = kWeightPart;
  Box box;  ///< rows of a stored box, in the coordinates of the whole tensor, or of its rows' values

  bool is_weight() const { return part == kWeightPart; }
};

/// The rows of a box of a parameter, as the values of a state: of one per row a box of dim 0 alone.
Box values_box(StateExtent extent, const Box& box);

/// The slices that each rank of a group stores, in file order: all weights, then (with states) each optimizer state.
/// `layouts` has each rank's part; `whole` is the table of the whole model.
std::vector<std::vector<Slice>> plan_slices(const ParameterTable& whole, std::span<const Layout> layouts, bool states);

}  // namespace trireme
