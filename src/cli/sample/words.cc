#include "cli/sample/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "config/python_reader.h"
#include "config/setting.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// sample.py's names and defaults that are also flags here; `dtype`, `device` and `compile` only if they are given.
const std::map<std::string, Value>& sampling_keys() {
  static const std::map<std::string, Value> keys{{"init_from", "resume"},
                                                 {"out_dir", "out"},
                                                 {"start", "\n"},
                                                 {"num_samples", int64_t{10}},
                                                 {"max_new_tokens", int64_t{500}},
                                                 {"temperature", 0.8},
                                                 {"top_k", int64_t{200}},
                                                 {"seed", int64_t{1337}},
                                                 {"device", "cpu"},
                                                 {"dtype", "float32"},
                                                 {"compile", false}};
  return keys;
}

struct SampleFlag {
  std::string name;  ///< with its dashes, '_' as '-'
  std::optional<std::string> value;
  size_t place = 0, words = 1;
};

std::optional<SampleFlag> find_flag(const std::vector<std::string>& words, std::string_view wanted) {
  std::optional<SampleFlag> found;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (canonical(words[i].substr(0, equals)) != wanted) continue;
    found = SampleFlag{std::string(wanted), std::nullopt, i, 1};
    if (equals != std::string::npos) {
      found->value = words[i].substr(equals + 1);
    } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      found->value = words[i + 1];
      found->words = 2;
    }
  }
  return found;
}

/// The value of the last occurrence; all occurrences are removed.
std::optional<std::string> take_flag(std::vector<std::string>& words, std::string_view name) {
  std::optional<std::string> value;
  while (const auto flag = find_flag(words, name)) {
    require(flag->value.has_value(), ErrorKind::usage, "{} needs a value", words[flag->place]);
    if (!value) value = flag->value;
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(flag->place);
    words.erase(first, first + static_cast<std::ptrdiff_t>(flag->words));
  }
  return value;
}

bool gives(const std::vector<std::string>& words, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return find_flag(words, name).has_value(); });
}

/// The settings of sampling in a configuration file; other names are for training.
std::map<std::string, Setting> read_file(const std::string& path) {
  std::map<std::string, Setting> found;
  for (Setting& setting : read_python(path, 0, sampling_keys())) {
    const auto key = sampling_keys().find(setting.key);
    if (key == sampling_keys().end()) continue;
    const bool widens = std::holds_alternative<double>(key->second) && std::holds_alternative<int64_t>(setting.value);
    require(widens || setting.value.index() == key->second.index(), ErrorKind::config,
            "{} is {}, which has another type than this setting of sampling; correct it", place(setting),
            describe(setting));
    found[setting.key] = std::move(setting);
  }
  return found;
}

/// The model of init_from: a run, or a GPT-2 of models/ or the hub.
std::string model_of(const std::string& init_from, const std::string& out_dir) {
  if (init_from == "resume") return out_dir;
  require(init_from.starts_with("gpt2"), ErrorKind::config,
          "--init_from is \"{}\": expected resume, gpt2, gpt2-medium, gpt2-large or gpt2-xl; --model takes any other "
          "model",
          init_from);
  return (fs::path("models") / init_from).string();  // also a name on the hub
}

std::vector<std::string> of_nanogpt(std::vector<std::string> words, const std::string& file) {
  std::map<std::string, Setting> settings;
  if (!file.empty()) settings = read_file(file);
  const auto setting_of = [&](const std::string& key) {
    const auto found = settings.find(key);
    return found == settings.end() ? to_text(sampling_keys().at(key)) : found->second.text;
  };
  const std::string init_from = take_flag(words, "--init-from").value_or(setting_of("init_from"));
  const std::string out_dir = take_flag(words, "--out-dir").value_or(setting_of("out_dir"));
  std::vector<std::string> own;
  if (!gives(words, {"--model", "--ckpt-path", "--checkpoint"})) own = {"--model=" + model_of(init_from, out_dir)};
  const bool prompted = gives(words, {"--prompt", "--start", "--prompt-file", "--interactive", "--sample-input-file"});
  for (const auto& [key, value] : sampling_keys()) {
    const bool here = settings.contains(key);
    if (key == "init_from" || key == "out_dir" || (key == "start" && prompted)) continue;
    if (!here && (key == "device" || key == "dtype" || key == "compile")) continue;
    own.push_back(fmt::format("--{}={}", canonical(key), setting_of(key)));
  }
  if (!gives(words, {"--stop-at-end", "--no-stop-at-end"})) own.emplace_back("--no-stop-at-end");
  words.insert(words.begin(), own.begin(), own.end());  // flags of the command win
  return words;
}

/// Intel's sample.py has one prompt and fixed settings.
std::vector<std::string> of_intel(std::vector<std::string> words) {
  std::string path = *take_flag(words, "--ckpt-path");
  const fs::path link = fs::path(path).replace_extension();
  std::error_code unreadable;
  if (!fs::exists(path, unreadable) && fs::path(path).extension() == ".pt" && fs::is_directory(link, unreadable)) {
    log::info("{} does not exist; sampling {}, the best snapshot of a run with model_path: {}", path, link.string(),
              path);
    path = link.string();
  }
  std::vector<std::string> own{"--model=" + path, "--max-new-tokens=100", "--temperature=0.6", "--top-k=200",
                               "--seed=1337"};
  if (!gives(words, {"--prompt", "--start", "--prompt-file", "--interactive"}))
    own.emplace_back("--prompt=It is interesting ");
  words.insert(words.begin(), own.begin(), own.end());
  return words;
}

}  // namespace

std::vector<std::string> take_sampling_dialects(std::vector<std::string> words) {
  std::string file;
  if (!words.empty() && words[0].ends_with(".py") && !words[0].starts_with('-')) {
    file = words[0];
    words.erase(words.begin());
  }
  if (const auto dialect = take_flag(words, "--dialect")) {
    require(canonical(*dialect) == "nanogpt", ErrorKind::usage,
            "--dialect {}: sample supports only --dialect nanogpt; without --dialect it takes its own flags", *dialect);
    return of_nanogpt(std::move(words), file);
  }
  const bool of_sample_py = !file.empty() || gives(words, {"--out-dir", "--init-from"});
  require(!of_sample_py || file.empty() || !gives(words, {"--model"}), ErrorKind::usage,
          "{} and --model both name a model; remove one of them", file);
  if (of_sample_py) return of_nanogpt(std::move(words), file);
  if (gives(words, {"--ckpt-path"})) return of_intel(std::move(words));
  return words;
}

}  // namespace trireme
