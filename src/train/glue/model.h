#pragma once
// The pretrained model of a fine-tuning run: its spec with the task's head, its tokenizer, its weights.

#include <memory>
#include <string>

#include "base/json.h"
#include "checkpoint/checkpoint_folder.h"
#include "data/glue/task.h"
#include "model/parameter_table.h"
#include "optim/training_state.h"
#include "text/tokenizer.h"
#include "train/glue/options.h"
#include "train/glue/rows.h"

namespace trireme {

struct PretrainedModel {
  std::string folder;  ///< empty: gone; model and tokenizer are the snapshot's
  Spec spec;           ///< with a classifier of the task's classes
  std::unique_ptr<Tokenizer> tokenizer;
  int32_t padding = 0;               ///< id
  std::vector<int64_t> class_order;  ///< class of the folder's head per class of the task; empty: the same
  std::string generation = {};       ///< read_generation_files(); empty if the tokenizer is not the folder's
};

/// Reads config.json and the tokenizer of a Hugging Face folder. Warns of a head that was fine-tuned on classes with
/// other names than the task's. Throws Error::io, Error::data, Error::config naming what such a folder holds.
PretrainedModel open_pretrained(const GlueOptions& options, const GlueTask& task);

/// The same for a resumed run: read from its snapshot if the run's first model or its tokenizer is gone.
PretrainedModel resumed_model(const GlueOptions& options, const GlueTask& task, const CheckpointFolder& resume);

/// Loads its weights, the head's classes in the task's order. A missing head is initialized by the seed; with `renews`
/// also one with another number of classes. True: the head was initialized.
bool load_pretrained(const PretrainedModel& model, const ParameterTable& table, uint64_t seed, TrainingState& state,
                     bool renews = false);

/// Warns, on rank 0, if a model that is not trained now was not trained on the task before.
void warn_of_untrained_head(const PretrainedModel& model, bool head_is_new, const GlueTask& task);

/// Writes config.json (with the task's labels), model.safetensors and the tokenizer's files into `folder`, replacing
/// what an earlier run wrote there. Throws Error::io.
void write_model(const std::string& folder, const PretrainedModel& model, const GlueTask& task,
                 const ParameterTable& table, const TrainingState& state);

/// Why the classifier of a folder cannot answer the task: by what its config.json records (finetuning_task, class
/// names) and whether its files have a classifier. Empty: no objection. The diagnostic set ax needs a model of mnli.
std::string why_untrained(const Json& config, bool head_is_new, const GlueTask& task);

}  // namespace trireme
