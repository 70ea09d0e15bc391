#include "checkpoint/peft/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/json_text.h"
#include "checkpoint/peft/adapter.h"
#include "checkpoint/peft/targets.h"

namespace trireme {
namespace {

constexpr const char* kPrefix = "base_model.model.";

using ValuesOf = std::function<std::vector<float>(const Parameter&)>;

std::vector<float> read(const TrainingState& state, const Parameter& parameter) {
  std::vector<float> values(static_cast<size_t>(parameter.stored_shape.count()));
  state.read_master(parameter, values);
  return values;
}

/// The adapters of a model with the published linears that they belong to.
std::vector<std::pair<PublishedLinear, Adapter>> published(const Family& family, const Spec& spec) {
  std::vector<std::pair<PublishedLinear, Adapter>> found;
  const std::vector<PublishedLinear> linears = published_linears(family, spec);
  for (const Adapter& adapter : adapters_of(spec)) {
    const auto linear = std::ranges::find_if(
        linears, [&](const PublishedLinear& l) { return l.linear == adapter.linear && l.part == adapter.part; });
    require(linear != linears.end(), ErrorKind::config,
            "cannot write the adapter of {} ({}): the family {} has no such linear; merge it (--merge)", adapter.linear,
            name_of(adapter.part), family.model_type);
    found.emplace_back(*linear, adapter);
  }
  return found;
}

class Writer {
 public:
  Writer(const ParameterTable& table, std::string_view model_type)
      : table_(table),
        spec_(table.spec()),
        family_(adapter_family(spec_, model_type)),
        adapters_(published(family_, spec_)) {}

  std::vector<PeftTensor> tensors(const ValuesOf& values_of) const {
    std::vector<PeftTensor> tensors;
    std::map<std::string, int64_t> rows;  // of A that are taken, by linear
    for (const auto& [linear, adapter] : adapters_) {
      const std::vector<float> all = values_of(table_.find(adapter.a()));
      const int64_t in = table_.find(adapter.a()).global_shape[1], rank = adapter.rank;
      int64_t& row = rows[adapter.linear];
      std::vector<float> a(all.begin() + row * in, all.begin() + (row + rank) * in);
      row += rank;
      const auto of_outputs = [&, &linear = linear](const std::string& name, int64_t columns) {
        const std::vector<float> ours = values_of(table_.find(name));
        std::vector<float> theirs(ours.size());
        export_values(order_of_outputs(linear.layout), groups_of(spec_), std::ssize(ours) / columns, columns, ours,
                      theirs);
        return theirs;
      };
      std::vector<float> b = of_outputs(adapter.b(), rank);
      const int64_t out = std::ssize(b) / rank;
      const std::string path = kPrefix + linear.path;
      if (adapter.magnitude)
        tensors.push_back({{path + ".lora_magnitude_vector", "F32", {out}}, of_outputs(adapter.magnitudes(), 1)});
      tensors.push_back({{path + ".lora_A.weight", "F32", {rank, in}}, std::move(a)});
      tensors.push_back({{path + ".lora_B.weight", "F32", {out, rank}}, std::move(b)});
    }
    for (const NamedRule& rule : saved()) {
      const Parameter& parameter = table_.find(rule.ours);
      const Shape& shape = parameter.stored_shape;
      std::vector<int64_t> sizes;
      for (int d = 0; d < shape.dims(); ++d) sizes.push_back(shape[d]);
      const std::vector<float> ours = values_of(parameter);
      std::vector<float> theirs(ours);
      export_values(rule.layout, groups_of(spec_), shape[0], shape.count() / shape[0], ours, theirs);
      tensors.push_back({{kPrefix + published_name(rule), "F32", their_shape(rule.layout, groups_of(spec_), sizes)},
                         std::move(theirs)});
    }
    std::ranges::sort(tensors, {}, [](const PeftTensor& tensor) { return tensor.entry.name; });
    return tensors;
  }

  Json config(const LoraOptions& options, const std::string& base) const {
    // The shortest number that gives the scale again.
    const auto alpha_of = [&](const Adapter& adapter) {
      const auto rank = static_cast<double>(adapter.rank);
      const double divisor = options.rank_stabilized ? std::sqrt(rank) : rank;
      const double alpha = static_cast<double>(adapter.scale) * divisor,
                   round = shortest_double(static_cast<float>(alpha));
      return static_cast<float>(round / divisor) == adapter.scale ? round : alpha;
    };
    std::map<std::pair<int64_t, double>, size_t> uses;
    for (const auto& [linear, adapter] : adapters_) ++uses[{adapter.rank, alpha_of(adapter)}];
    const auto usual = std::ranges::max_element(uses, {}, [](const auto& use) { return use.second; })->first;
    Json ranks = Json::object(), alphas = Json::object();
    for (const auto& [linear, adapter] : adapters_) {
      if (adapter.rank != usual.first) ranks[linear.path] = adapter.rank;
      if (alpha_of(adapter) != usual.second) alphas[linear.path] = alpha_of(adapter);
    }
    std::set<std::string> modules;
    for (const NamedRule& rule : saved()) {
      const std::string name = published_name(rule);
      modules.insert(name.substr(0, name.rfind('.')));
    }
    const bool turned =
        std::ranges::any_of(adapters_, [](const auto& one) { return by_rows(one.first.layout) != one.first.layout; });
    return {{"peft_type", "LORA"},
            {"task_type", spec_.head == HeadKind::language_model ? Json("CAUSAL_LM") : Json()},
            {"base_model_name_or_path", base},
            {"revision", nullptr},
            {"inference_mode", true},
            {"r", usual.first},
            {"lora_alpha", usual.second},
            {"lora_dropout", shortest_double(spec_.adapter_dropout)},
            {"use_rslora", options.rank_stabilized},
            {"use_dora", adapter_sizes(spec_, 1).magnitudes},
            {"bias", "none"},
            {"lora_bias", false},
            {"fan_in_fan_out", turned},
            {"init_lora_weights", true},
            {"target_modules", targets()},
            {"exclude_modules", nullptr},
            {"rank_pattern", ranks},
            {"alpha_pattern", alphas},
            {"modules_to_save", modules.empty() ? Json() : Json(modules)},
            {"layers_to_transform", nullptr},
            {"layers_pattern", nullptr}};
  }

 private:
  std::string published_name(const NamedRule& rule) const {
    return std::string(rule.outside ? "" : family_.prefixes.front()) + rule.theirs;
  }

  /// What is trained in full.
  std::vector<NamedRule> saved() const {
    std::vector<NamedRule> rules;
    for (NamedRule& rule : numbered_rules(family_.names, spec_.layers)) {
      const Parameter* ours = table_.look_up(rule.ours);
      if (ours && ours->trained()) rules.push_back(std::move(rule));
    }
    return rules;
  }

  /// The last words of the paths where they name nothing else, else whole paths.
  std::vector<std::string> targets() const {
    std::set<std::string> paths, all;
    for (const auto& [linear, adapter] : adapters_) paths.insert(linear.path);
    for (const NamedRule& rule : numbered_rules(family_.names, spec_.layers)) {
      const std::string name = published_name(rule);
      all.insert(name.substr(0, name.rfind('.')));
    }
    std::set<std::string> targets;
    for (const std::string& path : paths) {
      const std::string end = path.substr(path.rfind('.'));
      const bool alone = std::ranges::all_of(
          all, [&](const std::string& other) { return !other.ends_with(end) || paths.contains(other); });
      targets.insert(alone ? end.substr(1) : path);
    }
    return {targets.begin(), targets.end()};
  }

  const ParameterTable& table_;
  const Spec& spec_;
  const Family& family_;
  std::vector<std::pair<PublishedLinear, Adapter>> adapters_;
};

}  // namespace

std::vector<PeftTensor> peft_tensors(const ParameterTable& whole, const ValuesOf& values_of,
                                     std::string_view model_type) {
  return Writer(whole, model_type).tensors(values_of);
}

void export_adapter(const std::string& folder, const ParameterTable& table, const TrainingState& state,
                    const LoraOptions& options, const std::string& base, std::string_view model_type) {
  const Writer writer(table, model_type);
  const std::vector<PeftTensor> tensors = writer.tensors([&](const Parameter& own) { return read(state, own); });
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, ErrorKind::io, "cannot create {}: {}", folder, error.message());
  std::vector<SafetensorsEntry> entries;
  for (const PeftTensor& tensor : tensors) entries.push_back(tensor.entry);
  SafetensorsWriter file(folder + "/adapter_model.safetensors", std::move(entries), {{"format", "pt"}});
  for (size_t i = 0; i < tensors.size(); ++i) file.write(i, std::as_bytes(std::span(tensors[i].values)));
  file.commit();
  write_text(folder + "/adapter_config.json", dump_json(writer.config(options, base), 2) + "\n");
}

void merge_adapters(const ParameterTable& table, TrainingState& state) {
  const Spec& spec = table.spec();
  std::map<std::string, int64_t> rows;  // of A that are taken, by linear
  for (const Adapter& adapter : adapters_of(spec)) {
    const Parameter& weight = table.find(adapter.linear + ".weight");
    const std::vector<float> a = read(state, table.find(adapter.a())), b = read(state, table.find(adapter.b()));
    std::vector<float> sum = read(state, weight);
    const int64_t in = weight.global_shape[1], first = rows[adapter.linear];
    rows[adapter.linear] += adapter.rank;
    const RowPattern outputs = outputs_of(spec, adapter.part);
    const std::vector<float> magnitudes =
        adapter.magnitude ? read(state, table.find(adapter.magnitudes())) : std::vector<float>();
#pragma omp parallel for schedule(static)
    for (int64_t out = 0; out < std::ssize(b) / adapter.rank; ++out) {
      const std::span<float> row(&sum[static_cast<size_t>(outputs.place(out) * in)], static_cast<size_t>(in));
      for (int64_t i = 0; i < in; ++i) {
        double product = 0;
        for (int64_t k = 0; k < adapter.rank; ++k)
          product += static_cast<double>(b[static_cast<size_t>(out * adapter.rank + k)]) *
                     static_cast<double>(a[static_cast<size_t>((first + k) * in + i)]);
        row[static_cast<size_t>(i)] += static_cast<float>(static_cast<double>(adapter.scale) * product);
      }
      if (magnitudes.empty()) continue;
      const double factor = static_cast<double>(magnitudes[static_cast<size_t>(out)]) / length_of(row);
      for (float& value : row) value = static_cast<float>(factor * static_cast<double>(value));
    }
    state.write_master(weight, sum);
  }
}

}  // namespace trireme
