#pragma once
// The data of a run: token files of nanoGPT, or indexed datasets in NeoX's order.

#include <memory>
#include <string>
#include <vector>

#include "config/load.h"
#include "data/sample_source.h"
#include "train/step_batches.h"

namespace trireme {

/// Throws Error::io naming what is missing, before anything is looked up beside it, whose absence would be blamed
/// otherwise.
void require_training_data(const DataOptions& data);

/// The files that tokens are read from, absolute, whether they are there or not: both files of an indexed dataset.
std::vector<std::string> token_files(const DataOptions& data);

/// tokenizer.json of the tokenizer that made the data, if the user or the data folder has it.
std::string find_tokenizer(const DataOptions& data);

/// Throws Error::data where a file of the data says that it was made with another tokenizer than this one, or than the
/// files before it.
void require_one_tokenizer(const DataOptions& data, const std::string& tokenizer_json);

/// Where ids of the data's tokenizer stand for other text in the tokenizer of the model that training starts from: an
/// example and how many of those that were looked at. Empty: hardly any do, as where special tokens were added.
std::string other_meanings(const std::string& data_tokenizer_json, const std::string& model_tokenizer_json);

/// Ids of the data's vocabulary by its sidecar or tokenizer.json; 0: not known.
int64_t vocabulary_of_data(const DataOptions& data, const std::string& tokenizer_json);

struct RunData {
  std::unique_ptr<FileSource> train, validation, test;  ///< validation and test: may be none
};

/// before: called before each block that is read or made. vocabulary: ids of the model; no id of the data may be beyond
/// it. Throws Error::io, Error::data, Error::config.
RunData open_run_data(const LoadedConfig& loaded, const BatchShape& batch, uint64_t vocabulary,
                      const BeforeBlock& before);

/// The same for a masked language model: text between the tokenizer's ends, tokens hidden as the options say.
RunData open_masked_data(const LoadedConfig& loaded, const BatchShape& batch, uint64_t vocabulary,
                         const std::string& tokenizer_json, const BeforeBlock& before);

/// Leaves out what is not to be predicted by data.mask-end-of-text. Throws Error::config where the tokenizer is not
/// known or has no token that ends a text.
void mask_end_of_text(RunData& data, const std::string& tokenizer_json);

}  // namespace trireme
