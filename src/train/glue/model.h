#pragma once
// The pretrained model of a fine-tuning run: its spec with the task's head, its tokenizer, its weights.

#include <memory>
#include <string>

#include "checkpoint/snapshot/checkpoint.h"
#include "model/parameter_table.h"
#include "optim/training_state.h"
#include "text/tokenizer.h"
#include "train/glue/options.h"
#include "train/glue/rows.h"

namespace trireme {

struct PretrainedModel {
  std::string folder;  ///< empty: gone, model and tokenizer are a snapshot's
  Spec spec;           ///< with a classifier of the task's classes
  std::unique_ptr<Tokenizer> tokenizer;
  int32_t padding = 0;               ///< id
  std::vector<int64_t> class_order;  ///< class of the folder's head for each of the task's; empty: the same
  std::string generation = {};       ///< read_generation_files(); empty where the tokenizer is not the folder's
};

/// Reads config.json and the tokenizer of a Hugging Face folder. A head that was fine-tuned on classes of other names
/// than the task's gives a warning. Throws Error::io, Error::data, Error::config saying what such a folder holds.
PretrainedModel open_pretrained(const GlueOptions& options, const GlueTask& task);

/// The same of a run that is resumed: from its snapshot where the model that it began with, or its tokenizer, is gone.
PretrainedModel resumed_model(const GlueOptions& options, const GlueTask& task, const CheckpointFolder& resume);

/// Loads its weights, the head's classes in the task's order; a head that is missing starts anew, by the seed, and with
/// renews one of another number of classes. True: it did.
bool load_pretrained(const PretrainedModel& model, const ParameterTable& table, uint64_t seed, TrainingState& state,
                     bool renews = false);

/// A warning, on rank 0, where a model that is not trained now was not trained on the task before.
void warn_of_untrained_head(const PretrainedModel& model, bool head_is_new, const GlueTask& task);

/// Writes config.json (with the task's labels), model.safetensors and the tokenizer's files into `folder`, in the place
/// of what an earlier run wrote there. Throws Error::io.
void write_model(const std::string& folder, const PretrainedModel& model, const GlueTask& task,
                 const ParameterTable& table, const TrainingState& state);

}  // namespace trireme
