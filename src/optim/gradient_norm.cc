#include "optim/gradient_norm.h"

#include <algorithm>

namespace trireme {
namespace {

/// Owner of each value of the norm, in the order of norm_borders().
std::vector<size_t> chunk_owners(const std::vector<int64_t>& borders, const Ownership& ownership) {
  std::vector<size_t> owners(borders.size() - 1);
  for (const Stripe& stripe : ownership.stripes()) {
    for (size_t rank = 0; rank < stripe.pieces.size(); ++rank) {
      const auto [begin, end] = stripe.pieces[rank];
      const auto first = std::ranges::lower_bound(borders, begin) - borders.begin();
      for (auto i = static_cast<size_t>(first); borders[i] < end; ++i) owners[i] = rank;
    }
  }
  return owners;
}

}  // namespace

GradientNorm::GradientNorm(const ParameterTable& table, const Ownership& ownership)
    : parts_(static_cast<size_t>(ownership.ranks())) {
  const std::vector<size_t> owners = chunk_owners(norm_borders(table), ownership);
  auto owner = owners.begin();
  for (const Parameter& parameter : table.all()) {
    std::vector<size_t>& own = parameters_.emplace_back();
    for (int64_t at = 0; at < parameter.count(); at += kNormChunk, ++owner) {
      const int64_t length = std::min(kNormChunk, parameter.count() - at);
      auto& parts = parts_[*owner];
      if (at > 0 && own.back() == *owner) {
        parts.back().count += length;
      } else {
        parts.push_back({parameter.offset + at, length});
      }
      own.push_back(*owner);
    }
  }
  int64_t most = 0;
  for (const auto& parts : parts_) {
    int64_t chunks = 0;
    for (const Part& part : parts) chunks += part.chunks();
    most = std::max(most, chunks);
  }
  values_.resize(static_cast<size_t>(most));
}

std::span<const double> GradientNorm::values_of(int rank, View gradients, Ops& ops, Context& context) {
  size_t next = 0;
  for (const Part& part : parts_[static_cast<size_t>(rank)]) {
    const auto chunks = static_cast<size_t>(part.chunks());
    ops.squared_norms(context, gradients.rows_slice(part.begin, part.count),
                      View(std::span(values_).subspan(next, chunks), {part.chunks()}));
    next += chunks;
  }
  return values_;
}

double GradientNorm::squared(std::span<const double> values) const {
  std::vector<size_t> next(parts_.size());  // of each rank's values
  double sum = 0;
  for (const auto& owners : parameters_) {
    double of_parameter = 0;
    for (const size_t owner : owners) of_parameter += values[owner * values_.size() + next[owner]++];
    sum += of_parameter;
  }
  return sum;
}

}  // namespace trireme
