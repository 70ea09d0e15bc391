#pragma once
// What a classifier says of rows, the same on every rank and whatever their number.

#include <optional>
#include <span>
#include <vector>

#include "train/glue/rows.h"
#include "train/session.h"

namespace trireme {

/// Collective. Logits of all rows, [rows x classes] in their order: each data rank runs a contiguous part, as much of
/// it at a time as the limit allows, and every row is run once. Nothing when a stop was asked for on any rank.
std::optional<std::vector<double>> predict(Session& session, DType dtype, const EncodedRows& rows,
                                           const RowLayout& layout, const BatchLimit& limit);

/// Mean cross-entropy in nats of labels of which all classes share `smoothing`, or squared error where there is one
/// class.
double mean_loss(std::span<const double> logits, std::span<const double> labels, int64_t classes, double smoothing);

/// The most likely class of each row, the first of equals; one class: its value.
std::vector<double> decide(std::span<const double> logits, int64_t classes);

}  // namespace trireme
