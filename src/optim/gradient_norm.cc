#include "optim/gradient_norm.h"

#include <algorithm>

namespace trireme {
namespace {

bool counts_elsewhere(const ParameterTable& table, const Parameter& parameter) {
  const Layout& layout = table.layout();
  return (layout.tensor_rank > 0 && parameter.is_whole()) ||
         (!layout.part.embedding && parameter.name == "embedding.token.weight");
}

int64_t chunks(const ParameterRange& part) { return (part.end - part.begin + kNormChunk - 1) / kNormChunk; }

}  // namespace

GradientNorm::GradientNorm(const ParameterTable& table, const Ownership& ownership, int rank) {
  const std::vector<ParameterRange> owned = ownership.owned_by(rank);
  for (const Parameter& parameter : table.all()) {
    if (!parameter.trained() || counts_elsewhere(table, parameter)) continue;
    const int64_t end = parameter.offset + parameter.count();
    auto own = std::ranges::upper_bound(owned, parameter.offset, {}, &ParameterRange::end);
    for (bool first = true; own != owned.end() && own->begin < end; ++own, first = false) {
      const ParameterRange part{std::max(own->begin, parameter.offset), std::min(own->end, end)};
      if (!first && parts_.back().end == part.begin) {
        parts_.back().end = part.end;
      } else {
        parts_.push_back(part);
      }
    }
  }
  for (const ParameterRange& part : parts_) count_ += chunks(part);
}

void GradientNorm::write_values(const std::function<View(int64_t, int64_t)>& summed, Ops& ops, Context& context,
                                View values) const {
  int64_t next = 0;
  for (const ParameterRange& part : parts_) {
    ops.squared_norms(context, summed(part.begin, part.end - part.begin), values.rows_slice(next, chunks(part)));
    next += chunks(part);
  }
}

}  // namespace trireme
