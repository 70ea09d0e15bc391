// The files under configs/ against the published tables that they repeat.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "config/document.h"
#include "config/load.h"
#include "model/model_options.h"
#include "model/presets.h"
#include "tests/support/paths.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

LoadedConfig load(const std::string& name) {
  // Intel's keys do not say which weights are fine-tuned: the command that runs the file does.
  const bool names_no_model = name == "intel-nanogpt.yaml";
  return load_config({source_dir() + "/configs/" + name},
                     names_no_model ? std::vector<std::string>{"--model.init", "gpt2"} : std::vector<std::string>{});
}

std::set<std::string> shipped(const std::string& prefix) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(source_dir() + "/configs")) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name.starts_with(prefix)) names.insert(name);
  }
  return names;
}

TEST(PublishedRuns, EveryShippedFileLoadsAndIsShown) {
  const auto files = shipped("");
  EXPECT_GE(files.size(), 28u);
  for (const std::string& name : files) {
    const LoadedConfig loaded = load(name);
    EXPECT_FALSE(loaded.origins.empty()) << name;
    if (loaded.dialect != "native") continue;
    EXPECT_FALSE(to_yaml(loaded).empty()) << name;
    const std::string& preset_name = loaded.config.model.preset;
    if (preset_name.empty()) continue;
    EXPECT_GE(preset(preset_name).spec.context, loaded.config.batch.sequence) << name;
    EXPECT_EQ(loaded.config.run.dir, "runs/" + preset_name) << name;
  }
}

// Zhang et al. 2022, table 1; 300e9 tokens, of which 375e6 warm up.
TEST(PublishedRuns, OptIsMetaseqsTable) {
  struct Row {
    const char* name;
    int64_t layers, width, heads;
    double batch_tokens, learning_rate;
  };
  constexpr double kM = 1 << 20;
  constexpr Row kTable[] = {{"8m", 4, 128, 2, 0.125 * kM, 1e-3},    {"125m", 12, 768, 12, 0.5 * kM, 6e-4},
                            {"350m", 24, 1024, 16, 0.5 * kM, 3e-4}, {"760m", 24, 1536, 16, 0.5 * kM, 2.5e-4},
                            {"1.3b", 24, 2048, 32, kM, 2e-4},       {"2.7b", 32, 2560, 32, kM, 1.6e-4},
                            {"6.7b", 32, 4096, 32, 2 * kM, 1.2e-4}, {"13b", 40, 5120, 40, 4 * kM, 1e-4},
                            {"30b", 48, 7168, 56, 4 * kM, 1e-4},    {"66b", 64, 9216, 72, 2 * kM, 8e-5},
                            {"175b", 96, 12288, 96, 2 * kM, 3e-5}};
  EXPECT_EQ(shipped("opt-").size(), std::size(kTable));
  for (const Row& row : kTable) {
    SCOPED_TRACE(row.name);
    const Config config = load(std::string("opt-") + row.name + ".yaml").config;
    const Spec spec = preset(config.model.preset).spec;
    EXPECT_EQ(config.model.preset, std::string("opt-") + row.name);
    EXPECT_EQ(spec.layers, row.layers);
    EXPECT_EQ(spec.width, row.width);
    EXPECT_EQ(spec.heads, row.heads);
    EXPECT_EQ(spec.inner_width, 4 * row.width);
    EXPECT_EQ(static_cast<double>(config.batch.global * config.batch.sequence), row.batch_tokens);
    EXPECT_EQ(config.optim.learning_rate, row.learning_rate);
    EXPECT_EQ(config.run.steps, static_cast<int64_t>(300e9 / row.batch_tokens));
    EXPECT_EQ(config.optim.decay_steps, config.run.steps);
    EXPECT_EQ(config.optim.warmup_steps, static_cast<int64_t>(375e6 / row.batch_tokens));
    EXPECT_DOUBLE_EQ(config.optim.min_learning_rate, row.learning_rate / 10);
    EXPECT_EQ(config.optim.beta2, 0.95);
    EXPECT_EQ(config.model.dropout, 0.1);
    EXPECT_TRUE(config.optim.decay_all) << "metaseq's Adam decays every tensor";
  }
}

TEST(PublishedRuns, NeoxIsItsLadder) {
  struct Row {
    const char* name;
    int64_t layers, width, heads;
    double learning_rate;
    int64_t steps;
  };
  constexpr Row kTable[] = {{"19m", 6, 512, 8, 1e-3, 143000},       {"49m", 10, 640, 10, 8e-4, 143000},
                            {"125m", 12, 768, 12, 6e-4, 320000},    {"350m", 24, 1024, 16, 3e-4, 320000},
                            {"760m", 24, 1536, 16, 2.5e-4, 320000}, {"800m", 16, 2048, 8, 2.5e-4, 143000},
                            {"1.3b", 24, 2048, 16, 2e-4, 320000},   {"2.7b", 32, 2560, 32, 1.6e-4, 320000},
                            {"6.7b", 32, 4096, 32, 1.2e-4, 320000}, {"13b", 40, 5120, 40, 1e-4, 320000},
                            {"20b", 44, 6144, 64, 0.97e-4, 150000}, {"175b", 96, 12288, 96, 6e-5, 320000}};
  EXPECT_EQ(shipped("neox-").size(), std::size(kTable));
  for (const Row& row : kTable) {
    SCOPED_TRACE(row.name);
    const Config config = load(std::string("neox-") + row.name + ".yaml").config;
    const Spec spec = preset(config.model.preset).spec;
    EXPECT_EQ(spec.layers, row.layers);
    EXPECT_EQ(spec.width, row.width);
    EXPECT_EQ(spec.heads, row.heads);
    EXPECT_EQ(spec.context, 2048);
    EXPECT_FALSE(spec.tied_head);
    EXPECT_EQ(config.optim.learning_rate, row.learning_rate);
    const bool to_zero = row.name == std::string("175b");  // it names no lowest rate
    EXPECT_NEAR(config.optim.min_learning_rate, to_zero ? 0 : row.learning_rate / 10, 1e-12);
    EXPECT_EQ(config.run.steps, row.steps);
    EXPECT_EQ(config.optim.warmup_fraction, 0.01);
    EXPECT_EQ(config.optim.schedule, RateCourse::cosine);
    EXPECT_EQ(config.optim.schedule_form, ScheduleForm::neox);
    EXPECT_EQ(config.optim.clip, 0);
  }
}

/// An option's value as `config show` has it, by its name in JSON.
void flatten(const Json& json, const std::string& prefix, std::map<std::string, std::string>& out) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      flatten(value, prefix + key + ".", out);
    } else {
      out[prefix + key] = value.dump();
    }
  }
}

std::map<std::string, std::string> values_of(LoadedConfig loaded) {
  resolve_model_options(loaded);
  std::map<std::string, std::string> out;
  flatten(to_json(loaded.config), "", out);
  return out;
}

TEST(PublishedRuns, NeoxEqualsNeoxsFilesExceptTheirHeader) {
  TRIREME_NEEDS_TEST_DATA("configs/neox");
  const auto theirs = [](const std::vector<std::string>& names) {
    std::vector<std::string> files;
    for (const std::string& name : names)
      files.push_back((test_data_dir() / "configs/neox" / (name + ".yml")).string());
    return values_of(load_config(files, {}));
  };
  const std::pair<const char*, std::vector<std::string>> cases[] = {{"125m", {"125M", "local_setup"}},
                                                                    {"1.3b", {"1-3B", "local_setup"}},
                                                                    {"2.7b", {"2-7B", "local_setup"}},
                                                                    {"6.7b", {"6-7B", "slurm_local"}},
                                                                    {"20b", {"20B"}}};
  for (const auto& [name, files] : cases) {
    SCOPED_TRACE(name);
    std::set<std::string> other = {"model.preset", "model.init",        "precision.dtype",   "optim.shard",
                                   "data.dir",     "data.train",        "data.split",        "data.tokenizer",
                                   "data.merges",  "run.dir",           "checkpoint.resume", "batch.per-rank",
                                   "batch.global", "batch.accumulation"};
    if (std::string(name) == "20b") other.insert({"mesh.tensor", "mesh.pipeline", "model.vocabulary-multiple"});
    const auto ours = values_of(load(std::string("neox-") + name + ".yaml"));
    for (const auto& [option, value] : theirs(files)) {
      if (other.contains(option) || option.starts_with("precision.loss-scale")) continue;  // ours are in bf16
      EXPECT_EQ(ours.at(option), value) << option;
    }
    EXPECT_EQ(ours.at("batch.micro"), "4");
  }
}

}  // namespace
}  // namespace trireme
