#pragma once
// RUN/best and RUN/latest: files of one line, the name of a step folder beside them.

#include <string>

namespace trireme {

/// The step folder that `path` names if it is such a file; else `path`. Throws Error::io if that folder is missing.
std::string follow_run_pointer(const std::string& path);

/// For a run folder, which has no tokenizer itself, the step folder that `latest` names; else `path`.
std::string tokenizer_folder_of_run(const std::string& path);

}  // namespace trireme
