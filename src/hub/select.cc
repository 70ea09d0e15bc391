#include "hub/select.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "hub/name.h"

namespace trireme::hub {
namespace {

constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "chat_template.jinja",
                                           "chat_template.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "vocab.txt"};
constexpr const char* kWeights[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                    "pytorch_model.bin.index.json"};
constexpr const char* kModelFiles[] = {"config.json", "generation_config.json"};

bool has(const Files& files, const std::string& name) { return std::ranges::binary_search(files, name); }

/// The format of the weights to read; empty: none.
std::string weights_of(const Files& files) {
  const auto found = std::ranges::find_if(kWeights, [&](const char* name) { return has(files, name); });
  return found == std::end(kWeights) ? "" : *found;
}

/// Files that an index names, in its folder.
Files parts_of(const std::string& folder, const std::string& index) {
  const std::string path = folder + "/" + index;
  const Json json = read_json(path);
  const auto map = json.find("weight_map");
  require(map != json.end() && map->is_object(), ErrorKind::data, "{} has no \"weight_map\"", path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    require(file.is_string() && is_safe_path(file.get<std::string>()), ErrorKind::data,
            "{}: the tensor {} is in {}, which is not a file beside it", path, tensor, dump_valid_json(file));
    names.insert(file.get<std::string>());
  }
  return {names.begin(), names.end()};
}

bool ends(const std::string& name, std::initializer_list<const char*> endings) {
  return std::ranges::any_of(endings, [&](const char* ending) { return name.ends_with(ending); });
}

}  // namespace

Files Selection::then(const Files&, const std::string&) const { return {}; }

Files ModelSelection::first(const Files& all) const {
  const std::string weights = weights_of(all);
  if (weights.empty() || !has(all, "config.json")) return {};
  Files files = TokenizerSelection().first(all);
  for (const char* name : kModelFiles) {
    if (has(all, name)) files.emplace_back(name);
  }
  files.push_back(weights);
  return files;
}

Files ModelSelection::then(const Files& all, const std::string& folder) const {
  const std::string weights = weights_of(all);
  if (!weights.ends_with(".index.json")) return {};
  const Files parts = parts_of(folder, weights);
  for (const std::string& part : parts)
    require(has(all, part), ErrorKind::data, "{}/{} names {}, which is missing on the hub", folder, weights, part);
  return parts;
}

bool ModelSelection::whole(const Files& here, const std::string& folder) const {
  const std::string weights = weights_of(here);
  if (weights.empty() || !has(here, "config.json")) return false;
  if (!weights.ends_with(".index.json")) return true;
  const Files parts = parts_of(folder, weights);
  return std::ranges::all_of(parts, [&](const std::string& part) { return has(here, part); });
}

Files TokenizerSelection::first(const Files& all) const {
  Files files;
  for (const char* name : kTokenizerFiles) {
    if (has(all, name)) files.emplace_back(name);
  }
  std::ranges::copy_if(all, std::back_inserter(files), [](const std::string& name) {
    return name.starts_with("additional_chat_templates/") && name.ends_with(".jinja");
  });
  if (!files.empty() && !whole(all, "")) files.clear();
  return files;
}

bool TokenizerSelection::whole(const Files& here, const std::string&) const {
  return has(here, "tokenizer.json") || has(here, "vocab.txt") || (has(here, "vocab.json") && has(here, "merges.txt"));
}

Files GlobSelection::first(const Files& all) const {
  Files files;
  for (const std::string& file : all) {
    const auto matches = [&](const std::string& pattern) { return fnmatch(pattern.c_str(), file.c_str(), 0) == 0; };
    if (std::ranges::any_of(patterns_, matches)) files.push_back(file);
  }
  return files;
}

std::string GlobSelection::what() const { return fmt::format("file that matches {}", fmt::join(patterns_, " or ")); }

bool GlobSelection::whole(const Files& here, const std::string&) const {
  const Files files = first(here);
  const bool literal =
      std::ranges::all_of(patterns_, [](const std::string& p) { return p.find_first_of("*?[") == p.npos; });
  return literal ? files.size() >= patterns_.size() : !files.empty() && has_all_parts(files);
}

Files DataSelection::first(const Files& all) const {
  Files files;
  const auto take = [&](std::initializer_list<const char*> endings) {
    if (!files.empty()) return;
    std::ranges::copy_if(all, std::back_inserter(files), [&](const std::string& name) { return ends(name, endings); });
  };
  take({".parquet"});
  take({".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson"});
  take({".txt", ".txt.gz", ".txt.zst"});
  return files;
}

bool DataSelection::whole(const Files& here, const std::string&) const {
  const Files files = first(here);
  return !files.empty() && has_all_parts(files);
}

bool has_all_parts(const Files& files) {
  std::map<std::string, std::pair<size_t, size_t>> groups;  // by name without the number: parts, existing parts
  for (const std::string& file : files) {
    const size_t of = file.rfind("-of-");
    if (of == file.npos || of < 6 || file[of - 6] != '-') continue;
    size_t parts = 0;
    const char* const begin = file.data() + of + 4;
    const auto [end, error] = std::from_chars(begin, file.data() + file.size(), parts);
    if (error != std::errc()) continue;
    auto& group = groups[file.substr(0, of - 6) + "/" + std::string(begin, file.data() + file.size())];
    group.first = parts;
    ++group.second;
  }
  return std::ranges::all_of(groups, [](const auto& group) { return group.second.first == group.second.second; });
}

}  // namespace trireme::hub
