#pragma once
// The files of one step of GPT-NeoX, as DeepSpeed names them:
//   latest                                              the step's name: global_step1000
//   global_step1000/configs/*.yml                       the run's configuration
//   global_step1000/layer_LL-model_MM-model_states.pt   weights of a layer, of one tensor rank
//   global_step1000/mp_rank_MM_model_states.pt          the other state; without a pipeline also all weights
//   global_step1000/[bf16_]zero_pp_rank_DD_mp_rank_MM_optim_states.pt  a data rank's share of the optimizer's state
// MM of the latter two is pipeline stage x tensor ranks + tensor rank.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// The folder of the step that `path` is or whose `latest` names it, without a `latest` the largest step in it;
/// nothing where that is not NeoX's. Throws Error::data where `latest` names a folder that is not there, and
/// where the largest step has no weights.
std::optional<std::string> find_neox_step(const std::string& path);

/// Folders of steps, ascending: `path` itself where it is one, else those in it, whichever `latest` names.
std::vector<std::string> list_neox_steps(const std::string& path);

struct NeoxFiles {
  std::string folder;
  std::optional<int64_t> step;  ///< by the folder's name
  std::vector<std::string> configs;
  std::map<std::pair<int64_t, int64_t>, std::string> layers;      ///< by layer and tensor rank
  std::map<int64_t, std::string> model_states;                    ///< by MM
  std::map<std::pair<int64_t, int64_t>, std::string> optimizers;  ///< by MM and data rank

  bool pipelined() const { return !layers.empty(); }
};

/// Lists a step's folder. Throws Error::data for files of parts of DeepSpeed that are not read, and where two files
/// have one place.
NeoxFiles list_neox_files(const std::string& folder);

std::string neox_layer_file(int64_t layer, int64_t tensor_rank);
std::string neox_model_states_file(int64_t rank);
std::string neox_optimizer_file(int64_t data_rank, int64_t rank, bool bf16);

}  // namespace trireme
