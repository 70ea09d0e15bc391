#pragma once
// Arguments of run_glue and of transformers' TrainingArguments that are not options here: accepted where neither
// numbers nor outputs depend on them, refused where they would.

#include <string>
#include <vector>

namespace trireme {

/// Takes them out of the words, a line each about those without effect. Throws Error::config at one whose value would
/// change something, with what to use instead.
void take_foreign_flags(std::vector<std::string>& words);

/// What --help says about them.
std::string foreign_flags_help();

}  // namespace trireme
