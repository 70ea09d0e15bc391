#pragma once
// The data of a run: nanoGPT's token files, or indexed datasets in NeoX's order.

#include <memory>
#include <string>
#include <vector>

#include "config/load.h"
#include "data/sample_source.h"
#include "train/step_batches.h"

namespace trireme {

/// Throws Error::io naming the missing training data. Called first: otherwise a file beside it would be reported
/// missing.
void require_training_data(const DataOptions& data);

/// Absolute paths of the files that tokens are read from, existing or not; both files of an indexed dataset.
std::vector<std::string> token_files(const DataOptions& data);

/// tokenizer.json of the tokenizer that made the data, if the user names it or the data folder has it.
std::string find_tokenizer(const DataOptions& data);

/// Throws Error::data if a data file was made with another tokenizer than this one, or than the files before it.
void require_one_tokenizer(const DataOptions& data, const std::string& tokenizer_json);

/// Compares the data's tokenizer with that of the model that training starts from: an example of an id with different
/// text, and how many of the compared ids differ. Empty: hardly any differ, as when special tokens were added.
std::string describe_id_differences(const std::string& data_tokenizer_json, const std::string& model_tokenizer_json);

/// Size of the data's vocabulary by its sidecar or tokenizer.json; 0: unknown.
int64_t vocabulary_of_data(const DataOptions& data, const std::string& tokenizer_json);

struct RunData {
  std::unique_ptr<FileSource> train, validation, test;  ///< validation and test: may be null
};

/// before: called before each block that is read or made. vocabulary: of the model; an id of the data at or above it is
/// an error. Throws Error::io, Error::data, Error::config.
RunData open_run_data(const LoadedConfig& loaded, const BatchShape& batch, uint64_t vocabulary,
                      const BeforeBlock& before);

/// The same for a masked language model: text between the tokenizer's start and end tokens, masked as the options say.
RunData open_masked_data(const LoadedConfig& loaded, const BatchShape& batch, uint64_t vocabulary,
                         const std::string& tokenizer_json, const BeforeBlock& before);

/// Excludes the targets that data.mask-end-of-text masks. Throws Error::config if the tokenizer is unknown or has no
/// end-of-text token.
void mask_end_of_text(RunData& data, const std::string& tokenizer_json);

}  // namespace trireme
