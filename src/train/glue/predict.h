#pragma once
// The predictions of a classifier, the same on every rank and for every number of ranks.

#include <optional>
#include <span>
#include <vector>

#include "train/glue/rows.h"
#include "train/session.h"

namespace trireme {

/// Collective. Logits of all rows, [rows x classes] in their order: each data rank runs a contiguous part, in batches
/// up to the limit; every row is run once. Nullopt when a stop was requested on any rank.
std::optional<std::vector<double>> predict(Session& session, DType dtype, const EncodedRows& rows,
                                           const RowLayout& layout, const BatchLimit& limit);

/// Mean cross-entropy in nats, with label smoothing `smoothing`; mean squared error if there is one class.
double mean_loss(std::span<const double> logits, std::span<const double> labels, int64_t classes, double smoothing);

/// The most likely class of each row (the first of equals); with one class its value.
std::vector<double> decide(std::span<const double> logits, int64_t classes);

}  // namespace trireme
