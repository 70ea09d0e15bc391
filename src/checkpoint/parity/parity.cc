#include "checkpoint/parity/parity.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/run_pointer.h"
#include "checkpoint/huggingface/family_config.h"
#include "checkpoint/huggingface/folder_kind.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft/adapter.h"
#include "checkpoint/peft/export.h"
#include "checkpoint/peft/targets.h"
#include "model/mesh_layout.h"
#include "model/mesh_stage.h"

namespace trireme {
namespace {

constexpr double kSmallGradient = 1e-3;  // of the largest: below it, an error is measured against this share
constexpr std::string_view kGradient = "grad.";

double largest(const std::vector<double>& values) {
  double max = 0;
  for (const double v : values) max = std::max(max, std::abs(v));
  return max;
}

/// max|got - want|; infinite where a value that was got is not finite.
double difference(const std::vector<double>& got, const std::vector<double>& want) {
  double max = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    max = std::max(max, std::abs(got[i] - want[i]));
  }
  return max;
}

/// The token matrix padded so that all tensor ranks have the same number of rows.
Spec with_rows_for(Spec spec, const Mesh* mesh) {
  const int64_t ranks = mesh ? mesh->shape().tensor : 1;
  spec.vocabulary_rows = (spec.vocabulary_rows + ranks - 1) / ranks * ranks;
  return spec;
}

struct Comparison {
  std::string name;
  std::vector<double> got, want;
};

/// The model on the case: everything that can be compared.
class Run {
 public:
  Run(const std::string& folder, const std::string& case_path, DType dtype, Ops& ops, int threads, Mesh* mesh,
      const std::string& adapter)
      : config_(config_of(folder)),
        model_(open_model(folder)),
        family_(config_.is_null() ? family_for(model_.spec, kept_model_type(model_.generation))
                                  : find_family(json_field<std::string>(config_, "model_type", folder), folder)),
        padding_(frozen_row(family_, config_.is_null() ? kept_config(model_.generation) : config_,
                            model_.spec.vocabulary, folder)),
        lora_(of_adapter(adapter)),
        spec_(with_rows_for(parity_spec(with_adapters_of(adapter), family_), mesh)),
        file_(case_path),
        case_(file_, spec_, family_, padding_),
        mesh_(mesh),
        whole_(spec_, InitScheme::gpt2, {}, trained()),
        table_(spec_, InitScheme::gpt2, mesh ? layout_of(spec_, mesh->shape(), mesh->world().rank()) : Layout(),
               trained()),
        state_(table_, dtype, true, {}, ops.device()),
        stage_(spec_, {&table_, state_.weights(), state_.gradients()}, dtype, {.rows = case_.rows()}, ops, threads,
               mesh) {
    if (config_.is_null()) {
      load_model(model_, with_rows_for(model_.spec, mesh), table_, state_);  // its position rows are those of spec_
    } else {
      load_huggingface(folder, spec_, table_, state_);
    }
    if (!adapter.empty()) PeftAdapter(adapter).load(family_, table_, state_);
    for (const SafetensorsEntry& entry : file_.entries()) has_gradients_ |= entry.name.starts_with(kGradient);
  }

  std::vector<Comparison> run(Ops& ops) {
    const Batch batch = case_.batch();
    std::vector<Comparison> all;
    all.push_back(logits(ops, batch));
    const auto counted = static_cast<double>(case_.counted());
    const double loss = stage_.loss_and_backward(batch, static_cast<float>(1 / counted)) / counted;
    all.push_back({"loss", {loss}, expected("loss", 1)});
    if (has_gradients_ && !lora_.adapter.empty()) {
      add_gradients_of_adapter(all);
    } else if (has_gradients_) {
      for (const NamedRule& rule : numbered_rules(family_.names, spec_.layers)) add_gradient(rule, all);
    }
    require_all_compared(all);
    for (const Comparison& c : all) {
      require(std::ranges::all_of(c.want, [](double v) { return std::isfinite(v); }), ErrorKind::data,
              "{}: {} of the case is not finite; create the case again", file_.path(), c.name);
    }
    return all;
  }

 private:
  /// Null: no Hugging Face folder, its names are the family's all the same.
  static Json config_of(const std::string& folder) {
    const std::string path = folder + "/config.json";
    return std::filesystem::exists(path) ? read_model_config(folder) : Json();
  }

  static LoraOptions of_adapter(const std::string& folder) {
    LoraOptions options;
    options.adapter = folder;
    return options;
  }
  Spec with_adapters_of(const std::string& adapter) {
    return adapter.empty() ? model_.spec : with_adapters(model_.spec, lora_, family_.model_type);
  }
  Trained trained() const {
    return lora_.adapter.empty() ? Trained() : Trained(trained_beside_adapters(spec_, lora_.modules_to_save), "");
  }

  std::vector<double> expected(const std::string& name, size_t count) const {
    const SafetensorsEntry* entry = file_.find(name);
    require(entry, ErrorKind::data, "{}: {} is missing", file_.path(), name);
    std::vector<double> values = read_numbers(file_, *entry);
    require(values.size() == count, ErrorKind::data, "{}: {} has shape {}, expected {} values", file_.path(), name,
            entry->shape, count);
    return values;
  }

  Comparison logits(Ops& ops, const Batch& batch) {
    const bool decoder = spec_.has_decoder();
    const int64_t rows = decoder ? batch.rows() : batch.sequences(),
                  columns = decoder ? spec_.vocabulary_rows : spec_.classes;
    const DType dtype = state_.weights().dtype();
    std::vector<float> narrow(static_cast<size_t>(rows * columns));
    const View wide(std::span<float>(narrow), Shape{rows, columns});
    Arena arena(2 * (wide.bytes() + 64), ops.device());
    const View view = arena.take(dtype, {rows, columns}),
               widened = dtype == DType::f32 ? view : arena.take(DType::f32, {rows, columns});
    stage_.logits(batch, view);
    if (dtype != DType::f32) ops.cast(stage_.context(), view, widened);
    stage_.context().stream->copy(widened, wide);
    Comparison logits{"logits", {narrow.begin(), narrow.end()}, {}};
    if (!decoder) {
      logits.want = expected("logits", logits.got.size());
      return logits;
    }
    const auto width = static_cast<size_t>(spec_.vocabulary);  // without rows that only fill the matrix up
    const auto want = expected("logits", static_cast<size_t>(case_.sequences() * case_.length()) * width);
    logits.got.clear();
    for (size_t row = 0; row < case_.places().size(); ++row) {
      const float* own = &narrow[row * static_cast<size_t>(columns)];
      logits.got.insert(logits.got.end(), own, own + width);
      const auto from = want.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(case_.places()[row]) * width);
      logits.want.insert(logits.want.end(), from, from + static_cast<std::ptrdiff_t>(width));
    }
    return logits;
  }

  /// A parameter's gradient from the boxes of all ranks; of the tied matrix `second` has the embedding's sum. Equal
  /// copies on several ranks count once.
  std::vector<float> gathered(const Parameter& parameter, bool second) {
    std::vector<float> values(static_cast<size_t>(parameter.count()));
    const Parameter* own = table_.look_up(parameter.name);
    // Stages that hold a tied matrix each have one of its sums.
    const bool heads = !spec_.tied_head || table_.layout().part.head;
    const bool has =
        own && (!second ? heads || parameter.name != "embedding.token.weight" : table_.layout().part.embedding);
    if (has && (!own->is_whole() || table_.layout().tensor_rank == 0)) {
      const HostValues<float> from(state_.gradients().rows_slice(
          second && table_.sums_twice() ? table_.trained_count() : own->offset, own->count()));
      for_each_run(own->box, parameter.box, own->box, [&](int64_t to, int64_t at, int64_t count) {
        std::copy_n(from.get().begin() + at, count, &values[static_cast<size_t>(to)]);
      });
    }
    if (mesh_)
      mesh_->world().all_reduce(View(std::span(values), {parameter.count()}), Reduction::sum).wait("gradients");
    return values;
  }

  /// Our gradient of a parameter, the tied matrix' two sums added. Their embeddings give no gradient to the padding
  /// token, nor to its position where it has its own.
  std::vector<float> gradient(const Parameter& parameter) {
    std::vector<float> values = gathered(parameter, false);
    if (parameter.name == "embedding.position.weight" && family_.positions == PositionRule::not_padding &&
        padding_ >= 0)
      std::fill_n(values.begin() + padding_ * spec_.width, spec_.width, 0.0f);
    if (parameter.name != "embedding.token.weight") return values;
    const auto width = static_cast<size_t>(spec_.token_width());
    const auto is_padding = [&](size_t i) { return static_cast<int64_t>(i / width) == padding_; };
    const std::vector<float> embedding = spec_.tied_head ? gathered(parameter, true) : std::vector<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      if (spec_.tied_head && !is_padding(i)) values[i] += embedding[i];
      if (!spec_.tied_head && is_padding(i)) values[i] = 0;
    }
    return values;
  }

  void add_gradients_of_adapter(std::vector<Comparison>& all) {
    const auto gradient_of = [&](const Parameter& parameter) {
      std::vector<float> values = gradient(parameter);
      values.resize(static_cast<size_t>(parameter.stored_shape.count()));
      return values;
    };
    for (const PeftTensor& tensor : peft_tensors(whole_, gradient_of, family_.model_type)) {
      const std::string name = std::string(kGradient) + tensor.entry.name;
      all.push_back({name, {tensor.values.begin(), tensor.values.end()}, expected(name, tensor.values.size())});
    }
  }

  void add_gradient(const NamedRule& rule, std::vector<Comparison>& all) {
    const Parameter* parameter = whole_.look_up(rule.ours);
    if (!parameter) return;
    const SafetensorsEntry* entry = find_gradient(rule);
    std::vector<float> ours = gradient(*parameter);
    int64_t rows = parameter->shape[0];
    const int64_t columns = parameter->shape.count() / rows;
    if (parameter->stored_shape[0] < rows) {
      rows = parameter->stored_shape[0];  // without those that only fill the vocabulary's matrix up
      ours.resize(static_cast<size_t>(rows * columns));
    }
    const std::array<int64_t, 2> shape{rows, columns};
    const std::vector<int64_t> their = their_shape(rule.layout, groups_of(spec_), shape);
    std::vector<float> theirs(static_cast<size_t>(their[0] * their[1]));
    export_values(rule.layout, groups_of(spec_), rows, columns, ours, theirs);
    all.push_back({entry->name, {theirs.begin(), theirs.end()}, expected(entry->name, theirs.size())});
    const SafetensorsEntry* unused = untied_copy(family_, spec_, rule.ours) ? gradient_called(rule.theirs) : nullptr;
    if (unused && unused != entry)
      all.push_back({unused->name, std::vector<double>(theirs.size()), expected(unused->name, theirs.size())});
  }

  /// By a name with or without prefix; null if the case lacks it.
  const SafetensorsEntry* gradient_called(std::string_view name) const {
    for (const SafetensorsEntry& entry : file_.entries()) {
      if (entry.name.starts_with(kGradient) && plain_name(family_, entry.name.substr(kGradient.size())) == name)
        return &entry;
    }
    return nullptr;
  }

  /// The case's gradient of a tensor: by its name, or by that of a tied copy; of an untied head by that of the copy
  /// that it computes with.
  const SafetensorsEntry* find_gradient(const NamedRule& rule) const {
    const NameRule* instead = untied_copy(family_, spec_, rule.ours);
    const SafetensorsEntry* of_copy = instead ? gradient_called(instead->theirs) : nullptr;
    if (of_copy) return of_copy;
    if (const SafetensorsEntry* entry = gradient_called(rule.theirs)) return entry;
    for (const NameRule& copy : family_.copies) {
      if (copy.ours != rule.ours) continue;
      if (const SafetensorsEntry* entry = gradient_called(copy.theirs)) return entry;
    }
    fail(ErrorKind::data, "{}: grad.{}{} is missing", file_.path(), rule.outside ? "" : family_.prefixes.front(),
         rule.theirs);
  }

  void require_all_compared(const std::vector<Comparison>& all) const {
    std::vector<std::string> rest;
    for (const SafetensorsEntry& entry : file_.entries()) {
      const bool compared =
          std::any_of(all.begin(), all.end(), [&](const Comparison& c) { return c.name == entry.name; });
      if (entry.name.starts_with(kGradient) && !compared) rest.push_back(entry.name);
    }
    require(rest.empty(), ErrorKind::data, "{}: the {} has no such parameters: {}", file_.path(),
            lora_.adapter.empty() ? "model" : "adapter", fmt::join(rest, ", "));
  }

  Json config_;
  ModelFolder model_;
  const Family& family_;
  int64_t padding_;
  LoraOptions lora_;  ///< of the adapter
  Spec spec_;
  SafetensorsFile file_;
  ParityCase case_;
  Mesh* mesh_;
  ParameterTable whole_;  ///< of the whole model
  ParameterTable table_;  ///< of this rank's part
  TrainingState state_;
  MeshStage stage_;
  bool has_gradients_ = false;
};

}  // namespace

std::vector<ParityTensor> compare_with_case(const std::string& given, const std::string& case_path, DType dtype,
                                            Ops& ops, int threads, Mesh* mesh, const std::string& adapter) {
  const std::string folder = follow_run_pointer(given);
  require_no_file(folder);
  const std::vector<Comparison> all = Run(folder, case_path, dtype, ops, threads, mesh, adapter).run(ops);
  double scale = 0;
  for (const Comparison& c : all) {
    if (c.name.starts_with(kGradient)) scale = std::max(scale, largest(c.want));
  }
  std::vector<ParityTensor> out;
  for (const Comparison& c : all) {
    const double want = largest(c.want), error = difference(c.got, c.want);
    const double against = std::max(want, kSmallGradient * scale);
    out.push_back({c.name, error == 0 ? 0 : error / against, want});
  }
  return out;
}

}  // namespace trireme
