#include "checkpoint/neox/step.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/count.h"
#include "base/error.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

NeoxFiles files_at(const std::string& path) {
  const auto folder = find_neox_step(path);
  require(folder.has_value(), ErrorKind::io, "{} has no checkpoint of GPT-NeoX: neither `latest` nor mp_rank files",
          path);
  return list_neox_files(*folder);
}

}  // namespace

NeoxStep::NeoxStep(const std::string& path) : files_(files_at(path)) {
  for (const auto& [rank, file] : files_.model_states) states_.try_emplace(rank, file);
  for (const auto& [place, file] : files_.layers) layers_.try_emplace(place, file);
  check_ranks();
  check_one_step();
}

std::string NeoxStep::path_of(const std::string& file) const { return (fs::path(files_.folder) / file).string(); }

void NeoxStep::check_ranks() {
  int64_t most = 0;
  for (const auto& [rank, file] : files_.model_states) most = std::max(most, rank);
  for (int64_t rank = 0; rank <= most; ++rank) {
    require(files_.model_states.contains(rank), ErrorKind::data, "{} is missing; the folder has files of {}",
            path_of(neox_model_states_file(rank)), count_text(files_.model_states.size(), "rank"));
  }
  tensor_ranks_ = ranks();
  if (files_.pipelined()) {
    tensor_ranks_ = 1;
    for (const auto& [place, file] : files_.layers) tensor_ranks_ = std::max(tensor_ranks_, place.second + 1);
  }
  const TorchValue root = states(0).root();
  if (!root.is_dict()) root.fail_with("is not a dictionary");
  if (const auto world = root.find("mp_world_size"); world && world->integer() != ranks())
    world->fail_with(fmt::format("is {}, but the folder has {} mp_rank files", world->integer(), ranks()));
  const auto args = root.find("args");
  const auto size = args && args->is_dict() ? args->find("model_parallel_size") : std::nullopt;
  if (size && size->integer() != tensor_ranks_)
    size->fail_with(fmt::format("is {}, but the folder has the weights of {}", size->integer(),
                                count_text(tensor_ranks_, "tensor rank")));
  require(ranks() % tensor_ranks_ == 0, ErrorKind::data,
          "{}: {} mp_rank files, not a multiple of {} tensor ranks; files are missing", files_.folder, ranks(),
          tensor_ranks_);
}

void NeoxStep::check_one_step() const {
  for (const char* key : {"iteration", "global_steps", "skipped_steps", "dp_world_size"}) {
    const auto first = states(0).root().find(key);
    for (int64_t rank = 1; rank < ranks(); ++rank) {
      const auto other = states(rank).root().find(key);
      if (!other || !first || other->integer() == first->integer()) continue;
      other->fail_with(fmt::format("is {}, but in {} it is {}: the files belong to different checkpoints",
                                   other->integer(), neox_model_states_file(0), first->integer()));
    }
  }
  const auto iteration = states(0).root().find("iteration");
  if (iteration && files_.step && iteration->integer() != *files_.step)
    iteration->fail_with(fmt::format("is {}, but the folder belongs to step {}", iteration->integer(), *files_.step));
}

std::vector<std::string> NeoxStep::config_files() const {
  if (!files_.configs.empty()) return files_.configs;
  const std::vector<std::string> above = list_neox_files(fs::path(files_.folder).parent_path().string()).configs;
  require(!above.empty(), ErrorKind::data,
          "{} has no configs/*.yml, which describe what the tensors do not show (rotary, residual, activation); put "
          "the YAML files of the training into {}",
          files_.folder, path_of("configs"));
  return above;
}

}  // namespace trireme
