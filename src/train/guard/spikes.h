#pragma once
// Loss spikes: a loss far above the recent losses of the run. Pure functions, the same on every rank.

#include "checkpoint/snapshot/checkpoint.h"

namespace trireme {

/// Adds a loss to the running mean and variance, which forget with a half-life of about 35 steps.
void add_loss(LossTrend& trend, double loss);

/// The loss above which a step is a spike: mean + score x standard deviation. Infinity during the first 50 losses and
/// for score 0. The deviation is at least 1 % of the mean, about how much the losses of a settled run differ.
double spike_limit(const LossTrend& trend, double score);

}  // namespace trireme
