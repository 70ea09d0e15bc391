#pragma once
// Checkpoints of nanoGPT and of programs made from it: ckpt.pt and snapshot.pt, files of torch.save() with GPT-2's
// tensors as torch's own linear layers keep them, [out, in].

#include <string>

#include "checkpoint/torch/file.h"
#include "model/parameter_table.h"
#include "optim/training_state.h"

namespace trireme {

/// The checkpoint in a folder, ckpt.pt before snapshot.pt; empty if both are missing.
std::string find_nanogpt_checkpoint(const std::string& folder);

/// data/DATASET/meta.pkl of the character dataset that the checkpoint says it was trained on, from the working
/// directory or from the folder above the checkpoint's; empty if missing (its text is then GPT-2's tokens).
std::string find_nanogpt_meta(const std::string& path);

/// Sizes from model_args of the file, or, where it has none, from a GPT-2 config.json beside it; GELU is exact, as in
/// these programs. vocabulary_rows is the vocabulary. Throws Error::io, Error::data.
Spec read_nanogpt_spec(const std::string& path);

/// Loads the weights; names may begin with _orig_mod. (compiled models) or module. (distributed ones). Faults as in
/// import_tensors(). The optimizer's state is not read.
void load_nanogpt(const std::string& path, const Spec& spec, const ParameterTable& table, TrainingState& state);

}  // namespace trireme
