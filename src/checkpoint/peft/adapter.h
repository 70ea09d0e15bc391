#pragma once
// A LoRA adapter of PEFT: a folder with adapter_config.json and adapter_model.safetensors (or .bin). Its tensors follow
// the published modules, so queries, keys and values have one each. y = W x + scale B A x; merged: W + scale B A.
// Source: Hu et al. 2021; rank-stabilized: Kalajdzievski 2023; DoRA: Liu et al. 2024; names: PEFT 0.21.

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/tensor_source.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft/config.h"
#include "model/adapters.h"
#include "optim/training_state.h"

namespace trireme {

class PeftAdapter {
 public:
  /// Throws Error::io, Error::data as read_peft_config(), and for tensors that are not those of LoRA.
  explicit PeftAdapter(const std::string& folder);
  PeftAdapter(const PeftAdapter&) = delete;
  PeftAdapter& operator=(const PeftAdapter&) = delete;

  /// Adds the adapter to the weights that the table holds of a model, in f32; biases and modules that were trained in
  /// full replace the model's. base: the folder that the weights came from. Throws Error::data with all modules that
  /// the model lacks or that have another shape, and for results that are not finite; Error::config for an adapter of a
  /// tied matrix, and for DoRA and replaced parameters where no rank holds all of them.
  void merge(const ModelFolder& base, const ParameterTable& table, TrainingState& state) const;

  /// The adapters as those of a model, for training them on. Throws Error::data as merge(), Error::config for those of
  /// modules that cannot have one here.
  std::vector<Adapter> adapters(const Spec& base, const Family& family) const;
  /// Paths of modules that were trained in full.
  std::vector<std::string> modules_to_save() const;
  /// Fills the adapters of a model that has adapters(), and replaces modules that were trained in full.
  void load(const Family& family, const ParameterTable& table, TrainingState& state) const;

  size_t modules() const { return modules_.size(); }
  const PeftConfig& config() const { return config_; }

 private:
  /// One linear or embedding. A: [rank, in], B: [out, rank]; of an embedding [rank, rows] and [width, rank].
  struct Module {
    const SourceTensor *a = nullptr, *b = nullptr, *magnitude = nullptr;
    bool embedding = false;
  };
  class Merge;

  std::string folder_;
  PeftConfig config_;
  TensorSource source_;
  std::vector<SourceTensor> tensors_;
  std::map<std::string, Module> modules_;                ///< by path in the base model
  std::map<std::string, const SourceTensor*> replaced_;  ///< whole parameters by their names there
};

/// The length of a row of weights, in f64.
double length_of(std::span<const float> row);

/// Fills the weights of some blocks of the model without adapters, in f32; called for one block after the other.
using LoadBlock = std::function<void(const ParameterTable& block, TrainingState& weights)>;

/// Sets the first magnitudes of a new adapter (DoRA) that the table holds: the lengths of the base model's rows, so
/// that it begins as the base. Not collective: every rank reads whole rows, also of linears of which it holds a part.
/// scheme: of the table. Throws as load.
void initialize_magnitudes(const ParameterTable& table, InitScheme scheme, TrainingState& state, const LoadBlock& load);

}  // namespace trireme
