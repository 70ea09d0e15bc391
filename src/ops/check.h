#pragma once
// Checks of the values of a batch, which is on the host, once before it is used: operators do not look at them. `op`:
// the operator that uses them. Checks of shapes and types are in check.cc.

#include <string_view>

#include "ops/ops.h"

namespace trireme {

/// Throws Error::data naming the first row whose id is outside [0, table_rows), the id and the table's size.
void check_ids(std::string_view op, std::string_view what, ConstView ids, int64_t table_rows);

/// Throws Error::shape unless offsets begin at 0, never fall and end at `rows`.
void check_offsets(std::string_view op, ConstView offsets, int64_t rows);

/// Throws Error::shape unless the positions of a dropout that is on count up by one in every sequence.
void check_positions(std::string_view op, const Dropout& dropout, ConstView offsets);

/// Throws Error::shape where a sequence's past and new rows do not fit the capacity of its cache. With a window (as in
/// AttentionShape) they need not, if it does.
void check_cache(ConstView offsets, ConstView past, int64_t capacity, int64_t window);

}  // namespace trireme
