#include "checkpoint/huggingface/huggingface.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/family_config.h"
#include "checkpoint/huggingface/folder_kind.h"
#include "checkpoint/huggingface/tensor_source.h"

namespace trireme {
namespace {

const Family& family_of(const Json& config, const std::string& folder) {
  const std::string where = folder + "/config.json";
  return find_family(json_field<std::string>(config, "model_type", where), where, config);
}

/// config.json may still name a method by which the weights were quantised before they were saved as floats.
void refuse_quantised_weights(const Json& config, const std::string& folder, const std::string& where) {
  const auto quantised = config.find("quantization_config");
  if (quantised == config.end() || quantised->is_null()) return;
  const std::string method = field_or<std::string>(*quantised, "quant_method", "of no quant_method", where);
  std::string found;
  if (holds_huggingface_weights(folder)) {
    const TensorSource source = TensorSource::of_folder(folder);
    const std::vector<SourceTensor> tensors = source.all();
    const auto packed = std::ranges::find_if_not(tensors, is_float_type, &SourceTensor::dtype);
    if (packed == tensors.end()) {
      log::write_first(
          log::Level::warning,
          fmt::format("{}: quantization_config ({}) is ignored: all weights are stored as floats", where, method));
      return;
    }
    found = fmt::format("; {} is stored as {}", packed->name, packed->dtype);
  }
  fail(ErrorKind::data,
       "{}: the weights are quantised (quantization_config: {}{}); give the model that was quantised, or save this one "
       "in f32, f16 or bf16",
       where, method, found);
}

Spec read_spec(const Json& config, const Family& family, HeadKind head, const std::string& folder) {
  const std::string where = folder + "/config.json";
  refuse_quantised_weights(config, folder, where);
  const Spec spec = family.read_config(config, head, where);
  try {
    spec.validate();
  } catch (const Error& e) {
    fail(ErrorKind::data, "{}: {}", where, e.what());
  }
  return spec;
}

void require_head(const Family& family, HeadKind head, const std::string& where) {
  const auto has = [&](const Family& f) {
    return std::ranges::find(f.architectures, head, &Architecture::head) != f.architectures.end();
  };
  if (has(family)) return;
  std::vector<std::string> names;
  for (const Family* other : families()) {
    if (has(*other)) names.emplace_back(other->model_type);
  }
  fail(ErrorKind::data, "{}: a {} is required, but the family {} has none; families that have one: {}", where,
       name_of(head), family.model_type, fmt::join(names, ", "));
}

}  // namespace

Spec read_huggingface_spec(const std::string& folder) {
  const Json config = read_model_config(folder);
  const std::string where = folder + "/config.json";
  const Family& family = family_of(config, folder);
  return read_spec(config, family, find_architecture(family, config, where).head, folder);
}

Spec read_huggingface_spec(const std::string& folder, HeadKind head) {
  const Json config = read_model_config(folder);
  const std::string where = folder + "/config.json";
  const Family& family = family_of(config, folder);
  require_head(family, head, where);
  return read_spec(config, family, head, folder);
}

std::vector<std::string> load_huggingface(const std::string& folder, const Spec& spec, const ParameterTable& table,
                                          TrainingState& state, MissingHead missing_head) {
  const TensorSource source = TensorSource::of_folder(folder);
  const Json config = read_model_config(folder);
  const bool tied = spec.has_decoder() ? spec.tied_head : field_or<bool>(config, "tie_word_embeddings", true, folder);
  return import_tensors(family_of(config, folder), source, folder, spec, table, missing_head, state, tied);
}

}  // namespace trireme
