#include "cloud/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "cloud/validate.h"
#include "config/collector.h"
#include "config/yaml_reader.h"

namespace trireme::cloud {
namespace {

Collector declarations(ClusterOptions& options) {
  Collector collector;
  options.visit(collector);
  return collector;
}

/// A list in the file becomes a comma-separated text.
Setting with_lists_joined(Setting setting) {
  if (setting.problem != "a list") return setting;
  std::string joined;
  for (const Json& item : parse_json(setting.text, place(setting))) {
    require(!item.is_structured(), ErrorKind::config, "{} is a list of lists, expected a list of words",
            place(setting));
    joined += (joined.empty() ? "" : ",") + (item.is_string() ? item.get<std::string>() : dump_valid_json(item));
  }
  setting.value = joined;
  setting.text = joined;
  return setting;
}

[[noreturn]] void fail_unknown(const Setting& setting, const std::vector<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options) {
    names.push_back(option.name);
    require(!option.name.starts_with(canonical(setting.key) + "."), ErrorKind::config,
            "{}: {} is a group of options, such as {}; found {}", setting.origin.text(), setting.key, option.name,
            setting.problem.empty() ? describe(setting) : setting.problem);
  }
  const std::string near = nearest_name(setting.key, names);
  fail(ErrorKind::config, "{}: unknown option \"{}\"{}", setting.origin.text(), setting.key,
       near.empty() ? "; `trireme cluster init` writes a file with all of them" : "; did you mean " + near + "?");
}

/// Wraps words into comment lines.
std::string as_comment(const std::string& text, const std::string& indent) {
  constexpr size_t kWidth = 100;
  std::istringstream words(text);
  std::string page, line = indent + "#";
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kWidth) {
      page += line + "\n";
      line = indent + "#";
    }
    line += " " + word;
  }
  return page + line + "\n";
}

bool is_for(const std::string& group, ProviderChoice provider) {
  if (group == "azure") return provider == ProviderChoice::azure;
  if (group == "hosts") return provider == ProviderChoice::hosts;
  return group != "network" || provider != ProviderChoice::hosts;
}

/// Options that have no effect for existing machines.
bool is_of_made_machines(const std::string& option) {
  for (const char* name : {"node.type", "node.head-type", "node.image", "node.disk-gb", "node.spot", "access.from",
                           "cluster.lifetime-hours", "cluster.tags", "storage.gb"}) {
    if (option == name) return true;
  }
  return false;
}

/// Why an option of this provider is not used, for a warning; empty: it is used.
std::string why_unused(const ClusterOptions& options, const std::string& option) {
  const bool cyclecloud = options.cluster.scheduler == SchedulerChoice::cyclecloud;
  const auto is_one_of = [&](std::initializer_list<const char*> names) {
    return std::ranges::count(names, option) > 0;
  };
  if (options.cluster.provider == ProviderChoice::azure && option == "network.zone") return "provider is azure";
  if (!cyclecloud && option == "azure.cyclecloud-slurm") return "cluster.scheduler is not cyclecloud";
  // Its server makes the network, the shared disk and the machines in its own ways.
  return cyclecloud && is_one_of({"network.public-addresses", "network.fast", "storage.kind", "storage.path",
                                  "node.wait-minutes", "software.source"})
             ? "cluster.scheduler is cyclecloud"
             : "";
}

std::string yaml_value(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? dump_json(Json(*text)) : to_text(value);
}

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

}  // namespace

ClusterOptions parse_options(const std::string& text, const std::string& path) {
  refuse_secrets(text, path);
  ClusterOptions options;
  Collector declared = declarations(options);
  const std::vector<Setting> settings = parse_yaml(text, path, 0);
  for (const Setting& found : settings) {
    const std::string name = canonical(found.key);
    const auto option = std::ranges::find(declared.options, name, &Option::name);
    if (option == declared.options.end()) fail_unknown(found, declared.options);
    const Setting setting = option->type == OptionType::text ? with_lists_joined(found) : found;
    const Value value = convert(*option, setting);
    std::visit([&](const auto& field) { write(field, value); }, declared.fields[option->index]);
  }
  validate(options, path);
  for (const Setting& found : settings) {
    const std::string name = canonical(found.key), group = name.substr(0, name.find('.'));
    const ProviderChoice provider = options.cluster.provider;
    std::string why = why_unused(options, name);
    if (!is_for(group, provider) || (provider == ProviderChoice::hosts && is_of_made_machines(name))) {
      why = fmt::format("provider is {}", name_of(provider));
    } else if (!why.empty()) {
      // `init` writes every option of the provider: its default asks for nothing.
      const auto option = std::ranges::find(declared.options, name, &Option::name);
      const Value value = std::visit([](const auto& field) { return read(field); }, declared.fields[option->index]);
      if (value == option->default_value) continue;
    }
    if (!why.empty()) log::warning("{}: {} has no effect: {}", found.origin.text(), name, why);
  }
  return options;
}

ClusterOptions read_options(const std::string& path) { return parse_options(read_config_text(path), path); }

std::string options_file(const ClusterOptions& given) {
  ClusterOptions options = given;
  const Collector declared = declarations(options);
  const ProviderChoice provider = options.cluster.provider;
  std::string page = fmt::format(
      "# A cluster of {} of {}. `trireme cluster plan FILE --output DIR` shows what would be created,\n"
      "# `create FILE` creates it, `delete FILE` deletes it. Do not write secrets into this file.\n",
      count_text(options.cluster.nodes, "machine"), name_of(provider));
  for (const OptionGroup& group : declared.groups) {
    if (!is_for(group.name, provider)) continue;
    page += fmt::format("\n{}:  # {}\n", group.name, group.help);
    for (const Option& option : declared.options) {
      if (option.group != group.name) continue;
      if (provider == ProviderChoice::hosts && is_of_made_machines(option.name)) continue;
      std::string help = option.help;
      if (option.type != OptionType::text) help += " (" + option.expected() + ")";
      page += as_comment(help, "  ");
      const Value value = std::visit([](const auto& field) { return read(field); }, declared.fields[option.index]);
      page += fmt::format("  {}: {}\n", option.name.substr(group.name.size() + 1), yaml_value(value));
    }
  }
  return page;
}

std::string options_table() {
  ClusterOptions options;
  const Collector declared = declarations(options);
  std::string page = "| option | values | default | meaning |\n|---|---|---|---|\n";
  for (const Option& option : declared.options) {
    const std::string value = to_text(option.default_value);
    page += fmt::format("| {} | {} | {} | {} |\n", option.name, cell(option.expected()),
                        value.empty() ? "empty" : value, cell(option.help));
  }
  return page;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    const size_t first = part.find_first_not_of(" \t"), last = part.find_last_not_of(" \t");
    if (first != std::string::npos) parts.push_back(part.substr(first, last - first + 1));
  }
  return parts;
}

}  // namespace trireme::cloud
