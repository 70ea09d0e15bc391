#pragma once
// Dialects of TRL's scripts sft and dpo.

#include <functional>
#include <string>
#include <vector>

#include "config/dialect.h"

namespace trireme {

extern const Dialect kTrlSft, kTrlDpo;

/// Whether a word is an argument of TRL's, which `knows` and the options do not have, or a YAML file of TRL's.
bool speaks_trl(const std::vector<std::string>& words, const std::function<bool(const std::string& name)>& knows);

}  // namespace trireme
