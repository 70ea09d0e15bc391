#pragma once
// What a classifier says of rows, the same on every rank and whatever their number.

#include <optional>
#include <span>
#include <vector>

#include "comm/scalars.h"
#include "model/stage.h"
#include "train/glue/rows.h"

namespace trireme {

/// Collective. Logits of all rows, [rows x classes] in their order: each rank runs a contiguous part, as much of
/// it at a time as the limit allows, and every row is run once. Nothing when a stop was asked for on any rank.
std::optional<std::vector<double>> predict(Stage& stage, Ops& ops, DType dtype, const EncodedRows& rows,
                                           const RowLayout& layout, const BatchLimit& limit, Scalars& scalars);

/// Mean cross-entropy in nats, or squared error where there is one class.
double mean_loss(std::span<const double> logits, std::span<const double> labels, int64_t classes);

/// The most likely class of each row, the first of equals; one class: its value.
std::vector<double> decide(std::span<const double> logits, int64_t classes);

}  // namespace trireme
