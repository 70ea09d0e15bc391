#include "checkpoint/peft/targets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/peft/adapter.h"
#include "text/regex/regex.h"

namespace trireme {
namespace {

constexpr std::string_view kWeight = ".weight";

/// What PEFT 0.21 adapts if nothing is said, by model_type.
std::string_view usual_targets(std::string_view model_type) {
  if (model_type == "gpt2") return "c_attn";
  if (model_type == "gpt_neox") return "query_key_value";
  if (model_type == "bert" || model_type == "roberta") return "query,value";
  if (model_type == "distilbert") return "q_lin,v_lin";
  if (model_type == "phi3") return "qkv_proj";
  return "q_proj,v_proj";
}

std::vector<std::string> names_of(const char* option, std::string_view list) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    std::string_view name = list.substr(at, end - at);
    const size_t begin = std::min(name.find_first_not_of(' '), name.size());
    name = name.substr(begin, name.find_last_not_of(' ') + 1 - begin);
    require(!name.empty(), ErrorKind::config, "{} is \"{}\", which has an empty name between commas", option, list);
    names.emplace_back(name);
    at = end + 1;
  }
  return names;
}

bool is_regex(std::string_view text) { return text.find_first_of("*+?[](){}|\\^$") != std::string_view::npos; }

std::string_view last_word(std::string_view path) { return path.substr(path.rfind('.') + 1); }

/// The last words of paths, each once.
std::vector<std::string> last_words(const std::vector<PublishedLinear>& linears) {
  std::vector<std::string> words;
  for (const PublishedLinear& linear : linears) {
    std::string word(last_word(linear.path));
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  }
  return words;
}

/// The paths of a model's other modules that have a weight.
std::vector<std::string> other_modules(const Family& family, const Spec& spec) {
  const ParameterTable whole(base_of(spec));
  std::vector<std::string> paths;
  for (const NamedRule& rule : numbered_rules(family.names, spec.layers)) {
    const Parameter* const ours = whole.look_up(rule.ours);
    const bool in_block = ours && rule.ours.starts_with("block.") && ours->global_shape.dims() == 2;
    if (!ours || in_block || !rule.theirs.ends_with(kWeight)) continue;
    const std::string path = (rule.outside ? "" : family.prefixes.front()) + rule.theirs;
    paths.push_back(path.substr(0, path.size() - kWeight.size()));
  }
  for (const NameRule& copy : family.copies) {
    const std::string_view name = copy.theirs;
    if (name.ends_with(kWeight) && whole.look_up(copy.ours))
      paths.emplace_back(name.substr(0, name.size() - kWeight.size()));
  }
  return paths;
}

[[noreturn]] void refuse_target(const std::string& target, const Family& family, const Spec& spec,
                                const std::vector<PublishedLinear>& linears) {
  for (const std::string& path : other_modules(family, spec)) {
    require(
        !ends_path(path, target), ErrorKind::config,
        "lora.targets: \"{}\" is {}, but only the linears of blocks can have adapters here: {}; to train it in full "
        "beside them use lora.modules-to-save",
        target, path, fmt::join(last_words(linears), ", "));
  }
  fail(ErrorKind::config,
       "lora.targets: \"{}\" matches no linear of this model ({}); the nearest name is \"{}\". Its linears are {}; "
       "all-linear means all of them",
       target, family.model_type, nearest(target, last_words(linears)), fmt::join(last_words(linears), ", "));
}

std::vector<PublishedLinear> chosen(const LoraOptions& options, const Family& family, const Spec& spec) {
  const std::vector<PublishedLinear> all = published_linears(family, spec);
  const std::string targets = options.targets.empty() ? std::string(usual_targets(family.model_type)) : options.targets;
  if (targets == kAllLinear) return all;
  std::vector<PublishedLinear> chosen;
  if (is_regex(targets)) {
    try {
      const Regex regex(fmt::format(R"(\A(?:{})\z)", targets), "lora.targets");
      for (const PublishedLinear& linear : all) {
        Regex::Match match{};
        if (Regex::Search(regex, linear.path).next(0, match)) chosen.push_back(linear);
      }
    } catch (const Error& error) {
      fail(ErrorKind::config, "{}", error.what());
    }
    if (chosen.empty()) refuse_target(targets, family, spec, all);
    return chosen;
  }
  std::set<std::string> paths;
  for (const std::string& target : names_of("lora.targets", targets)) {
    bool found = false;
    for (const PublishedLinear& linear : all) {
      if (!ends_path(linear.path, target)) continue;
      found = true;
      if (paths.insert(linear.path).second) chosen.push_back(linear);
    }
    if (!found) refuse_target(target, family, spec, all);
  }
  return chosen;
}

/// "down_proj=4, layers.0.self_attn.q_proj=32".
template <class T>
ModulePattern<T> pattern_of(const char* option, const std::string& text) {
  ModulePattern<T> pattern;
  if (text.empty()) return pattern;
  for (const std::string& one : names_of(option, text)) {
    const size_t sign = one.rfind('=');
    T value{};
    const char* const end = one.data() + one.size();
    const bool right = sign != std::string::npos && sign > 0 &&
                       std::from_chars(one.data() + sign + 1, end, value).ptr == end && value > 0;
    require(right, ErrorKind::config, "{}: \"{}\" is not NAME=NUMBER with a number above 0; expected like down_proj=4",
            option, one);
    std::string name = one.substr(0, sign);
    const bool is_new = std::ranges::find(pattern, name, &std::pair<std::string, T>::first) == pattern.end();
    require(is_new, ErrorKind::config, "{}: {} is given twice", option, name);
    pattern.emplace_back(std::move(name), value);
  }
  return pattern;
}

template <class T>
void check_pattern(const char* option, const ModulePattern<T>& pattern, const std::vector<PublishedLinear>& linears) {
  for (const auto& [key, value] : pattern) {
    const bool matches = std::ranges::any_of(
        linears, [&, &name = key](const PublishedLinear& linear) { return matches_module(name, linear.path, option); });
    require(matches, ErrorKind::config, "{}: \"{}\" matches none of the linears with adapters: {}", option, key,
            fmt::join(last_words(linears), ", "));
  }
}

}  // namespace

AdapterPart part_of(FileLayout layout) {
  switch (layout) {
    case FileLayout::query:
      return AdapterPart::query;
    case FileLayout::key:
      return AdapterPart::key;
    case FileLayout::value:
      return AdapterPart::value;
    case FileLayout::gate:
      return AdapterPart::gate;
    case FileLayout::up:
      return AdapterPart::up;
    case FileLayout::delta_mixed:
      return AdapterPart::mixed;
    case FileLayout::delta_gates:
      return AdapterPart::output_gate;
    case FileLayout::delta_betas:
      return AdapterPart::beta;
    case FileLayout::delta_decays:
      return AdapterPart::decay;
    default:
      return AdapterPart::all;
  }
}

FileLayout by_rows(FileLayout layout) {
  if (layout == FileLayout::transposed) return FileLayout::same;
  return layout == FileLayout::qkv_blocks_transposed ? FileLayout::qkv_blocks : layout;
}

FileLayout order_of_outputs(FileLayout layout) {
  if (layout == FileLayout::delta_mixed) return FileLayout::delta_channels;
  return part_of(layout) == AdapterPart::all ? by_rows(layout) : FileLayout::same;
}

Spec base_of(Spec spec) {
  spec.adapters.clear();
  spec.adapter_dropout = 0;
  return spec;
}

const Family& adapter_family(const Spec& spec, std::string_view model_type) {
  return family_for(base_of(spec), model_type);
}

std::vector<PublishedLinear> published_linears(const Family& family, const Spec& spec) {
  const ParameterTable whole(base_of(spec));
  std::vector<PublishedLinear> linears;
  for (const NamedRule& rule : numbered_rules(family.names, spec.layers)) {
    const Parameter* const ours = whole.look_up(rule.ours);
    if (!ours || !rule.ours.starts_with("block.") || ours->global_shape.dims() != 2) continue;
    const std::string path = (rule.outside ? "" : family.prefixes.front()) + rule.theirs;
    linears.push_back({path.substr(0, path.size() - kWeight.size()),
                       rule.ours.substr(0, rule.ours.size() - kWeight.size()), part_of(rule.layout), rule.layout});
  }
  return linears;
}

Spec with_adapters(Spec spec, LoraOptions& options, std::string_view model_type) {
  require(spec.adapters.empty(), ErrorKind::config,
          "the model that this run starts from has adapters, of a run with lora.rank; write them as a folder of PEFT "
          "(trireme export) and start from the base model with lora.adapter, or merge them first (trireme export "
          "--merge)");
  if (!options.on()) return spec;
  const Family& family = adapter_family(spec, model_type);
  std::vector<Adapter> adapters;
  if (!options.adapter.empty()) {
    const PeftAdapter start(options.adapter);
    adapters = start.adapters(spec, family);
    options.modules_to_save = fmt::format("{}", fmt::join(start.modules_to_save(), ","));
  } else {
    PeftConfig config;
    config.rank = options.rank;
    config.alpha = options.alpha;
    config.rank_stabilized = options.rank_stabilized;
    config.rank_pattern = pattern_of<int64_t>("lora.rank-pattern", options.rank_pattern);
    config.alpha_pattern = pattern_of<double>("lora.alpha-pattern", options.alpha_pattern);
    config.where = "lora";
    const std::vector<PublishedLinear> linears = chosen(options, family, spec);
    check_pattern("lora.rank-pattern", config.rank_pattern, linears);
    check_pattern("lora.alpha-pattern", config.alpha_pattern, linears);
    for (const PublishedLinear& linear : linears)
      adapters.push_back({linear.linear, linear.part, config.rank_of(linear.path),
                          static_cast<float>(config.scale_of(linear.path)), options.dora});
  }
  spec.adapters = adapters_text(std::move(adapters));
  spec.adapter_dropout = static_cast<float>(options.dropout);
  spec.validate();
  return spec;
}

std::string published_adapters(const Spec& spec, std::string_view model_type) {
  const std::vector<PublishedLinear> linears = published_linears(adapter_family(spec, model_type), spec);
  // Behind the layer's number; the last word alone where it means nothing else.
  const auto tail = [](const std::string& path) {
    const size_t digit = path.find_first_of("0123456789");
    return std::string_view(path).substr(std::min(path.find('.', digit), path.size() - 1) + 1);
  };
  const auto name_of_linear = [&](std::string_view ours) {
    const auto same = [&](const PublishedLinear& linear) {
      const std::string_view own = std::string_view(linear.linear).substr(linear.linear.find('.', 6) + 1);
      return ours ==
             (linear.part == AdapterPart::all ? std::string(own) : fmt::format("{}.{}", own, name_of(linear.part)));
    };
    const auto found = std::ranges::find_if(linears, same);
    if (found == linears.end()) return std::string(ours);
    const std::string_view whole = tail(found->path), last = last_word(found->path);
    const bool alone = std::ranges::all_of(linears, [&](const PublishedLinear& other) {
      return last_word(other.path) != last || tail(other.path) == whole;
    });
    return std::string(alone ? last : whole);
  };
  std::vector<std::pair<std::string, std::string>> groups;  // what is the same, names
  for (std::string_view rest = spec.adapters; !rest.empty();) {
    constexpr std::string_view kNext = "; ";
    const size_t end = std::min(rest.find(kNext), rest.size());
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + kNext.size(), rest.size()));
    const size_t in = one.find(" in ");
    const std::string name = name_of_linear(one.substr(0, in)), values(one.substr(in));
    const auto known = std::ranges::find(groups, values, &std::pair<std::string, std::string>::first);
    if (known == groups.end())
      groups.emplace_back(values, name);
    else
      known->second += ", " + name;
  }
  std::string text;
  for (const auto& [values, names] : groups) text += (text.empty() ? "" : "; ") + names + values;
  return text;
}

std::string trained_beside_adapters(const Spec& spec, const std::string& modules_to_save) {
  std::vector<std::string> patterns{"*.lora_A", "*.lora_B"};
  if (adapter_sizes(spec, 1).magnitudes) patterns.emplace_back("*.lora_magnitude");
  if (modules_to_save.empty()) return fmt::format("{}", fmt::join(patterns, ","));
  const Family& family = adapter_family(spec, {});
  const ParameterTable whole(base_of(spec));
  const auto module_of = [](std::string_view name) { return name.substr(0, name.rfind('.')); };
  std::vector<NamedRule> rules = numbered_rules(family.names, spec.layers);
  std::erase_if(rules, [&](const NamedRule& rule) { return !whole.look_up(rule.ours); });
  std::vector<std::string> modules;
  for (NamedRule& rule : rules) {
    if (!rule.outside) rule.theirs = family.prefixes.front() + rule.theirs;
    modules.emplace_back(module_of(rule.theirs));
  }
  for (const std::string& name : names_of("lora.modules-to-save", modules_to_save)) {
    bool found = false;
    const auto refuse_tied = [&](std::string_view theirs, std::string_view ours) {
      const bool tied = spec.tied_head && ours == "embedding.token.weight" && ends_path(module_of(theirs), name);
      require(!tied, ErrorKind::config,
              "lora.modules-to-save: \"{}\" is tied: embedding and head of this model are one matrix, but PEFT would "
              "save and load one of them alone; remove it",
              name);
    };
    for (const NameRule& copy : family.copies) refuse_tied(copy.theirs, copy.ours);
    for (const NamedRule& rule : rules) {
      if (!ends_path(module_of(rule.theirs), name)) continue;
      refuse_tied(rule.theirs, rule.ours);
      const bool part = part_of(rule.layout) != AdapterPart::all;
      require(!part, ErrorKind::config,
              "lora.modules-to-save: \"{}\" is a part of {} here, which cannot be trained alone; give it an adapter "
              "instead (lora.targets)",
              name, rule.ours);
      patterns.push_back(rule.ours);
      found = true;
    }
    require(found, ErrorKind::config, "lora.modules-to-save: the model has no module \"{}\"; the nearest is \"{}\"",
            name, nearest(name, modules));
  }
  return fmt::format("{}", fmt::join(patterns, ","));
}

}  // namespace trireme
