#include "cli/sample/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "config/flag_word.h"
#include "config/python_reader.h"

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

bool gives(const std::vector<std::string>& words, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return std::ranges::find(names, flag_word(word).name) != names.end(); });
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
  const std::string init_from = take_flag({"--init-from"}, "a value", words).value_or(setting_of("init_from"));
  const std::string out_dir = take_flag({"--out-dir"}, "a value", words).value_or(setting_of("out_dir"));
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
  std::string path = *take_flag({"--ckpt-path"}, "a value", words);
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
  if (const auto dialect = take_flag({"--dialect"}, "a value", words)) {
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
