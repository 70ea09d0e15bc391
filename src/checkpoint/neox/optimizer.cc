#include "checkpoint/neox/states.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr const char *kFirst = "exp_avg", *kSecond = "exp_avg_sq", *kStepKey = "step";

uint64_t elements_of(const NeoxShape& shape) { return element_count(shape.shape); }

uint64_t elements_of(const std::vector<NeoxShape>& group) {
  uint64_t count = 0;
  for (const NeoxShape& shape : group) count += elements_of(shape);
  return count;
}

uint64_t elements_of(const TorchValue& tensor) { return element_count(tensor.tensor().shape); }

/// The optimizer's state of its k-th parameter or flat array.
TorchValue state_of(const TorchValue& optimizer, size_t k) {
  const TorchValue state = optimizer.at("state");
  const std::optional<TorchValue> groups = optimizer.find("param_groups");
  if (groups && k < groups->items().size()) {
    const auto parameters = groups->items()[k].find("params");
    if (parameters && !parameters->items().empty())
      return state.at(fmt::format("{}", parameters->items().front().integer()));
  }
  return state.at(fmt::format("{}", k));
}

/// Checks the number of files of ZeRO, and that its stage keeps flat parts.
void check_partition(const TorchValue& state, size_t data_ranks) {
  if (const auto stage = state.find("zero_stage"); stage && stage->integer() > 2)
    stage->fail_with(fmt::format("is {}: only the state of ZeRO stages 0 to 2 is supported", stage->integer()));
  const auto counts = state.find("partition_count");
  if (!counts) return;
  const std::vector<TorchValue> all = counts->is_list() ? counts->items() : std::vector{*counts};
  for (const TorchValue& count : all) {
    if (count.integer() != static_cast<int64_t>(data_ranks))
      count.fail_with(fmt::format("is {}, but the checkpoint has {}: the file belongs to another checkpoint",
                                  count.integer(), count_text(data_ranks, "data rank")));
  }
}

/// That the parts of a data rank begin where they do in the flat order.
void check_mappings(const TorchValue& state, const NeoxGroups& groups, const std::vector<uint64_t>& partition,
                    uint64_t rank) {
  const auto mappings = state.find("param_slice_mappings");
  if (!mappings || !mappings->is_list()) return;
  const std::vector<TorchValue> found = mappings->items();
  for (size_t g = 0; g < std::min(groups.size(), found.size()); ++g) {
    uint64_t first = 0;
    const uint64_t begin = rank * partition[g], end = begin + partition[g];
    for (const NeoxShape& shape : groups[g]) {
      const uint64_t from = std::max(first, begin), to = std::min(first + elements_of(shape), end);
      const auto mapping = found[g].find(shape.name);
      first += elements_of(shape);
      if (from >= to || !mapping) continue;
      const int64_t start = mapping->at("start").integer(), count = mapping->at("numel").integer();
      if (start != static_cast<int64_t>(from - begin) || count != static_cast<int64_t>(to - from))
        mapping->fail_with(
            fmt::format("has {} elements from {} on, expected {} from {} on (param_shapes): parameters in another "
                        "order (round_robin_gradients) are not supported",
                        count, start, to - from, from - begin));
    }
  }
}

/// DeepSpeed's loss scale: where it is dynamic, with the numbers of its next step and of the last overflow (-1: none).
std::optional<LossScale> read_loss_scale(const TorchValue& scaler) {
  const auto scale = scaler.find("cur_scale");
  if (!scale || !(scale->number() > 0)) return std::nullopt;
  LossScale found{.scale = scale->number(), .window = LossScaleOptions().window};
  const auto step = scaler.find("cur_iter"), overflow = scaler.find("last_overflow_iter");
  if (step && overflow) found.clean = std::max<int64_t>(step->integer() - overflow->integer() - 1, 0);
  if (const auto left = scaler.find("cur_hysteresis")) found.hysteresis = std::max<int64_t>(left->integer(), 1);
  return found;
}

}  // namespace

void NeoxOptimizer::take_step(const TorchValue& state, const TorchValue& group) {
  // Apex keeps it in the group; DeepSpeed's own Adam in the state, and the group's stays 0.
  const auto in_state = state.find(kStepKey), in_group = group.is_dict() ? group.find(kStepKey) : std::nullopt;
  if (!in_state && !in_group) state.at(kStepKey);
  const int64_t step = std::max(in_state ? in_state->integer() : 0, in_group ? in_group->integer() : 0);
  if (step_ >= 0 && step != step_)
    (in_state ? *in_state : *in_group).fail_with(fmt::format("is {}, but for other parameters it is {}", step, step_));
  step_ = step;
}

/// Elements [begin, begin + most) of a flat array, whose values may end with padding.
void NeoxOptimizer::add_part(Group& group, const TorchValue& state, const TorchValue* master, uint64_t begin,
                             uint64_t most, const std::string& file) {
  const auto add = [&](ElementSource& source, const TorchValue& value) {
    const TorchTensor tensor = value.tensor();
    if (element_count(tensor.shape) < most)
      value.fail_with(fmt::format("has {} elements, expected {} from element {} of the flat array on",
                                  element_count(tensor.shape), most, begin));
    source.add(tensor, most, file);
  };
  add(group.m, state.at(kFirst));
  add(group.v, state.at(kSecond));
  if (master) add(group.master, *master);
}

void NeoxOptimizer::place(const NeoxGroups& groups) {
  for (size_t g = 0; g < groups.size(); ++g) {
    uint64_t first = 0;
    const Group& group = *groups_[g];
    for (const NeoxShape& shape : groups[g]) {
      states_[shape.name] = {group.master.count() > 0 ? &group.master : nullptr, &group.m, &group.v, first};
      first += elements_of(shape);
    }
  }
}

NeoxOptimizer::NeoxOptimizer(std::span<const TorchArchive* const> data_ranks, const NeoxGroups& groups) {
  const uint64_t ranks = data_ranks.size();
  std::vector<uint64_t> partition(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) groups_.push_back(std::make_unique<Group>());
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    const TorchArchive& file = *data_ranks[rank];
    const TorchValue state = file.root().at("optimizer_state_dict"), base = state.at("base_optimizer_state");
    check_partition(state, ranks);
    const TorchValue masters = state.at("single_partition_of_fp32_groups");
    if (masters.items().size() != groups.size())
      masters.fail_with(
          fmt::format("has {} groups of parameters, but param_shapes has {}", masters.items().size(), groups.size()));
    for (size_t g = 0; g < groups.size(); ++g) {
      const bool by_number = base.is_list();  // older versions, without the moments' padding
      if (by_number && g >= base.items().size()) base.fail_with(fmt::format("has no group {}", g));
      const TorchValue own = by_number ? base.items()[g] : state_of(base, g);
      const TorchValue first = own.at(kFirst);
      const uint64_t all = elements_of(groups[g]), size = elements_of(first);
      if (rank == 0) partition[g] = size;
      const uint64_t padded = partition[g] * ranks, begin = rank * partition[g];
      const bool fits = by_number || (size == partition[g] && padded >= all && padded - all <= 2 * ranks);
      if (!fits)
        first.fail_with(
            fmt::format("has {} elements, but {} share {}: the file belongs to another number of data ranks", size,
                        count_text(ranks, "data rank"), all));
      const uint64_t most = begin >= all ? 0 : std::min(all - begin, partition[g]);
      add_part(*groups_[g], own, &masters.items()[g], begin, most, file.path());
      const auto described = by_number ? std::nullopt : base.find("param_groups");
      take_step(own, described && g < described->items().size() ? described->items()[g] : own);
    }
    check_mappings(state, groups, partition, rank);
    if (const auto scaler = state.find("loss_scaler"); scaler && (scaler->is_object() || scaler->is_dict()))
      loss_scale_ = read_loss_scale(*scaler);
  }
  place(groups);
}

NeoxOptimizer::NeoxOptimizer(const TorchValue& optimizer, const NeoxGroups& groups, const std::string& file) {
  const TorchValue inner = optimizer.find("optimizer_state_dict").value_or(optimizer);
  const auto flat = optimizer.find("fp32_groups_flat"), single = optimizer.find("fp32_groups");
  loss_scale_ = read_loss_scale(optimizer);
  const std::vector<TorchValue> described = inner.at("param_groups").items();
  if (described.size() != groups.size())
    inner.at("param_groups")
        .fail_with(fmt::format("has {} groups, but the model has {}: with weight decay and without", described.size(),
                               groups.size()));
  if (flat) {
    for (size_t g = 0; g < groups.size(); ++g) {
      const std::vector<TorchValue> masters = flat->items();
      if (g >= masters.size()) flat->fail_with(fmt::format("has no group {}", g));
      const TorchValue own = state_of(inner, g);
      groups_.push_back(std::make_unique<Group>());
      add_part(*groups_.back(), own, &masters[g], 0, elements_of(groups[g]), file);
      take_step(own, described[g]);
    }
    place(groups);
    return;
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<TorchValue> parameters = described[g].at("params").items();
    if (parameters.size() != groups[g].size())
      described[g].at("params").fail_with(
          fmt::format("has {} parameters, but the model has {} in this group", parameters.size(), groups[g].size()));
    for (size_t i = 0; i < parameters.size(); ++i) {
      const TorchValue own = inner.at("state").at(fmt::format("{}", parameters[i].integer()));
      const std::vector<TorchValue> masters =
          single && g < single->items().size() ? single->items()[g].items() : std::vector<TorchValue>();
      groups_.push_back(std::make_unique<Group>());
      Group& group = *groups_.back();
      add_part(group, own, i < masters.size() ? &masters[i] : nullptr, 0, elements_of(groups[g][i]), file);
      take_step(own, described[g]);
      states_[groups[g][i].name] = {group.master.count() > 0 ? &group.master : nullptr, &group.m, &group.v, 0};
    }
  }
}

const NeoxState* NeoxOptimizer::find(const std::string& name) const {
  const auto found = states_.find(name);
  return found == states_.end() ? nullptr : &found->second;
}

uint64_t neox_state_elements(const TorchValue& optimizer) {
  uint64_t count = 0;
  for (const auto& [number, state] : optimizer.find("optimizer_state_dict").value_or(optimizer).at("state").entries())
    count += elements_of(state.at(kFirst));
  return count;
}

}  // namespace trireme
