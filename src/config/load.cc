#include "config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/utf8.h"
#include "config/dialect.h"
#include "config/flag_word.h"
#include "config/foreign_options.h"
#include "config/python_reader.h"
#include "config/schema.h"
#include "config/setting.h"
#include "config/validate.h"
#include "config/yaml_reader.h"

namespace trireme {
namespace {

struct SourceFile {
  std::string path;
  std::vector<Setting> settings;
  const Dialect* dialect = nullptr;  // nullptr: native
};

bool is_word_of(const Setting& setting, const Dialect* dialect) {
  return !schema().find(setting.key) && dialect && dialect->find(setting.key);
}

/// Names of options in other programs.
constexpr Synonym kSynonyms[] = {
    {"lr", "optim.learning-rate"},
    {"wd", "optim.weight-decay"},
    {"grad-clip max-grad-norm gradient-clipping clip-grad", "optim.clip"},
    {"warmup-iters", "optim.warmup-steps"},
    {"lr-decay-iters", "optim.decay-steps"},
    {"min-lr", "optim.min-learning-rate"},
    {"lr-scheduler-type", "optim.schedule"},
    {"max-iters max-steps train-iters num-steps", "run.steps"},
    {"output-dir out-dir save-dir", "run.dir"},
    {"save-interval save-steps save-every checkpoint-factor", "checkpoint.every"},
    {"eval-interval eval-steps eval-every", "evaluation.every"},
    {"eval-iters", "evaluation.batches"},
    {"log-interval logging-steps", "log.every"},
    {"global-batch-size train-batch-size", "batch.global"},
    {"micro-batch-size", "batch.micro"},
    {"gas gradient-accumulation-steps grad-accum", "batch.accumulation"},
    {"seq-length", "batch.sequence"},
    {"block-size max-position-embeddings", "model.context"},
    {"n-layer num-layers", "model.layers"},
    {"n-head num-heads num-attention-heads", "model.heads"},
    {"n-embd hidden-size", "model.width"},
    {"vocab-size", "model.vocabulary"},
    {"tensor-parallel-size", "mesh.tensor"},
    {"pipeline-parallel-size", "mesh.pipeline"},
    {"sequence-parallel", "mesh.sequence"},
};

/// Why an option's name is not one, and what it may have meant.
std::string describe_unknown(const Setting& setting, const Dialect* dialect) {
  std::vector<std::string> names = schema().names();
  if (dialect) {
    for (const DialectKey& key : dialect->keys) names.emplace_back(key.name);
  }
  const std::string start = fmt::format("{}: unknown option \"{}\"", setting.origin.text(), setting.key);
  const std::string meant = dialect ? nearest_name(setting.key, {}, dialect->synonyms) : "";
  if (!meant.empty()) return fmt::format("{}; did you mean \"{}\"?", start, meant);
  for (const Dialect* other : dialects()) {
    const DialectKey* key = dialect == other ? nullptr : other->find(setting.key);
    if (!key) continue;
    if (key->role == KeyRole::refused)
      return fmt::format("{}; key of dialect {}: {}", start, other->name, key->meaning);
    return fmt::format("{}; it is a key of dialect {}; add --dialect {}", start, other->name, other->name);
  }
  if (setting.origin.layer >= kFlagLayer) {
    for (std::string& foreign : foreign_names("train")) {
      if (!dialect || !dialect->find(foreign)) names.push_back(std::move(foreign));
    }
  }
  const std::string near = nearest_name(setting.key, names, kSynonyms);
  if (!near.empty()) return fmt::format("{}; did you mean \"{}\"?", start, near);
  return start + ", and none has a similar name; `trireme config options` lists all options";
}

bool all_native(const std::vector<Setting>& settings) {
  return !settings.empty() && std::all_of(settings.begin(), settings.end(), [](const Setting& setting) {
    return schema().find(setting.key) || schema().is_group(setting.key);
  });
}

/// A configuration file in Python may use keys that it has not assigned: they have the default values.
std::map<std::string, Value> python_names(const Dialect& dialect) {
  std::map<std::string, Value> names;
  for (const DialectKey& key : dialect.keys) names.emplace(key.name, key.default_value);
  return names;
}

SourceFile read_source(const std::string& path, int layer, const Dialect* forced) {
  const std::string extension = std::filesystem::path(path).extension();
  const bool yaml = extension == ".yaml" || extension == ".yml";
  const bool python = extension == ".py" || (forced == &kNanogpt && !yaml);
  SourceFile file{path, python ? read_python(path, layer, python_names(kNanogpt)) : read_yaml(path, layer), nullptr};
  if (forced) {
    if (!all_native(file.settings)) file.dialect = forced;
    return file;
  }
  for (const Dialect* dialect : dialects()) {
    if (dialect->claims(path, file.settings)) file.dialect = dialect;
  }
  return file;
}

/// Whether an option or a key of the dialect has this name; then it is not a flag of another program.
bool is_own_word(const std::string& name, const Dialect* dialect) {
  const std::string_view key = std::string_view(name).substr(std::min(name.find_first_not_of('-'), name.size()));
  if (!name.starts_with("--")) return false;
  if (schema().find(key) != nullptr) return true;
  if (!dialect) return false;
  // NeoX's keys that are flags of its launcher, deepy.py, on the command line; --profile N is log.profile in every
  // dialect.
  constexpr std::string_view kLauncher[] = {"hostfile", "num-gpus", "num-nodes", "deepspeed", "do-train", "profile"};
  if (dialect == &kGptNeox && std::ranges::find(kLauncher, canonical(key)) != std::end(kLauncher)) return false;
  const DialectKey* found = dialect->find(key);
  return found != nullptr && found->role != KeyRole::refused;
}

/// The one dialect of a set of files, some of which may be native.
const Dialect* common_dialect(const std::vector<SourceFile>& files) {
  const SourceFile* first = nullptr;
  for (const SourceFile& file : files) {
    if (!file.dialect) continue;
    if (!first) first = &file;
    require(file.dialect == first->dialect, ErrorKind::config,
            "{} is in dialect {}, and {} is in dialect {}; use files of one dialect (native files may be added)",
            first->path, first->dialect->name, file.path, file.dialect->name);
  }
  return first ? first->dialect : nullptr;
}

/// Reads "NAME=VALUE" after --default.
Setting default_setting(const std::string& text) {
  const size_t equals = text.find('=');
  require(!text.empty(), ErrorKind::usage, "--default: the value is empty, expected NAME=VALUE");
  require(equals != std::string::npos && equals > 0, ErrorKind::usage, "--default {}: expected NAME=VALUE", text);
  const std::string value = text.substr(equals + 1);
  Setting setting{text.substr(0, equals), resolve_plain(value), value, {"flag --default", 0, kDefaultLayer}, ""};
  if (!schema().find(setting.key)) fail(ErrorKind::config, "{}", describe_unknown(setting, nullptr));
  return setting;
}

/// The raw words without the files as settings: each has its own layer, so the last one of the same key wins.
std::vector<Setting> parse_flags(const std::vector<std::string>& words, const Dialect* dialect) {
  std::vector<Setting> settings;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool dashed = word.starts_with("--");
    const size_t equals = word.find('=');
    Setting setting;
    setting.key = word.substr(dashed ? 2 : 0, equals == std::string::npos ? equals : equals - (dashed ? 2 : 0));
    // Hydra's prefix for "set it, whether it exists or not"
    if (!dashed && dialect && dialect->bare_overrides && setting.key.starts_with("++")) setting.key.erase(0, 2);
    setting.origin = {fmt::format("flag {}{}", dashed ? "--" : "", setting.key), 0,
                      kFlagLayer + static_cast<int>(settings.size())};
    if (!dashed && (equals == std::string::npos || !dialect || !dialect->bare_overrides)) {
      const std::string meant = equals == std::string::npos  ? ""
                                : schema().find(setting.key) ? setting.key
                                                             : nearest_name(setting.key, schema().names(), kSynonyms);
      fail(ErrorKind::usage, "\"{}\" is neither a file nor a flag; flags are written --key value or --key=value{}",
           word, meant.empty() ? "" : fmt::format("; did you mean --{}{}?", meant, word.substr(equals)));
    }
    const Option* option = schema().find(setting.key);
    const DialectKey* key = option || !dialect ? nullptr : dialect->find(setting.key);
    if (equals != std::string::npos) {
      setting.text = word.substr(equals + 1);
    } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      setting.text = words[++i];
    } else {
      require(setting.key != "default", ErrorKind::usage, "--default needs NAME=VALUE");
      require(option || key, ErrorKind::config, "{}", describe_unknown(setting, dialect));
      const bool is_flag = option ? option->value_is_optional() : std::holds_alternative<bool>(key->default_value);
      require(is_flag, ErrorKind::usage, "--{} needs a value", setting.key);
      setting.text = "true";
    }
    setting.value = key && dialect == &kNanogpt ? python_word(setting.text) : resolve_plain(setting.text);
    if (const auto* text = std::get_if<std::string>(&setting.value)) setting.text = *text;
    require(find_invalid_utf8(setting.text) == std::string_view::npos, ErrorKind::usage,
            "the value of {} is not UTF-8 text", setting.key);
    const bool is_default = dashed && setting.key == "default";
    settings.push_back(is_default ? default_setting(setting.text) : std::move(setting));
  }
  return settings;
}

void apply(LoadedConfig& loaded, const Setting& setting, const Dialect* dialect) {
  const Option* option = schema().find(setting.key);
  if (!option && schema().is_group(setting.key)) {
    // `optim:` with every line under it commented out
    if (setting.problem == "nothing") return;
    fail(ErrorKind::config, "{}: \"{}\" is a group of options; write `{}:` and its options indented below it",
         setting.origin.text(), setting.key, setting.key);
  }
  require(option, ErrorKind::config, "{}", describe_unknown(setting, dialect));
  set(loaded.config, *option, convert(*option, setting));
  loaded.origins[option->name] = setting.origin;
}

/// The path of a file: in the folder of -d, and NAME.yml if NAME does not exist.
std::string find_file(const std::string& folder, const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::error_code unreadable;  // if unreadable, reading it gives the error
  if (!std::filesystem::exists(path, unreadable) && std::filesystem::exists(path.string() + ".yml", unreadable))
    return path.string() + ".yml";
  return path.string();
}

/// The dialect of the first of the files among the words that is in one; needed before files and flags are separated.
/// nullptr: none.
const Dialect* dialect_of_files(const std::string& folder, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    try {
      const std::string path = word.starts_with('-') ? "" : find_file(folder, word);
      const std::string ending = std::filesystem::path(path).extension();
      if ((ending != ".yaml" && ending != ".yml" && ending != ".py") || !std::filesystem::is_regular_file(path))
        continue;
      if (const Dialect* dialect = read_source(path, 0, nullptr).dialect) return dialect;
    } catch (const std::exception&) {
      continue;  // reported when the files are read
    }
  }
  return nullptr;
}

}  // namespace

bool given(const OptionOrigins& origins, std::string_view option) {
  const auto found = origins.find(std::string(option));
  return found != origins.end() && found->second.layer != kDefaultLayer;
}

void LoadedConfig::derive(std::string_view option, const Value& value, const std::string& origin) {
  const Option& known = *schema().find(option);
  if (get(config, known) == value) return;
  set(config, known, value);
  origins[known.name] = {origin, 0, kDefaultLayer};
}

std::string where(const OptionOrigins& origins, std::string_view option, const OptionNames& names) {
  const auto found = origins.find(std::string(option));
  if (found == origins.end()) return fmt::format("{} (default)", names(option));
  return fmt::format("{} ({})", option, found->second.text());
}

ConfigWords split_words(std::vector<std::string> words, std::vector<std::string> problems) {
  ConfigWords result;
  result.dialect = take_flag({"--dialect"}, "a name", words);
  const std::string folder =
      take_flag({"-d", "--conf-dir"}, "the folder of the configuration files (the folder of the data is --data.dir)",
                words)
          .value_or("");
  const Dialect* dialect = nullptr;
  if (!result.dialect)
    dialect = dialect_of_files(folder, words);
  else if (*result.dialect != "native")
    dialect = &find_dialect(*result.dialect);
  std::ranges::move(take_foreign_options(
                        "train", [&](const std::string& name) { return is_own_word(name, dialect); }, words),
                    std::back_inserter(problems));
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_value = word.find('=') != std::string::npos;
    if (word == "--verbose") {
      result.verbose = true;
    } else if (!word.starts_with("--")) {
      require(!word.starts_with('-'), ErrorKind::usage, "unknown flag {}; flags are written --key value or --key=value",
              word);
      const bool bare = has_value && !std::filesystem::exists(word);
      (bare ? result.flags : result.files).push_back(word);
    } else {
      result.flags.push_back(word);
      const Option* option = schema().find(std::string_view(word).substr(2));
      const bool more = !has_value && i + 1 < words.size() && !words[i + 1].starts_with("--");
      const bool takes = more && (!option || !option->value_is_optional() || option->takes(words[i + 1]));
      if (takes) result.flags.push_back(words[++i]);
    }
  }
  require(
      folder.empty() || !result.files.empty(), ErrorKind::usage,
      "-d {} is the folder of the configuration files, but no file is given; for the folder of the data use --data.dir",
      folder);
  for (std::string& file : result.files) file = find_file(folder, file);
  if (!problems.empty()) {  // the rest of them
    for (const std::string& word : result.flags) {
      const std::string name = word.substr(0, word.find('='));
      if (!name.starts_with("--") || name == "--default" || is_own_word(name, dialect)) continue;
      problems.push_back(describe_unknown({name.substr(2), {}, "", {"flag " + name, 0, kFlagLayer}, ""}, dialect));
    }
  }
  require_none(problems);
  return result;
}

LoadedConfig load_config(const std::vector<std::string>& files, const std::vector<std::string>& flags,
                         const std::optional<std::string>& dialect_name, OptionNames names) {
  const Dialect* forced = dialect_name && *dialect_name != "native" ? &find_dialect(*dialect_name) : nullptr;
  std::vector<SourceFile> sources;
  for (const std::string& path : files) {
    sources.push_back(read_source(path, static_cast<int>(sources.size()), forced));
    if (dialect_name && !forced) sources.back().dialect = nullptr;
  }
  const Dialect* dialect = forced ? forced : common_dialect(sources);

  std::vector<Setting> native, foreign;
  for (const SourceFile& source : sources) {
    std::vector<Setting>& target = source.dialect ? foreign : native;
    target.insert(target.end(), source.settings.begin(), source.settings.end());
  }
  for (Setting& setting : parse_flags(flags, dialect)) {
    (is_word_of(setting, dialect) ? foreign : native).push_back(std::move(setting));
  }

  LoadedConfig loaded;
  loaded.config.names = std::move(names);
  std::vector<Setting> settings;
  std::vector<std::string> problems;
  const auto collect = [&](const auto& work) {
    try {
      work();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::config) throw;
      problems.emplace_back(e.what());
    }
  };
  if (dialect) {
    collect([&] {
      Translation translation = translate(*dialect, foreign, native, &problems);
      settings = std::move(translation.settings);
      loaded.notes = std::move(translation.notes);
      loaded.details = std::move(translation.details);
    });
    loaded.dialect = dialect->name;
  }
  settings.insert(settings.end(), native.begin(), native.end());
  std::stable_sort(settings.begin(), settings.end(),
                   [](const Setting& a, const Setting& b) { return a.origin.layer < b.origin.layer; });
  for (const Setting& setting : settings) collect([&] { apply(loaded, setting, dialect); });
  require_none(problems);
  validate(loaded);
  return loaded;
}

LoadedConfig load_saved_config(const std::vector<std::string>& files, const std::string& dialect,
                               std::string_view keys) {
  std::vector<Setting> kept;
  for (const std::string& file : files) {
    for (Setting& setting : read_yaml(file, static_cast<int>(&file - files.data()))) {
      const std::string name = canonical(setting.key);
      if (!lists_word(canonical(keys), name.substr(0, name.find('.')))) continue;
      std::erase_if(kept, [&](const Setting& before) { return canonical(before.key) == name; });
      kept.push_back(std::move(setting));
    }
  }
  const Dialect& spoken = find_dialect(dialect);
  LoadedConfig loaded;
  loaded.dialect = spoken.name;
  for (const Setting& setting : translate(spoken, kept, {}).settings) apply(loaded, setting, &spoken);
  return loaded;
}

}  // namespace trireme
