#include "train/start/resolve_model.h"

#include <filesystem>

#include "hub/place.h"
#include "model/model_options.h"

namespace trireme {

Spec spec_of_folder(const ModelFolder& folder, const LoadedConfig& loaded) {
  Spec spec = with_given_options(folder.spec, loaded);
  require_same_model(folder, spec);
  return spec;
}

void resolve_model(LoadedConfig& loaded) {
  const std::string& init = loaded.config.model.init;
  if (init.empty() || init == "scratch") return resolve_model_options(loaded);
  if (!std::filesystem::exists(init) && !hub::still_to_fetch({.model = init}).empty()) return;
  const ModelFolder folder = open_model(init);
  const Spec spec = spec_of_folder(folder, loaded);
  settle_model_options(loaded, spec, folder.path);
  loaded.derive("model.vocabulary", spec.vocabulary, folder.path);
}

void settle_model(RunPlan& plan) {
  const ModelOptions& model = plan.config().model;
  const bool named = !model.init.empty() && model.init != "scratch";
  const std::string by = plan.resume            ? plan.resume->path
                         : named                ? model.init
                         : model.preset.empty() ? std::string()
                                                : "preset " + model.preset;
  settle_model_options(plan.loaded, plan.spec, by);
  plan.loaded.derive("model.vocabulary", plan.spec.vocabulary, plan.resume || named ? by : "the data or the preset");
}

}  // namespace trireme
