#include "checkpoint/peft/adapter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/folder_kind.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/peft/targets.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

TensorSource open_tensors(const std::string& folder) {
  const std::string safe = folder + "/adapter_model.safetensors", torch = folder + "/adapter_model.bin";
  if (fs::exists(safe)) return TensorSource::of_safetensors(safe);
  require(fs::exists(torch), ErrorKind::io, "{} has neither adapter_model.safetensors nor adapter_model.bin", folder);
  return TensorSource::of_torch_file(torch);
}

const Family& family_of(const ModelFolder& base) {
  if (fs::exists(base.path + "/config.json") && !base.checkpoint && !base.nanogpt)
    return find_family(json_field<std::string>(read_model_config(base.path), "model_type", base.path), base.path);
  return family_for(base.spec, kept_model_type(base.generation));
}

bool is_transposed(FileLayout layout) {
  return layout == FileLayout::transposed || layout == FileLayout::qkv_blocks_transposed;
}

/// A parameter beside an adapter is in the wrapped module.
std::string without_wrapper(std::string_view name) {
  constexpr std::string_view kWrapper = ".base_layer.";
  const size_t at = name.find(kWrapper);
  return at == name.npos ? std::string(name)
                         : fmt::format("{}.{}", name.substr(0, at), name.substr(at + kWrapper.size()));
}

/// scale B A [out, in], row-major, in f64. a: [rank, in], b: [out, rank].
std::vector<float> product(std::span<const float> a, std::span<const float> b, int64_t rank, double scale) {
  const int64_t in = std::ssize(a) / rank, out = std::ssize(b) / rank;
  std::vector<float> delta(static_cast<size_t>(out * in));
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < out; ++row) {
    std::vector<double> sum(static_cast<size_t>(in));
    for (int64_t k = 0; k < rank; ++k) {
      const double factor = scale * static_cast<double>(b[static_cast<size_t>(row * rank + k)]);
      const float* const of_a = &a[static_cast<size_t>(k * in)];
      for (int64_t i = 0; i < in; ++i) sum[static_cast<size_t>(i)] += factor * static_cast<double>(of_a[i]);
    }
    std::ranges::transform(sum, delta.begin() + row * in, [](double v) { return static_cast<float>(v); });
  }
  return delta;
}

std::string_view module_of(std::string_view parameter) { return parameter.substr(0, parameter.rfind('.')); }

std::string joined_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  const std::span<const std::string> shown(names.data(), std::min(names.size(), kShown));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

std::vector<float> transposed(std::span<const float> values, int64_t rows) {
  const int64_t columns = std::ssize(values) / rows;
  std::vector<float> turned(values.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      turned[static_cast<size_t>(c * rows + r)] = values[static_cast<size_t>(r * columns + c)];
  return turned;
}

}  // namespace

PeftAdapter::PeftAdapter(const std::string& folder)
    : folder_(folder), config_(read_peft_config(folder)), source_(open_tensors(folder)), tensors_(source_.all()) {
  constexpr std::string_view kPrefix = "base_model.model.";
  std::vector<std::string> unknown;
  for (const SourceTensor& tensor : tensors_) {
    std::string_view name = tensor.name;
    if (!name.starts_with(kPrefix)) {
      unknown.push_back(tensor.name);
      continue;
    }
    name.remove_prefix(kPrefix.size());
    const auto module_of = [&](std::string_view end) -> Module* {
      return name.ends_with(end) ? &modules_[std::string(name.substr(0, name.size() - end.size()))] : nullptr;
    };
    if (Module* module = module_of(".lora_A.weight")) {
      module->a = &tensor;
    } else if ((module = module_of(".lora_B.weight"))) {
      module->b = &tensor;
    } else if ((module = module_of(".lora_magnitude_vector"))) {
      module->magnitude = &tensor;
    } else if ((module = module_of(".lora_embedding_A"))) {
      module->a = &tensor;
      module->embedding = true;
    } else if ((module = module_of(".lora_embedding_B"))) {
      module->b = &tensor;
      module->embedding = true;
    } else if (name.find(".lora_") != name.npos) {
      unknown.push_back(tensor.name);
    } else {
      replaced_[without_wrapper(name)] = &tensor;
    }
  }
  require(unknown.empty(), ErrorKind::data, "{}: tensors that a LoRA adapter does not have: {}", folder,
          fmt::join(unknown, ", "));
  require(!tensors_.empty(), ErrorKind::data, "{}: the adapter has no tensors", folder);
  for (const auto& [path, module] : modules_) {
    require(module.a && module.b, ErrorKind::data, "{}: {} has no lora_{}", folder, path, module.a ? "B" : "A");
    const std::string left_out = config_.leaves_out(path);
    require(left_out.empty(), ErrorKind::data,
            "{}: {}, but the adapter has tensors of it; the two files belong to different adapters", config_.where,
            left_out);
    require(!config_.dora || module.magnitude || module.embedding, ErrorKind::data,
            "{}: {} has no lora_magnitude_vector, but \"use_dora\" is true", folder, path);
    require(
        config_.dora || !module.magnitude, ErrorKind::data,
        "{}: {} has a lora_magnitude_vector, but \"use_dora\" is not true; the two files belong to different adapters",
        folder, path);
  }
}

/// One merge into one model.
class PeftAdapter::Merge {
 public:
  /// base: in errors. table and state: null where nothing is written.
  Merge(const PeftAdapter& adapter, const Family& family, const Spec& spec, const std::string& base,
        const ParameterTable* table, TrainingState* state)
      : adapter_(adapter),
        family_(family),
        spec_(spec),
        whole_(spec),
        table_(table),
        state_(state),
        rules_(numbered_rules(family_.names, spec_.layers)) {
    // First what replaces a parameter: PEFT also stores an embedding that it adapts.
    for (const auto& [name, tensor] : adapter.replaced_) match_replaced(name, *tensor);
    for (const auto& [path, module] : adapter.modules_) match(path, module);
    find_missing();
    require(faults_.empty(), ErrorKind::data, "{} does not fit the model of {}{}:\n  {}", adapter.folder_, base,
            adapter.config_.base.empty() ? "" : fmt::format(" (its base is {})", adapter.config_.base),
            fmt::join(faults_, "\n  "));
  }

  void run() {
    for (const auto& [name, changes] : changes_) {
      const Parameter* own = table_->look_up(name);
      if (!own || own->stored().empty()) continue;
      const bool adds = std::ranges::all_of(changes, &Change::adds);
      adds ? add(*own, changes) : replace(*own, changes);
    }
  }

  /// PEFT leaves modules without tensors as they are in the base model, too.
  void warn_of_missing() const {
    if (missing_.empty()) return;
    log::write_once(
        log::Level::warning,
        fmt::format("{}: \"target_modules\" also means {}, of which the adapter has no tensors; they stay as "
                    "in the base model, as in PEFT; is its file complete?",
                    adapter_.config_.where, joined_names(missing_)));
  }

  std::vector<Adapter> adapters() const {
    std::vector<Adapter> adapters;
    for (const auto& [name, changes] : changes_)
      for (const Change& change : changes) {
        if (!change.module) continue;
        const bool can = name.starts_with("block.") && !change.module->embedding && name.ends_with(".weight");
        require(
            can, ErrorKind::config,
            "{}: it adapts {}, but only the linears of blocks can have adapters that are trained; merge it (trireme "
            "export --adapter {} --merge) and train a new adapter",
            adapter_.folder_, change.path, adapter_.folder_);
        const double scale = adapter_.config_.scale_of(change.path);
        require(scale > 0, ErrorKind::config,
                "{}: \"lora_alpha\" gives {} the scale {:g}, expected one above 0 for an adapter that is trained",
                adapter_.config_.where, change.path, scale);
        adapters.push_back({linear_of(name), part_of(change.rule->layout), change.module->a->shape[0],
                            static_cast<float>(scale), change.module->magnitude != nullptr});
      }
    return adapters;
  }

  void load() {
    for (const auto& [name, changes] : changes_) {
      std::vector<Change> replaced, adapts;
      for (const Change& change : changes) (change.module ? adapts : replaced).push_back(change);
      const Parameter* own = table_->look_up(name);
      if (!own || own->stored().empty()) continue;
      if (!replaced.empty()) replace(*own, replaced);
      if (!adapts.empty()) load_adapters(linear_of(name), adapts);
    }
  }

 private:
  /// A change of the part of one of our parameters that a rule names.
  struct Change {
    const NamedRule* rule;
    std::string path;
    const Module* module = nullptr;          ///< else:
    const SourceTensor* replaced = nullptr;  ///< in full
    bool adds() const { return module && !module->magnitude; }
  };

  /// Our linear of a weight.
  static std::string linear_of(const std::string& weight) { return weight.substr(0, weight.rfind('.')); }

  void load_adapters(const std::string& linear, const std::vector<Change>& changes) {
    const Parameter& of_a = whole_.find(linear + ".lora_A");
    const int64_t in = of_a.global_shape[1];
    std::vector<float> a(static_cast<size_t>(of_a.stored_shape.count()));
    int64_t row = 0;
    for (const Adapter& adapter : adapters_of(spec_, linear)) {
      const auto change =
          std::ranges::find_if(changes, [&](const Change& c) { return part_of(c.rule->layout) == adapter.part; });
      assert(change != changes.end());
      std::ranges::copy(change->module->a->read(), a.begin() + row * in);
      row += adapter.rank;
      const auto write_outputs = [&](const std::string& parameter, const SourceTensor& tensor, int64_t columns) {
        const std::vector<float> theirs = tensor.read();
        std::vector<float> ours(theirs);
        import_values(order_of_outputs(change->rule->layout), groups_of(spec_), std::ssize(ours) / columns, columns,
                      theirs, ours);
        write_whole(parameter, ours);
      };
      write_outputs(adapter.b(), *change->module->b, adapter.rank);
      if (adapter.magnitude) write_outputs(adapter.magnitudes(), *change->module->magnitude, 1);
    }
    write_whole(of_a.name, a);
  }

  /// This rank's part of a parameter's values.
  void write_whole(const std::string& name, std::span<const float> values) {
    const Parameter& own = table_->find(name);
    std::vector<float> part(static_cast<size_t>(own.stored().elements()));
    for_each_run(own.stored(), whole_.find(name).stored(), own.stored(), [&](int64_t from, int64_t to, int64_t count) {
      std::copy_n(values.begin() + from, count, part.begin() + to);
    });
    write(own, part);
  }

  /// The rule of a parameter that the adapter of the module `path` changes, or that is trained in full (path is name).
  /// Null, with a fault, if there is none; null without one for the second name of a tied matrix.
  const NamedRule* find(const std::string& name, const std::string& path) {
    const std::string plain = plain_name(family_, name);
    const auto rule =
        std::ranges::find_if(rules_, [&](const NamedRule& r) { return r.theirs == plain && whole_.look_up(r.ours); });
    names_.insert(plain);
    const auto is_tied = [&](std::string_view ours) { return spec_.tied_head && ours == "embedding.token.weight"; };
    const auto copy = std::ranges::find(family_.copies, std::string_view(plain), &NameRule::theirs);
    const bool of_copy = copy != family_.copies.end() && is_tied(copy->ours);
    const bool of_tied = rule != rules_.end() && is_tied(rule->ours);
    // PEFT trains a copy of a module that is trained in full; with ensure_weight_tying both modules get the same one.
    const bool replaces = name == path;
    if ((of_copy || of_tied) && replaces && both_are_replaced_alike()) return of_tied ? &*rule : nullptr;
    const bool alone = !replaces || adapter_.config_.saves(module_of(name));
    require(!of_copy && !(of_tied && alone), ErrorKind::config,
            "{}: it {} {}, which is tied: embedding and head of this model are one matrix, and would both change; "
            "train the adapter without this module, or merge it with PEFT into a model whose head is not tied",
            adapter_.folder_, replaces ? "has trained in full" : "adapts", replaces ? module_of(name) : path);
    if (rule != rules_.end()) return &*rule;
    // An untied head whose matrix the files call by the copy's name.
    if (copy != family_.copies.end()) {
      const auto instead = std::ranges::find_if(rules_, [&](const NamedRule& r) { return r.ours == copy->ours; });
      if (instead != rules_.end()) return &*instead;
    }
    std::vector<std::string> names;
    for (const NamedRule& r : rules_)
      if (whole_.look_up(r.ours)) names.push_back(r.theirs);
    faults_.push_back(fmt::format("{}: the model has no such module; the nearest is {}", path, nearest(plain, names)));
    return nullptr;
  }

  /// Whether the files have the tied matrix under both names, with the same values.
  bool both_are_replaced_alike() const {
    const SourceTensor *embedding = nullptr, *head = nullptr;
    for (const auto& [name, tensor] : adapter_.replaced_) {
      const std::string plain = plain_name(family_, name);
      const auto is_token_matrix = [&](const auto& rule) {
        return rule.theirs == plain && rule.ours == "embedding.token.weight";
      };
      if (std::ranges::any_of(family_.copies, is_token_matrix)) head = tensor;
      if (std::ranges::any_of(rules_, is_token_matrix)) embedding = tensor;
    }
    return embedding && head && embedding->shape == head->shape && embedding->read() == head->read();
  }

  /// What the configuration trains and the files have no tensors of.
  void find_missing() {
    const PeftConfig& config = adapter_.config_;
    const std::string prefix = family_.prefixes.front();
    const auto has_prefix = [&](const auto& named) { return named.first.starts_with(prefix); };
    const bool bare =  // of a class without a head
        std::ranges::none_of(adapter_.modules_, has_prefix) && std::ranges::none_of(adapter_.replaced_, has_prefix);
    std::vector<std::string> not_saved;
    const auto look = [&](const std::string& theirs, const std::string& ours, bool outside) {
      const Parameter* const own = whole_.look_up(ours);
      if (!own || names_.contains(theirs)) return;
      const std::string name = (outside || bare ? "" : prefix) + theirs, module(module_of(name));
      if (config.saves(module)) {
        not_saved.push_back(name);
      } else if (own->global_shape.dims() == 2 && name.ends_with(".weight") && config.gives_adapter(module) &&
                 (ours.starts_with("block.") || !config.adapts_all_linears())) {
        missing_.push_back(module);
      }
    };
    for (const NamedRule& rule : rules_) look(rule.theirs, rule.ours, rule.outside);
    for (const NameRule& copy : family_.copies)
      if (spec_.tied_head) look(copy.theirs, copy.ours, true);
    if (not_saved.empty()) return;
    faults_.push_back(fmt::format("\"modules_to_save\" is {}, but the adapter has no {}",
                                  fmt::join(config.modules_to_save, ", "), joined_names(not_saved)));
  }

  std::vector<int64_t> shape_of(const NamedRule& rule) const {
    const Shape& ours = whole_.find(rule.ours).stored_shape;
    std::vector<int64_t> sizes;
    for (int d = 0; d < ours.dims(); ++d) sizes.push_back(ours[d]);
    return their_shape(rule.layout, groups_of(spec_), sizes);
  }

  void match(const std::string& path, const Module& module) {
    const NamedRule* rule = find(path + ".weight", path);
    if (!rule) return;
    std::vector<int64_t> shape = shape_of(*rule);
    if (is_transposed(rule->layout) || module.embedding) std::ranges::reverse(shape);  // [out, in]
    const int64_t rank = adapter_.config_.rank_of(path);
    const auto check = [&](const char* what, const SourceTensor* tensor, const std::vector<int64_t>& expected) {
      if (tensor && tensor->shape != expected)
        faults_.push_back(fmt::format("{}.{}: shape {}, expected {}", path, what, tensor->shape, expected));
    };
    check("lora_A", module.a, {rank, shape[1]});
    check("lora_B", module.b, {shape[0], rank});
    if (module.magnitude && module.magnitude->shape.size() == 2)
      check("lora_magnitude_vector", module.magnitude, {1, shape[0]});
    else
      check("lora_magnitude_vector", module.magnitude, {shape[0]});
    changes_[rule->ours].push_back({rule, path, &module});
  }

  void match_replaced(const std::string& name, const SourceTensor& tensor) {
    const NamedRule* rule = find(name, name);
    if (!rule) return;
    if (const std::vector<int64_t> expected = shape_of(*rule); tensor.shape != expected)
      faults_.push_back(fmt::format("{}: shape {}, expected {}", name, tensor.shape, expected));
    changes_[rule->ours].push_back({rule, name, nullptr, &tensor});
  }

  /// scale B A as the file of the base model lies.
  std::vector<float> delta_of(const Change& change) const {
    const Module& module = *change.module;
    const std::vector<float> a = module.a->read(), b = module.b->read();
    const int64_t rank = module.a->shape[0], out = module.b->shape[0];
    std::vector<float> delta = product(a, b, rank, adapter_.config_.scale_of(change.path));
    return is_transposed(change.rule->layout) || module.embedding ? transposed(delta, out) : delta;
  }

  void to_ours(const Change& change, std::span<const float> theirs, std::span<float> ours) const {
    const Shape& shape = whole_.find(change.rule->ours).stored_shape;
    import_values(change.rule->layout, groups_of(spec_), shape[0], shape.count() / shape[0], theirs, ours);
  }

  void write(const Parameter& own, std::span<const float> values) {
    require(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }), ErrorKind::data,
            "{}: with the adapter {} has NaN or infinite values; the adapter is damaged, or belongs to another model",
            adapter_.folder_, own.name);
    state_->write_master(own, values);
  }

  /// A part of a sum needs that part of the weights only.
  void add(const Parameter& own, const std::vector<Change>& changes) {
    const Box whole = whole_.find(own.name).stored();
    std::vector<float> delta(static_cast<size_t>(whole.elements())),
        values(static_cast<size_t>(own.stored().elements()));
    for (const Change& change : changes) to_ours(change, delta_of(change), delta);
    state_->read_master(own, values);
    for_each_run(own.stored(), whole, own.stored(), [&](int64_t from, int64_t to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(to + i)] += delta[static_cast<size_t>(from + i)];
    });
    write(own, values);
  }

  void replace(const Parameter& own, const std::vector<Change>& changes) {
    require(own.is_whole() && !state_->shards_weights(), ErrorKind::config,
            "{}: {} {}, which needs all of {} on a rank; use one rank, or merge first (trireme export --adapter {} "
            "--merge)",
            adapter_.folder_, changes.front().path,
            changes.front().replaced ? "was trained in full" : "is an adapter of DoRA", own.name, adapter_.folder_);
    std::vector<float> values(static_cast<size_t>(own.stored_shape.count()));
    state_->read_master(own, values);
    for (const Change& change : changes) {
      if (change.replaced) {
        to_ours(change, change.replaced->read(), values);
        continue;
      }
      std::vector<float> theirs = exported(change, values), sum = delta_of(change);
      std::ranges::transform(theirs, sum, sum.begin(), std::plus<>());
      if (change.module->magnitude) scale_rows(change, sum);
      to_ours(change, sum, values);
    }
    write(own, values);
  }

  std::vector<float> exported(const Change& change, std::span<const float> ours) const {
    const Shape& shape = whole_.find(change.rule->ours).stored_shape;
    std::vector<float> theirs(static_cast<size_t>(change.module->a->shape[1] * change.module->b->shape[0]));
    export_values(change.rule->layout, groups_of(spec_), shape[0], shape.count() / shape[0], ours, theirs);
    return theirs;
  }

  /// Each output's row gets the length that DoRA trained.
  static void scale_rows(const Change& change, std::vector<float>& weight) {
    const std::vector<float> magnitude = change.module->magnitude->read();
    const auto out = std::ssize(magnitude), in = std::ssize(weight) / out;
    const bool turned = is_transposed(change.rule->layout);
    const auto at = [&](int64_t row, int64_t column) {
      return static_cast<size_t>(turned ? column * out + row : row * in + column);
    };
    for (int64_t row = 0; row < out; ++row) {
      double squares = 0;
      for (int64_t i = 0; i < in; ++i) {
        const auto w = static_cast<double>(weight[at(row, i)]);
        squares += w * w;
      }
      const double factor = static_cast<double>(magnitude[static_cast<size_t>(row)]) / std::sqrt(squares);
      for (int64_t i = 0; i < in; ++i)
        weight[at(row, i)] = static_cast<float>(factor * static_cast<double>(weight[at(row, i)]));
    }
  }

  const PeftAdapter& adapter_;
  const Family& family_;
  const Spec& spec_;
  ParameterTable whole_;
  const ParameterTable* table_;
  TrainingState* state_;
  std::vector<NamedRule> rules_;
  std::map<std::string, std::vector<Change>> changes_;  ///< by our parameter
  std::set<std::string> names_;                         ///< of parameters that the files have, without a prefix
  std::vector<std::string> missing_;
  std::vector<std::string> faults_;
};

void PeftAdapter::merge(const ModelFolder& base, const ParameterTable& table, TrainingState& state) const {
  Merge merge(*this, family_of(base), table.spec(), base.path, &table, &state);
  merge.warn_of_missing();
  merge.run();
}

std::vector<Adapter> PeftAdapter::adapters(const Spec& base, const Family& family) const {
  const Merge merge(*this, family, base, "this run", nullptr, nullptr);
  merge.warn_of_missing();
  return merge.adapters();
}

std::vector<std::string> PeftAdapter::modules_to_save() const {
  std::set<std::string> modules;
  for (const auto& [name, tensor] : replaced_) {
    std::string module(module_of(name));
    require(replaced_.contains(module + ".weight") && !modules_.contains(module), ErrorKind::config,
            "{}: {} was trained without its weight (\"bias\" in adapter_config.json), which this program cannot train; "
            "merge it (trireme export --adapter {} --merge) and train a new adapter",
            folder_, name, folder_);
    modules.insert(std::move(module));
  }
  return {modules.begin(), modules.end()};
}

void PeftAdapter::load(const Family& family, const ParameterTable& table, TrainingState& state) const {
  Merge(*this, family, table.spec(), "this run", &table, &state).load();
}

}  // namespace trireme
