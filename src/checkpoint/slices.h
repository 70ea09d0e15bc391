#pragma once
// How the tensors of a checkpoint are cut into files. The stored rows of all parameters, in table order, form one long
// list; rank r of N stores the r-th part of it, cut at row boundaries so that the parts have nearly equal bytes. A
// slice is a run of rows of one parameter; a shard holds at most one slice of each parameter, ascending with the rank.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "model/parameter_table.h"

namespace trireme {

/// What is stored of a parameter, f32 each.
enum class Part : uint8_t { weight, moment1, moment2 };
inline constexpr std::array kParts = {Part::weight, Part::moment1, Part::moment2};

/// Name of a part inside a shard: "x.weight", "x.weight.m", "x.weight.v".
std::string stored_name(const std::string& parameter, Part part);

struct Slice {
  size_t parameter = 0;  ///< index in ParameterTable::all()
  Part part = Part::weight;
  int64_t first_row = 0, rows = 0;  ///< of stored_shape
};

/// Slices of one rank in file order: all weights, then (with moments) all first, all second moments.
std::vector<Slice> plan_slices(const ParameterTable& table, int ranks, int rank, bool moments);

int64_t row_width(const Shape& shape);  ///< elements per row of the first dim

/// The rows as a parameter of their own, to be read and written through TrainingState; the last rows bring the padding
/// rows behind them along.
Parameter rows_of(const Parameter& parameter, int64_t first_row, int64_t rows);

}  // namespace trireme
