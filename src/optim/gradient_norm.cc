#include "optim/gradient_norm.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "model/mesh_layout.h"

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
    if (!parameter.trained()) continue;
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
  values_per_rank_ = static_cast<size_t>(most);
}

void GradientNorm::write_values(int rank, const std::function<View(int64_t, int64_t)>& summed, Ops& ops,
                                Context& context, View values) const {
  int64_t next = 0;
  for (const Part& part : parts_[static_cast<size_t>(rank)]) {
    ops.squared_norms(context, summed(part.begin, part.count), values.rows_slice(next, part.chunks()));
    next += part.chunks();
  }
}

std::vector<double> GradientNorm::squares(const std::function<std::span<const double>(int)>& of_rank) const {
  std::vector<size_t> next(parts_.size());  // of each rank's values
  std::vector<double> sums;
  sums.reserve(parameters_.size());
  for (const auto& owners : parameters_) {
    double& sum = sums.emplace_back();
    for (const size_t owner : owners) sum += of_rank(static_cast<int>(owner))[next[owner]++];
  }
  return sums;
}

MeshNorm::MeshNorm(const ParameterTable& of, const MeshShape& mesh,
                   const std::function<Ownership(const ParameterTable&)>& ownership_of)
    : mesh_(mesh), parameters_(of.all().size()) {
  std::unordered_map<std::string_view, size_t> index_of;
  for (size_t i = 0; i < of.all().size(); ++i) index_of.emplace(of.all()[i].name, i);
  int place = 0;
  for (const Layout& layout : layouts_of_replica(of.spec(), mesh)) {
    const ParameterTable table(of.spec(), InitScheme::gpt2, layout, of.trained());
    const int stage = place / static_cast<int>(mesh.tensor), shard = place % static_cast<int>(mesh.tensor);
    ++place;
    Place& own = places_.emplace_back(
        Place{{table, ownership_of(table)}, stage * static_cast<int>(mesh.data * mesh.tensor) + shard, {}});
    for (const Parameter& parameter : table.all()) {
      const bool copy =
          (shard > 0 && parameter.is_whole()) || (!layout.part.embedding && parameter.name == "embedding.token.weight");
      own.counted.push_back(copy ? std::nullopt : std::optional(index_of.at(parameter.name)));
    }
    values_per_rank_ = std::max(values_per_rank_, own.norm.values_per_rank());
  }
}

double MeshNorm::squared(std::span<const double> values) const {
  std::vector<double> sums(parameters_);
  for (const Place& place : places_) {
    const std::vector<double> own = place.norm.squares([&](int data_rank) {
      const size_t rank =
          static_cast<size_t>(place.first_rank) + static_cast<size_t>(data_rank) * static_cast<size_t>(mesh_.tensor);
      return values.subspan(rank * values_per_rank_, values_per_rank_);
    });
    for (size_t i = 0; i < own.size(); ++i) {
      if (place.counted[i]) sums[*place.counted[i]] += own[i];
    }
  }
  double sum = 0;
  for (const double of_parameter : sums) sum += of_parameter;
  return sum;
}

}  // namespace trireme
