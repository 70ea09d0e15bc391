#pragma once
// Every way to spread a step over ranks.

#include <string>
#include <vector>

#include "plan/step_time.h"

namespace trireme {

/// Layouts of `ranks` ranks that divide the model and the batch: data x tensor x pipeline x chunks x shard x sequence
/// parallelism x recomputation x micro-batch. At most 64 sequences in a micro-batch and 8 chunks. Pure.
std::vector<StepLayout> possible_layouts(const ModelSize& model, int64_t ranks, int64_t global_batch);

/// About what a rank needs, in bytes, to order layouts before their memory is planned: state and activations.
double rough_memory(const ModelSize& model, const StepLayout& layout, double element_bytes);
/// What it needs at least: the state alone.
double least_memory(const ModelSize& model, const StepLayout& layout, double element_bytes);

/// Seconds by cause, as "products 0.512 s, bubble 0.100 s": the causes that take at least `share` of the total.
std::string causes_text(const PlannedTime& time, double share);
/// Why `slower` takes longer: the causes that take more, largest first, as "bubble +0.100 s, exchange +0.050 s"; ""
/// where no cause takes 0.1 % more.
std::string difference_text(const PlannedTime& faster, const PlannedTime& slower);

}  // namespace trireme
