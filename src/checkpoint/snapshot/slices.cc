#include "checkpoint/snapshot/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace trireme {
namespace {

/// A stored box and the ranks that hold it, ascending.
struct Holding {
  size_t parameter = 0;
  Box box;
  std::vector<int> ranks;
};

using RanksByLayout = std::vector<std::pair<Layout, std::vector<int>>>;

RanksByLayout ranks_by_layout(std::span<const Layout> layouts) {
  RanksByLayout groups;
  for (size_t rank = 0; rank < layouts.size(); ++rank) {
    auto group = std::ranges::find(groups, layouts[rank], &RanksByLayout::value_type::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {layouts[rank], {}});
    group->second.push_back(static_cast<int>(rank));
  }
  return groups;
}

/// Every stored box of the model, in table order.
std::vector<Holding> find_holdings(const ParameterTable& whole, std::span<const Layout> layouts) {
  std::unordered_map<std::string_view, size_t> index_of;
  for (size_t i = 0; i < whole.all().size(); ++i) index_of.emplace(whole.all()[i].name, i);
  std::vector<std::vector<Holding>> by_parameter(whole.all().size());
  for (const auto& [layout, ranks] : ranks_by_layout(layouts)) {
    const ParameterTable table(whole.spec(), InitScheme::gpt2, layout);
    for (const Parameter& parameter : table.all()) {
      if (parameter.stored().empty()) continue;
      const size_t index = index_of.at(parameter.name);
      auto& holdings = by_parameter[index];
      auto holding = std::ranges::find(holdings, parameter.stored(), &Holding::box);
      if (holding == holdings.end()) holding = holdings.insert(holdings.end(), {index, parameter.stored(), {}});
      holding->ranks.insert(holding->ranks.end(), ranks.begin(), ranks.end());
    }
  }
  std::vector<Holding> all;
  for (auto& holdings : by_parameter) {
    for (Holding& holding : holdings) {
      std::ranges::sort(holding.ranks);
      all.push_back(std::move(holding));
    }
  }
  return all;
}

/// Shares boxes with the same holders out among these; adds to stored[rank].
void share_out(const std::vector<const Holding*>& list, std::vector<std::vector<Slice>>& stored) {
  // Element e of the long list belongs to holder floor(e * holders / total); a row to the holder of its first element.
  int64_t total = 0;
  for (const Holding* holding : list) total += holding->box.elements();
  const std::vector<int>& ranks = list.front()->ranks;
  const auto holders = static_cast<int64_t>(ranks.size());
  const auto begin_of = [&](int64_t holder) {
    __extension__ using wide = __int128;
    return static_cast<int64_t>((static_cast<wide>(total) * holder + holders - 1) / holders);
  };
  for (int64_t holder = 0; holder < holders; ++holder) {
    const int64_t begin = begin_of(holder), end = begin_of(holder + 1);
    int64_t offset = 0;
    for (const Holding* holding : list) {
      const int64_t width = holding->box.row_width();
      const auto row_at = [&](int64_t element) {
        return std::clamp<int64_t>((element - offset + width - 1) / width, 0, holding->box.count[0]);
      };
      const int64_t first = row_at(begin), last = row_at(end);
      if (first < last)
        stored[static_cast<size_t>(ranks[static_cast<size_t>(holder)])].push_back(
            {holding->parameter, kWeightPart, holding->box.rows(first, last - first)});
      offset += holding->box.elements();
    }
  }
}

}  // namespace

std::string stored_name(const std::string& parameter, std::string_view part) {
  return part == kWeightPart ? parameter : fmt::format("{}.{}", parameter, part);
}

Box values_box(StateExtent extent, const Box& box) {
  return extent == StateExtent::element ? box : Box{{box.begin[0]}, {box.count[0]}};
}

std::vector<std::vector<Slice>> plan_slices(const ParameterTable& whole, std::span<const Layout> layouts, bool states) {
  const std::vector<Holding> holdings = find_holdings(whole, layouts);
  std::map<std::vector<int>, std::vector<const Holding*>> lists;  // by who holds them
  for (const Holding& holding : holdings) lists[holding.ranks].push_back(&holding);
  std::vector<StateKind> kinds;
  for (const Parameter& parameter : whole.all()) {
    for (const StateKind& state : parameter.states)
      if (states && std::ranges::find(kinds, state) == kinds.end()) kinds.push_back(state);
  }
  std::vector<std::vector<Slice>> plan(layouts.size());
  for (const auto& [ranks, list] : lists) share_out(list, plan);
  for (std::vector<Slice>& slices : plan) {
    std::ranges::stable_sort(slices, {}, &Slice::parameter);
    const std::vector<Slice> weights = slices;
    for (const StateKind& state : kinds) {
      for (const Slice& slice : weights) {
        const auto& kept = whole.all()[slice.parameter].states;
        if (std::ranges::find(kept, state) == kept.end()) continue;
        // The first of the boxes that are cut by columns stores the values of rows.
        const bool stores = state.extent == StateExtent::element || slice.box.dims() == 1 || slice.box.begin[1] == 0;
        if (stores) slices.push_back({slice.parameter, state.name, values_box(state.extent, slice.box)});
      }
    }
  }
  return plan;
}

}  // namespace trireme
