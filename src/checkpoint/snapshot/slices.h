#pragma once
// How the tensors of a checkpoint are cut into files. Ranks that hold the same box of a parameter share it: the stored
// rows of all boxes that the same ranks hold, in table order, form one long list; the k-th of N holders stores the k-th
// part of it, cut at row boundaries so that the parts have nearly equal bytes. So of replicas one stores, and a shard
// holds at most one slice of each parameter.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/parameter_table.h"
#include "optim/training_state.h"

namespace trireme {

/// The stored parts of a parameter, f32 each: its value and the states of its update rule.
enum class Part : uint8_t { weight, adam_m, adam_v };
inline constexpr std::array kParts = {Part::weight, Part::adam_m, Part::adam_v};

const char* name_of(Part part);  ///< "weight", "adam.m", "adam.v"
std::optional<Part> part_called(std::string_view name);
Moment moment_of(Part state);  ///< the moment that an optimizer state is

/// Name of a part inside a shard: "x.weight", "x.weight.adam.m", "x.weight.adam.v".
std::string stored_name(const std::string& parameter, Part part);

/// The states that a parameter's update rule keeps of it; a frozen one has none.
std::vector<Part> states_of(const Parameter& parameter);

struct Slice {
  size_t parameter = 0;  ///< index in the whole model's ParameterTable::all()
  Part part = Part::weight;
  Box box;  ///< rows of a stored box, in the coordinates of the whole tensor
};

/// The slices that each rank of a group stores, in file order: all weights, then (with states) each optimizer state.
/// `layouts` has each rank's part; `whole` is the table of the whole model.
std::vector<std::vector<Slice>> plan_slices(const ParameterTable& whole, std::span<const Layout> layouts, bool states);

/// Rows [first, first + n) of a parameter's box as their own parameter, to be read through TrainingState.
Parameter rows_of(const Parameter& parameter, int64_t first, int64_t n);

}  // namespace trireme
