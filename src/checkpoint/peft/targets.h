#pragma once
// Which linears of a model have adapters: by their published names, as PEFT chooses them.

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/huggingface/family.h"
#include "config/config.h"
#include "model/adapters.h"

namespace trireme {

/// A linear of a model's blocks by its published name.
struct PublishedLinear {
  std::string path;    ///< "model.layers.3.self_attn.q_proj"
  std::string linear;  ///< ours: "block.3.attention.qkv"
  AdapterPart part = AdapterPart::all;
  FileLayout layout = FileLayout::same;  ///< of its weight
};
std::vector<PublishedLinear> published_linears(const Family& family, const Spec& spec);

AdapterPart part_of(FileLayout layout);
/// The same order of outputs in a matrix [out, in].
FileLayout by_rows(FileLayout layout);
/// The order of the rows of an adapter's B, which has the outputs of one rule only.
FileLayout order_of_outputs(FileLayout layout);

/// The model without its adapters.
Spec base_of(Spec spec);
/// The family whose names the adapters of a model have.
const Family& adapter_family(const Spec& spec, std::string_view model_type);

/// Gives a model without adapters those of lora.rank or lora.adapter, whose modules_to_save are set. model_type: of the
/// folder that the model came from, or empty. Throws Error::config naming targets and patterns that match nothing, and
/// modules that cannot have adapters; for lora.adapter as PeftAdapter.
Spec with_adapters(Spec spec, LoraOptions& options, std::string_view model_type);

/// The adapters of a model by the names that lora.targets takes: "q_proj, v_proj in 0-29: rank 16, scale 2".
std::string published_adapters(const Spec& spec, std::string_view model_type);

/// Patterns (model/trained.h) of what a model with adapters trains: these, and lora.modules-to-save. Throws
/// Error::config for a module that the model lacks, and for a tied matrix.
std::string trained_beside_adapters(const Spec& spec, const std::string& modules_to_save);

}  // namespace trireme
