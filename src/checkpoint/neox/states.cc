#include "checkpoint/neox/states.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/count.h"
#include "base/error.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

size_t optimizer_groups(const TorchValue& optimizer) {
  const TorchValue inner = optimizer.find("optimizer_state_dict").value_or(optimizer),
                   groups = inner.at("param_groups");
  const size_t count = groups.items().size();
  if (count < 1 || count > 2)
    groups.fail_with(fmt::format("has {} groups, expected one or two: with weight decay and without", count));
  return count;
}

}  // namespace

NeoxStates::NeoxStates(const NeoxStep& step, const NeoxModel& model) : step_(step), model_(model) {
  if (!step_.files().optimizers.empty()) {
    open_data_ranks();
    for (int64_t rank = 0; rank < step_.ranks(); ++rank) {
      std::vector<const TorchArchive*> data_ranks;
      for (int64_t data = 0; data < data_ranks_; ++data) data_ranks.push_back(&archives_.at({rank, data}));
      optimizers_.push_back(std::make_unique<NeoxOptimizer>(data_ranks, groups_of(rank)));
    }
  } else if (step_.states(0).root().find("optimizer")) {
    for (int64_t rank = 0; rank < step_.ranks(); ++rank)
      optimizers_.push_back(std::make_unique<NeoxOptimizer>(step_.states(rank).root().at("optimizer"), groups_of(rank),
                                                            step_.states(rank).path()));
  }
  for (const auto& optimizer : optimizers_) {
    const auto rank = static_cast<int64_t>(&optimizer - optimizers_.data());
    require(optimizer->step() == optimizers_.front()->step(), ErrorKind::data,
            "{}: {} Adam updates in the files of mp_rank {:02}, but {} in those of mp_rank 00: the files belong to "
            "different steps",
            step_.files().folder, optimizer->step(), rank, optimizers_.front()->step());
  }
  if (!empty()) check();
}

void NeoxStates::open_data_ranks() {
  data_ranks_ = 1;
  const auto said = step_.states(0).root().find("dp_world_size");
  for (const auto& [place, file] : step_.files().optimizers) data_ranks_ = std::max(data_ranks_, place.second + 1);
  if (said && said->integer() > 0) data_ranks_ = said->integer();
  const std::string by = said ? fmt::format("dp_world_size is {} in {}", data_ranks_, neox_model_states_file(0))
                              : fmt::format("other files belong to {}", count_text(data_ranks_, "data rank"));
  const bool bf16 = fs::path(step_.files().optimizers.begin()->second).filename().string().starts_with("bf16_");
  for (const auto& [place, file] : step_.files().optimizers) {
    require(place.first < step_.ranks() && place.second < data_ranks_, ErrorKind::data,
            "{}: unexpected file; {}, and the folder has {} mp_rank files", file, by, step_.ranks());
  }
  for (int64_t rank = 0; rank < step_.ranks(); ++rank) {
    for (int64_t data = 0; data < data_ranks_; ++data) {
      const auto file = step_.files().optimizers.find({rank, data});
      require(file != step_.files().optimizers.end(), ErrorKind::data, "{} is missing; {}",
              step_.path_of(neox_optimizer_file(data, rank, bf16)), by);
      archives_.try_emplace({rank, data}, file->second);
    }
  }
}

NeoxGroups NeoxStates::groups_of(int64_t rank) const {
  const auto said = step_.states(rank).root().find("param_shapes");
  if (!said) return derived_groups(rank);
  NeoxGroups groups;
  for (const TorchValue& group : said->is_dict() ? std::vector{*said} : said->items()) {
    groups.emplace_back();
    for (const auto& [name, shape] : group.entries())
      groups.back().push_back({neox_name(name), shape.sizes(), shape.path()});
  }
  return groups;
}

NeoxGroups NeoxStates::derived_groups(int64_t rank) const {
  const int64_t stage = rank / step_.tensor_ranks(), tensor_rank = rank % step_.tensor_ranks();
  const ParameterTable& table = model_.tables[static_cast<size_t>(tensor_rank)];
  const auto count = [&](const NeoxRule& rule) { return static_cast<uint64_t>(table.find(rule.ours).shape.count()); };
  auto next = model_.rules.begin();
  std::vector<const NeoxRule*> own;
  for (int64_t s = 0; s <= stage; ++s) {
    own.clear();
    const TorchValue optimizer = step_.states(s * step_.tensor_ranks() + tensor_rank).root().at("optimizer");
    const uint64_t all = neox_state_elements(optimizer);
    uint64_t taken = 0;
    if (model_.spec.tied_head && s > 0 && s + 1 == step_.stages()) {
      own.push_back(&model_.rules.front());
      taken = count(model_.rules.front());
    }
    for (; next != model_.rules.end() && taken < all; ++next) {
      own.push_back(&*next);
      taken += count(*next);
    }
    if (taken != all)
      optimizer.fail_with(fmt::format("holds {} elements; the parameters from layer {} on have {} or more", all,
                                      own.empty() ? 0 : own.front()->layer, taken));
  }
  const size_t groups = optimizer_groups(step_.states(rank).root().at("optimizer"));
  NeoxGroups out(groups);
  for (const NeoxRule* rule : own) {
    const Shape& shape = table.find(rule->ours).shape;
    NeoxShape entry{rule->theirs, {}, step_.states(rank).path()};
    for (int d = 0; d < shape.dims(); ++d) entry.shape.push_back(shape[d]);
    out[groups > 1 && shape.dims() < 2 ? 1 : 0].push_back(std::move(entry));
  }
  return out;
}

void NeoxStates::check() const {
  std::vector<std::string> faults;
  for (int64_t rank = 0; rank < step_.tensor_ranks(); ++rank) {
    for (const NeoxRule& rule : model_.rules) {
      if (!find(rule, rank))
        faults.push_back(fmt::format("{} of tensor rank {}: its state is missing", rule.theirs, rank));
    }
  }
  for (int64_t rank = 0; rank < step_.ranks(); ++rank) {
    const ParameterTable& table = model_.tables[static_cast<size_t>(rank % step_.tensor_ranks())];
    for (const auto& group : groups_of(rank)) {
      for (const NeoxShape& found : group) {
        const auto rule = std::ranges::find(model_.rules, found.name, &NeoxRule::theirs);
        if (rule == model_.rules.end()) {
          faults.push_back(
              fmt::format("{}: {}: the model has no such parameter", step_.states(rank).path(), found.path));
          continue;
        }
        const Shape& shape = table.find(rule->ours).shape;
        std::vector<int64_t> expected;
        for (int d = 0; d < shape.dims(); ++d) expected.push_back(shape[d]);
        if (found.shape != expected)
          faults.push_back(
              fmt::format("{}: {} is {}, expected {}", step_.states(rank).path(), found.path, found.shape, expected));
      }
    }
  }
  require(faults.empty(), ErrorKind::data, "{}: the optimizer's state does not fit the model:\n  {}",
          step_.files().folder, fmt::join(faults, "\n  "));
}

const NeoxState* NeoxStates::find(const NeoxRule& rule, int64_t tensor_rank) const {
  if (empty()) return nullptr;
  for (int64_t stage = 0; stage < step_.stages(); ++stage) {
    if (const NeoxState* state =
            optimizers_[static_cast<size_t>(stage * step_.tensor_ranks() + tensor_rank)]->find(rule.theirs))
      return state;
  }
  return nullptr;
}

}  // namespace trireme
