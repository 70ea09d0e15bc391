#include "checkpoint/gguf/export.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf/modelfile.h"
#include "checkpoint/huggingface/generation_settings.h"

namespace trireme {
namespace {

/// Where the values of a tensor come from.
struct Planned {
  const Parameter* parameter;  ///< null: ours lacks it, it is zero; or `values`
  Shape shape;                 ///< ours
  FileLayout layout;
  std::vector<float> values;  ///< of the spec
};

struct Plan {
  std::vector<GgufTensor> tensors;
  std::vector<Planned> sources;
  std::map<std::string, int> fallbacks;  ///< "q5_0 instead of q4_k": how many tensors
};

class Planner {
 public:
  Planner(const GgufArchitecture& architecture, const Family& family, const Spec& spec, const ParameterTable& table,
          GgufFileType type)
      : architecture_(architecture), spec_(spec), table_(table), type_(type) {
    const std::vector<NameRule> names = gguf_names(family);
    const std::vector<NamedRule> rules = numbered_rules(names, spec.layers);
    const ParameterTable full(family.exported(spec));
    for (const Parameter& parameter : full.all()) {
      const size_t before = plan_.tensors.size();
      for (const NamedRule& rule : rules)
        if (rule.ours == parameter.name) add(parameter, rule.theirs, rule.layout);
      require(plan_.tensors.size() > before, ErrorKind::config,
              "cannot write {} as GGUF: llama.cpp has no such tensor in {}", parameter.name, architecture.name);
      if (spec.tied_head && architecture.own_head && parameter.name == "embedding.token.weight")
        add(parameter, "output.weight", FileLayout::same);
    }
    for (auto& [name, values] : extra_tensors(architecture, spec)) {
      plan_.tensors.push_back({name, {std::ssize(values)}, BlockType::f32});
      plan_.sources.push_back({nullptr, {}, FileLayout::same, std::move(values)});
    }
  }
  Plan take() { return std::move(plan_); }

 private:
  void add(const Parameter& parameter, const std::string& name, FileLayout layout) {
    const Parameter* ours = table_.look_up(parameter.name);
    assert(!ours || ours->is_whole());
    std::vector<int64_t> sizes;
    for (int d = 0; d < parameter.stored_shape.dims(); ++d) sizes.push_back(parameter.stored_shape[d]);
    std::vector<int64_t> shape = their_shape(layout, groups_of(spec_), sizes);
    const bool has_head = !spec_.tied_head || architecture_.own_head;
    const TensorPlace place{.name = name,
                            .layer = layer_of(name),
                            .layers = spec_.layers,
                            .is_head = name == (has_head ? "output.weight" : "token_embd.weight")};
    const BlockType wanted = wanted_type(type_, place, shape.size(), shape.back()),
                    type = tensor_type(type_, place, shape.size(), shape.back());
    if (type != wanted)
      ++plan_.fallbacks[fmt::format("{} instead of {}, because rows of {} values are not whole blocks", name_of(type),
                                    name_of(wanted), shape.back())];
    plan_.tensors.push_back({name, std::move(shape), type});
    plan_.sources.push_back({ours, parameter.stored_shape, layout, {}});
  }

  static int64_t layer_of(const std::string& name) { return name.starts_with("blk.") ? std::stoll(name.substr(4)) : 0; }

  const GgufArchitecture& architecture_;
  const Spec& spec_;
  const ParameterTable& table_;
  GgufFileType type_;
  Plan plan_;
};

/// "124M", "0.6B", as in the names of published files.
std::string size_label(int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  if (count >= 1e9) return fmt::format("{:.1f}B", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.0f}M", count / 1e6);
  return fmt::format("{:.0f}K", count / 1e3);
}

void write_tensors(const Plan& plan, const GgufArchitecture& architecture, const Spec& spec, const TrainingState& state,
                   GgufWriter& writer, const std::function<bool()>& stop) {
  std::vector<float> ours, theirs;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (stop && stop())
      fail(ErrorKind::stopped, "the export was stopped after {} of {}", i, count_text(plan.tensors.size(), "tensor"));
    const Planned& source = plan.sources[i];
    const GgufTensor& tensor = plan.tensors[i];
    if (!source.values.empty()) {
      writer.write(i, source.values);
      continue;
    }
    const int64_t count = source.shape.count();
    ours.assign(static_cast<size_t>(count), 0.0f);
    theirs.resize(tensor.values());
    if (source.parameter) state.read_master(*source.parameter, ours);
    export_values(source.layout, groups_of(spec), source.shape[0], count / source.shape[0], ours, theirs);
    to_gguf_values(architecture, spec, tensor.name, tensor.shape.size() > 1 ? tensor.shape.back() : 1, theirs);
    writer.write(i, theirs);
  }
  writer.commit();
}

}  // namespace

std::string gguf_file_name(const std::string& model, GgufFileType type) {
  std::string upper(name_of(type));
  std::ranges::transform(upper, upper.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return model + "-" + upper + ".gguf";
}

void export_gguf(const std::string& folder, const GgufExport& options, const Spec& spec, const ParameterTable& table,
                 const TrainingState& state, const std::function<bool()>& stop) {
  const Family& family = family_for(spec, kept_model_type(options.generation));
  const GgufArchitecture& architecture = gguf_architecture(family, spec);
  GgufMetadata common;
  common.add("general.architecture", architecture.name);
  common.add("general.type", "model");
  common.add("general.name", options.name);
  common.add("general.size_label", size_label(ParameterTable(spec).total()));
  common.add("general.quantization_version", uint32_t{2});
  add_architecture(architecture, spec, common);
  add_vocabulary(options.tokenizer_json, options.generation, spec.vocabulary, options.pre_tokenizer, common);

  std::vector<Plan> plans;
  uint64_t bytes = 0;
  for (const GgufFileType type : options.types) {
    Plan& plan = plans.emplace_back(Planner(architecture, family, spec, table, type).take());
    const std::string file = gguf_file_name(options.name, type);
    for (const auto& [what, count] : plan.fallbacks) log::info("{}: {} as {}", file, count_text(count, "tensor"), what);
    for (const GgufTensor& tensor : plan.tensors) bytes += encoded_bytes(tensor.type, tensor.values());
  }
  require_disk_space(folder, bytes);
  for (size_t i = 0; i < plans.size(); ++i) {
    GgufMetadata metadata = common;
    metadata.add("general.file_type", static_cast<uint32_t>(options.types[i]));
    GgufWriter writer(folder + "/" + gguf_file_name(options.name, options.types[i]), metadata, plans[i].tensors);
    write_tensors(plans[i], architecture, spec, state, writer, stop);
  }
  if (options.tokenizer_json.empty()) return;
  write_text(folder + "/Modelfile", ollama_modelfile(gguf_file_name(options.name, options.types[0]),
                                                     options.tokenizer_json, options.generation, spec.context));
}

}  // namespace trireme
