#pragma once
// A tiny untrained BERT, as pretraining leaves one (without a classifier), with a vocabulary of words, and rows of a
// task that it can learn.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/rng.h"
#include "checkpoint/huggingface/huggingface.h"
#include "report/run_log.h"
#include "tests/runs/program.h"
#include "text/tokenizer.h"

namespace trireme {

class GlueFixture : public ::testing::Test {
 protected:
  static constexpr int kWords = 24;

  GlueFixture() {
    std::filesystem::create_directories(path("data/MRPC"));
    make_model();
    write_rows("data/MRPC/train.tsv", 203, 1);
    write_rows("data/MRPC/dev.tsv", 50, 2);
    std::string test = "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
    for (int i = 0; i < 7; ++i) test += fmt::format("{}\t1\t2\tw{} w2\t{} w3\n", i, i, i % 2 ? "good" : "w9");
    write_text(path("data/MRPC/test.tsv"), test);
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string folder() const { return folder_.path(); }
  Json json(const std::string& name) const { return read_json(path(name)); }

  /// `glue --task mrpc --output-dir NAME ...` with a rate that suits the tiny model, no dropout, a log line per step.
  std::vector<std::string> glue(const std::string& run, const std::vector<std::string>& flags) const {
    std::vector<std::string> words{"glue",    "--model_name_or_path", path("model"), "--task_name",
                                   "mrpc",    "--data-dir",           path("data"),  "--output_dir",
                                   path(run), "--learning_rate",      "2e-3",        "--logging_steps",
                                   "1",       "--comm.wire",          "f32",         "--launch.threads",
                                   "1",       "--model.dropout",      "0",           "--log.peak-tflops",
                                   "1"};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }
  Outcome run_on(int ranks, const std::string& name, const std::vector<std::string>& flags) const {
    return run(ranks == 1 ? trireme_command(glue(name, flags)) : mpirun_command(ranks, glue(name, flags)));
  }
  std::map<int64_t, double> losses(const std::string& name) const {
    std::map<int64_t, double> out;
    for (const Metrics& metrics : read_run_log(path(name) + "/metrics.jsonl").steps) out[metrics.step] = metrics.loss;
    return out;
  }
  void expect_same_losses(const std::string& a, const std::string& b, double tolerance) const {
    const auto x = losses(a), y = losses(b);
    ASSERT_EQ(x.size(), y.size());
    ASSERT_FALSE(x.empty());
    for (const auto& [step, loss] : x) EXPECT_NEAR(loss, y.at(step), tolerance) << a << ", " << b << " step " << step;
  }
  /// 1 where the second sentence has the word "good".
  void write_rows(const std::string& name, int count, uint64_t seed) const {
    RandomStream random(seed);
    const auto sentence = [&](bool good) {
      const uint64_t words = 2 + random.below(5), place = random.below(words);
      std::string text;
      for (uint64_t i = 0; i < words; ++i)
        text += (i == 0 ? "" : " ") + (good && i == place ? "good" : fmt::format("w{}", random.below(kWords)));
      return text;
    };
    std::string text = "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
    for (int i = 0; i < count; ++i) {
      const bool first = random.below(2) == 1, second = random.below(2) == 1;
      text += fmt::format("{}\t{}\t{}\t{}\t{}\n", second ? 1 : 0, i, i, sentence(first), sentence(second));
    }
    write_text(path(name), text);
  }

 private:
  void make_model() const {
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\n";
    for (int i = 0; i < kWords; ++i) words += fmt::format("w{}\n", i);
    write_text(path("vocab.txt"), words);
    Spec spec;
    spec.vocabulary = spec.vocabulary_rows = kWords + 6;
    spec.context = 32;
    spec.layers = 2;
    spec.heads = 2;
    spec.width = 32;
    spec.inner_width = 64;
    spec.activation = Activation::gelu_erf;
    spec.mask = Mask::full;
    spec.norm_place = NormPlace::post;
    spec.final_norm = false;
    spec.token_types = 2;
    spec.embedding_norm = true;
    spec.head = HeadKind::masked_language_model;
    spec.head_activation = spec.activation;
    spec.norm_epsilon = 1e-12f;
    spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = 0.1f;
    const ParameterTable table(spec);
    TrainingState state(table, DType::f32, false);
    initialize(state, table, 3);
    export_huggingface(path("model"), spec, table, state, load_tokenizer(path("vocab.txt"))->json(), DType::f32);
    write_text(path("model/vocab.txt"), words);
  }

  TemporaryFolder folder_;
};

}  // namespace trireme
