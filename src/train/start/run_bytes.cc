#include "train/start/run_bytes.h"

#include <vector>

#include "base/error.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft/targets.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "hub/place.h"
#include "model/mesh_layout.h"
#include "model/model_options.h"
#include "train/plan.h"
#include "train/start/data_setup.h"

namespace trireme {

int64_t snapshot_file_bytes(const LoadedConfig& loaded) {
  if (loaded.config.evaluation.only) return 0;
  const std::string& init = loaded.config.model.init;
  const bool from_scratch = init.empty() || init == "scratch";
  if (!from_scratch && hub::is_only_a_name(init)) return 0;
  try {
    const DataOptions& data = loaded.config.data;
    std::string model_type;
    Spec spec;
    if (from_scratch) {
      spec = spec_from_options(loaded, vocabulary_of_data(data, find_tokenizer(data)));
    } else {
      const ModelFolder folder = open_model(init);
      spec = with_given_options(folder.spec, loaded);
      model_type = kept_model_type(folder.generation);
    }
    Config config = loaded.config;
    spec = with_adapters(spec, config.lora, model_type);
    const std::vector<Layout> whole = {layout_of(spec, {.data = 1}, 0)};
    return static_cast<int64_t>(CheckpointWriter::snapshot_bytes(
        ParameterTable(spec, InitScheme::gpt2, {}, trained_of(config, spec)), whole, 0, true));
  } catch (const Error&) {
    return 0;  // training will report the error
  }
}

}  // namespace trireme
