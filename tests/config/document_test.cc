#include "config/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "config/dialect.h"
#include "config/schema.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

/// A configuration in which no option has its default, as far as its range allows.
Config unusual() {
  Config config;
  for (const Option& option : schema().options()) {
    Value value = option.default_value;
    if (auto* b = std::get_if<bool>(&value)) *b = !*b;
    if (auto* i = std::get_if<int64_t>(&value)) *i = std::min(*i + 1, std::get<int64_t>(option.maximum));
    if (auto* d = std::get_if<double>(&value)) *d = std::min(*d + 0.1, std::get<double>(option.maximum));
    if (option.type == OptionType::choice) value = option.choices.back();
    if (option.type == OptionType::text) value = "a \"b\"\\ \n # c: é";
    set(config, option, value);
  }
  return config;
}

void expect_equal(const Config& a, const Config& b) {
  for (const Option& option : schema().options()) EXPECT_EQ(get(a, option), get(b, option)) << option.name;
}

TEST(ConfigJson, GivesTheSameConfigBack) {
  expect_equal(config_from_json(parse_json(to_json(unusual()).dump(), "manifest"), "manifest"), unusual());
  expect_equal(config_from_json(to_json(Config{}), "manifest"), Config{});
}

TEST(ConfigJson, RefusesWhatDoesNotFit) {
  EXPECT_ERROR(config_from_json(parse_json(R"({"optim": {"klip": 1}})", "m"), "m.json"), ErrorKind::config,
               "m.json: unknown option \"optim.klip\"; another version wrote the file");
  EXPECT_ERROR(config_from_json(parse_json(R"({"optimm": {}})", "m"), "m.json"), ErrorKind::config,
               "m.json: unknown group of options \"optimm\"");
  EXPECT_ERROR(config_from_json(parse_json(R"({"optim": {"clip": "1"}})", "m"), "m.json"), ErrorKind::config,
               "m.json: optim.clip is \"1\", expected a number");
  EXPECT_ERROR(config_from_json(parse_json(R"({"run": {"seed": 18446744073709551615}})", "m"), "m.json"),
               ErrorKind::config, "m.json: run.seed is 1.8446744073709552e+19, expected a whole number");
  EXPECT_ERROR(config_from_json(parse_json("[]", "m"), "m.json"), ErrorKind::config,
               "m.json: the configuration is not");
}

TEST(ConfigYaml, LoadsToTheSameValues) {
  const TemporaryFolder folder;
  LoadedConfig loaded;
  loaded.config = unusual();
  loaded.config.model.preset = "";
  loaded.config.model.heads = loaded.config.model.width = 16;
  loaded.config.optim.min_learning_rate = 0.01;
  loaded.config.optim.schedule_form = ScheduleForm::nanogpt;  // the last course is one of transformers'
  loaded.config.optim.decay_power = loaded.config.optim.restarts = 1;
  loaded.config.optim.timescale = 0;
  loaded.config.run.overwrite = false;
  loaded.config.batch.sequence = 0;
  loaded.config.batch.per_rank = 0;
  loaded.config.optim.warmup_fraction = 0;
  loaded.config.lora.adapter = "";
  loaded.config.checkpoint.also = "1,2";
  loaded.config.log.columns = "loss,lr";
  loaded.config.log.metrics = "[::1]:9464";
  loaded.config.log.mlflow = "http://node1:5000";
  loaded.notes = {"a note"};
  write_text(folder / "shown.yaml", to_yaml(loaded));
  expect_equal(load_config({folder / "shown.yaml"}, {}).config, loaded.config);
}

TEST(ConfigYaml, LeavesOutWhatAnotherOptionOverrules) {
  const TemporaryFolder folder;
  const LoadedConfig loaded = load_config({}, {"--model.preset=gpt2-124m", "--batch.per-rank=4"});
  write_text(folder / "shown.yaml", to_yaml(loaded));
  EXPECT_THAT(to_yaml(loaded), HasSubstr("  # global: from batch.per-rank\n"));
  expect_equal(load_config({folder / "shown.yaml"}, {}).config, loaded.config);
}

TEST(ConfigYaml, SaysWhereValuesCameFrom) {
  const std::string text = to_yaml(load_config({}, {"--optim.clip=2", "--optim.beta1=0.9"}));
  EXPECT_THAT(text, HasSubstr("  clip: 2  # flag --optim.clip\n"));
  EXPECT_THAT(text, HasSubstr("  beta1: 0.9  # flag --optim.beta1\n")) << "also of a default that was given";
  EXPECT_THAT(text, HasSubstr("  beta2: 0.95\n"));
}

TEST(OptionsDocument, IsUpToDate) {
  const std::string path = source_dir() + "/docs/options.md";
  EXPECT_EQ(read_text(path), options_markdown()) << "write it again: trireme config options > docs/options.md";
}

TEST(OptionsDocument, HasEveryOptionAndEveryDialectKey) {
  const std::string page = options_markdown(), help = options_help();
  for (const Option& option : schema().options()) {
    EXPECT_THAT(page, HasSubstr("| " + option.name + " | "));
    EXPECT_THAT(help, HasSubstr("  --" + option.name + " "));
  }
  for (const Dialect* dialect : dialects()) {
    for (const DialectKey& key : dialect->keys) EXPECT_THAT(page, HasSubstr(std::string("| ") + key.name + " | "));
  }
}

TEST(OptionsHelp, FitsATerminal) {
  std::istringstream lines(options_help());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 112u) << line;
}

}  // namespace
}  // namespace trireme
