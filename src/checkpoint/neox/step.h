#pragma once
// The opened files of one step of GPT-NeoX, checked to be complete and of one checkpoint.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/neox/files.h"
#include "checkpoint/torch/value.h"

namespace trireme {

class NeoxStep {
 public:
  /// path: as of find_neox_step(). Throws Error::io, Error::data naming file and key.
  explicit NeoxStep(const std::string& path);
  NeoxStep(const NeoxStep&) = delete;
  NeoxStep& operator=(const NeoxStep&) = delete;

  const NeoxFiles& files() const { return files_; }
  int64_t ranks() const { return static_cast<int64_t>(states_.size()); }  ///< stages() x tensor_ranks()
  int64_t tensor_ranks() const { return tensor_ranks_; }
  int64_t stages() const { return ranks() / tensor_ranks_; }
  /// mp_rank files, by pipeline stage x tensor ranks + tensor rank.
  const TorchArchive& states(int64_t rank) const { return states_.at(rank); }
  /// By layer and tensor rank; empty without a pipeline.
  const std::map<std::pair<int64_t, int64_t>, TorchArchive>& layers() const { return layers_; }
  std::string path_of(const std::string& file) const;
  /// configs/*.yml of the step, or those beside it, which NeoX writes once per run.
  std::vector<std::string> config_files() const;

 private:
  void check_ranks();
  void check_one_step() const;

  NeoxFiles files_;
  std::map<int64_t, TorchArchive> states_;
  std::map<std::pair<int64_t, int64_t>, TorchArchive> layers_;
  int64_t tensor_ranks_ = 1;
};

}  // namespace trireme
