#pragma once
// Checkpoints of GPT-NeoX, as DeepSpeed writes them, of any tensor, pipeline and data size, checked completely before
// anything is loaded. Facts learned by running NeoX are documented at the rules (names.h, optimizer.h).

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/snapshot/checkpoint.h"

namespace trireme {

class NeoxCheckpoint {
 public:
  /// A folder with `latest` or a step's own (find_neox_step()). Looks at every file and every tensor's type and shape;
  /// throws Error::io, Error::data or Error::config naming file and key.
  explicit NeoxCheckpoint(const std::string& path);
  ~NeoxCheckpoint();

  const std::string& path() const;       ///< of the step's folder
  const CheckpointFacts& facts() const;  ///< config_json: batch, schedule and seed of its YAML
  /// Has weights, moments and the step of Adam; else only weights.
  bool has_optimizer() const;
  /// Notes for the user, a line each.
  const std::vector<std::string>& notes() const;

  /// Fills the parameters of the table: weights from the f32 masters if present, and with `moments` the optimizer's
  /// state, which must be present. Returns the bytes of tensors that were read: those of the boxes that the table
  /// holds.
  uint64_t load(const ParameterTable& table, TrainingState& state, bool moments) const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// Reads every byte of a step's folder (files.h); one line per fault: what opening it finds, and each member of a ZIP
/// file whose bytes do not match its CRC-32. There are no other checksums, and files of torch before 1.6 have none.
/// Empty: valid.
std::vector<std::string> verify_neox_checkpoint(const std::string& step_folder);

/// How a model is written as a checkpoint of GPT-NeoX, weights only: NeoX loads it with `finetune: true`.
struct NeoxExport {
  int tensor = 1;    ///< ranks that the tensors are cut for
  int pipeline = 1;  ///< stages, for which there are mp_rank files; 0: without the pipeline engine, as NeoX means it
  DType dtype = DType::f32;  ///< f32 or bf16
  RunCounters progress = {};
  std::string config_json = {};  ///< of the run; empty: unknown, uses the defaults
};

/// Writes `latest` and global_stepN/ with every layer's files (pipeline 0: the mp_rank files hold the weights),
/// mp_rank files and configs/trireme.yml, with which NeoX makes this model. Biases that every rank adds are divided by
/// the ranks. A vocabulary that the ranks do not divide gets rows of zeros, with a warning; they are removed when it is
/// read again. The table is of the whole model. `stop` as in export_huggingface(). Throws Error::config for models that
/// NeoX does not support, Error::io.
void export_neox(const std::string& folder, const Spec& spec, const ParameterTable& table, const TrainingState& state,
                 const NeoxExport& options, const std::function<bool()>& stop = {});

}  // namespace trireme
