#pragma once
// The rows that a run needs, read and encoded.

#include "train/glue/model.h"

namespace trireme {

struct NamedRows {
  std::string name;  ///< name of the set: "mrpc", "mnli-mm"
  std::string path;  ///< of its file
  EncodedRows rows;
};

struct GlueData {
  GlueTask task;
  std::vector<GlueSet> train, validation, test;  ///< the requested splits, cut to the requested rows
};

/// Reads the splits that the options ask for. Throws Error::io, Error::data, Error::usage.
GlueData read_data(const GlueOptions& options);

/// Encodes the sets.
std::vector<NamedRows> encode_sets(const std::vector<GlueSet>& sets, const GlueTask& task, const PretrainedModel& model,
                                   int64_t max_length);

}  // namespace trireme
