#pragma once
// Named sizes of published models.

#include <string>
#include <vector>

#include "model/parameter_table.h"
#include "model/spec.h"

namespace trireme {

/// The specification of a new model of that name.
struct Preset {
  Spec spec;
  InitScheme init;
};

/// "gpt2-124m", "gpt2-355m", "gpt2-774m", "gpt2-1558m" (also gpt2, gpt2-medium, gpt2-large, gpt2-xl); "opt-8m" to
/// "opt-175b"; "neox-19m" to "neox-175b"; "bert-tiny" to "bert-large", "distilbert-tiny", "distilbert-base";
/// "smollm2-135m", "smollm2-360m", "qwen3-0.6b", "llama-3.2-1b"; "qwen3.5-0.8b" to "qwen3.5-27b". Dropouts are 0.
/// Throws Error::config listing the names.
Preset preset(const std::string& name);

/// Every name, without the other ones that some have.
std::vector<std::string> preset_names();

}  // namespace trireme
