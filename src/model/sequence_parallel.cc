#include "model/sequence_parallel.h"

#include <algorithm>

namespace trireme {

SequenceParallelSums::SequenceParallelSums(const ParameterTable& table, View gradients, TensorGroup& tensor,
                                           Context& context, GradientSink* next)
    : tensor_(tensor),
      context_(context),
      next_(next),
      sums_(table.ready_ranges().size()),
      ranges_(table.ready_ranges()) {
  const bool classifies = table.layout().part.head && !table.spec().has_decoder();
  for (const Parameter& parameter : table.all()) {
    // A classifier's head has all of its rows on every tensor rank.
    if (!parameter.is_whole() || parameter.layer_sums || (classifies && parameter.group == table.head_group()))
      continue;
    const View gradient = gradient_of(gradients, parameter);
    if (!gradient.empty()) sums_[parameter.group].push_back(gradient);
  }
}

void SequenceParallelSums::ready(ParameterRange range) {
  const auto group = static_cast<size_t>(std::ranges::find(ranges_, range) - ranges_.begin());
  tensor_.sum_gradients(context_, sums_[group]);
  if (next_) next_->ready(range);
}

}  // namespace trireme
