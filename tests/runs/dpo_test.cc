// `trireme dpo`, as a user runs it: a tiny model that learns which of two answers is preferred.

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "checkpoint/checkpoint_folder.h"
#include "tests/runs/chat_fixture.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Dpo : public ChatFixture {
 protected:
  Dpo() : ChatFixture("dpo") { write_text(path("data.jsonl"), rows(60)); }

  /// The answer about the thing that was asked for is preferred.
  static std::string rows(int count) {
    const char* const things[] = {"cat", "dog", "mat", "hat"};
    std::string text;
    for (int n = 0; n < count; ++n)
      text += fmt::format(R"({{"prompt": "{}", "chosen": "the {}", "rejected": "a {} sat"}})", things[n % 4],
                          things[n % 4], things[(n + 1 + n % 3) % 4]) +
              "\n";
    return text;
  }
  static double measure(const NamedValues& values, const std::string& name) {
    for (const auto& [known, value] : values) {
      if (known == name) return value;
    }
    ADD_FAILURE() << "no " << name;
    return 0;
  }
};

TEST_F(Dpo, LearnsThePreferenceAndSaysSo) {
  const Outcome outcome = done("run", {"--epochs", "6"});
  EXPECT_THAT(outcome.output, ContainsRegex("tokenised 60 pairs of .*data.jsonl on 1 rank in"));
  EXPECT_THAT(outcome.output, ContainsRegex("computed the log-probabilities of 60 pairs by .*model in"));
  EXPECT_THAT(outcome.output, ContainsRegex("data  +.*data.jsonl: 57 pairs with .*, validation 3 pairs with "));
  EXPECT_THAT(outcome.output, HasSubstr("sigmoid with beta 0.1; answers count on assistant"));
  EXPECT_THAT(outcome.output, ContainsRegex("step +1/[0-9]+ . epoch +0.07 . loss +0.69.* . rewards/chosen "));
  EXPECT_THAT(outcome.output, ContainsRegex("evaluation at step 0: validation loss 0.6931, rewards/chosen "));
  const RunLog log = log_of("run");
  EXPECT_EQ(log.unit, LossUnit::pair);
  ASSERT_GE(log.evaluations.size(), 3U);
  EXPECT_NEAR(log.evaluations.front().validation_loss.value(), std::log(2), 1e-5) << "the reference is the start model";
  EXPECT_LT(log.evaluations.back().validation_loss.value(), 0.5);
  EXPECT_GT(measure(log.evaluations.back().values, "rewards/accuracies"), 0.9);
  ASSERT_FALSE(log.steps.empty());
  EXPECT_FALSE(log.steps[0].perplexity.has_value());
  const NamedValues &first = log.steps.front().values, &last = log.steps.back().values;
  EXPECT_LT(std::abs(measure(first, "rewards/margins")), 1e-4);
  EXPECT_GT(measure(last, "rewards/margins"), 0.5);
  EXPECT_NEAR(measure(last, "rewards/margins"), measure(last, "rewards/chosen") - measure(last, "rewards/rejected"),
              1e-9);
  EXPECT_LT(measure(last, "logps/rejected"), measure(first, "logps/rejected"));
  EXPECT_TRUE(std::filesystem::exists(path("run/best")));

  const Outcome page = run(trireme_command({"report", path("run")}));
  ASSERT_EQ(page.code, 0) << page.output;
  const std::string html = read_text(path("run/report.html"));
  EXPECT_THAT(html, HasSubstr("rewards/accuracies"));
  EXPECT_THAT(html, HasSubstr("per pair"));
  const Outcome exported = run(trireme_command({"export", "--model", path("run"), "--output", path("exported")}));
  ASSERT_EQ(exported.code, 0) << exported.output;
  EXPECT_EQ(read_text(path("exported/chat_template.jinja")), kChatTemplate);
}

TEST_F(Dpo, EveryLossStartsWhereItsFormulaSays) {
  const struct {
    std::vector<std::string> flags;
    double first;
  } cases[] = {{{"--loss", "hinge"}, 1},
               {{"--loss", "ipo", "--beta", "0.5"}, 1},
               {{"--loss_type", "sigmoid_norm"}, std::log(2)},
               {{"--loss", "robust", "--label-smoothing", "0.1"}, std::log(2)},
               {{"--label-smoothing", "0.1"}, std::log(2)}};
  int number = 0;
  for (const auto& [flags, first] : cases) {
    const std::string name = fmt::format("loss-{}", ++number);
    std::vector<std::string> all = flags;
    all.insert(all.end(), {"--run.steps", "8", "--validation-share", "0"});
    done(name, all);
    const auto got = losses(name);
    EXPECT_NEAR(got.at(1), first, 1e-5) << flags.back();
    EXPECT_LT(got.at(8), 0.99 * first) << flags.back();
  }
}

TEST_F(Dpo, ResumesWithTheSameBitsWhenItIsKilled) {
  const std::vector<std::string> flags = {"--epochs", "60", "--checkpoint.every", "2", "--checkpoint.best", "false"};
  Program program(trireme_command(words("killed", flags)));
  ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("snapshot of step 4 ") != out.npos; }))
      << program.output();
  kill(program.pid(), SIGKILL);
  EXPECT_EQ(program.finish().code, 128 + SIGKILL);
  const int64_t step = open_checkpoint(path("killed")).facts.progress.step;
  ASSERT_GE(step, 4);
  const std::string end = std::to_string(step + 3), decay = std::to_string(60 * 8);
  const std::vector<std::string> rest = {"--run.steps",          end,    "--optim.decay-steps", decay,
                                         "--optim.warmup-steps", "27",   "--checkpoint.every",  "2",
                                         "--checkpoint.best",    "false"};
  // Another start of the same run needs the same schedule from its beginning.
  const Outcome resumed = done("killed", rest);
  EXPECT_THAT(resumed.output, HasSubstr(fmt::format("{} steps and ", step)));
  EXPECT_THAT(resumed.output, Not(HasSubstr("computed the log-probabilities")));
  const Outcome whole = done("whole", rest);
  EXPECT_THAT(whole.output, HasSubstr("computed the log-probabilities"));
  EXPECT_EQ(read_text(path("killed/reference.bin")), read_text(path("whole/reference.bin")));
  const auto want = losses("whole"), got = losses("killed");
  for (int64_t s = step + 1; s <= step + 3; ++s) EXPECT_EQ(got.at(s), want.at(s)) << s;
  EXPECT_EQ(weights("killed"), weights("whole"));
}

TEST_F(Dpo, NeedsTheReferenceThatItsRunStartedWith) {
  done("run", {"--run.steps", "1"});
  const std::string reference = path("run/reference.bin"), good = read_text(reference);
  const auto resume = [&](const std::vector<std::string>& flags, int code, const std::string& message) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), {"--run.steps", "2"});
    const Outcome outcome = run(trireme_command(words("run", all)));
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  };
  std::filesystem::remove(reference);
  resume({}, 1,
         reference +
             " does not exist: it has the log-probabilities of the model that the run started from, without "
             "which the run cannot be resumed");
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
  write_text(reference, bad);
  resume({}, 1, reference + " is damaged");
  write_text(reference, good);
  write_text(path("data.jsonl"), rows(61));
  resume({}, 2, "data file 1 ");
  resume({"--checkpoint.allow-other-data"}, 2,
         "checkpoint.allow-other-data (flag --checkpoint.allow-other-data) is set, but " + reference +
             " has the log-probabilities of the pairs that the run started with");
  write_text(path("data.jsonl"), rows(60));
  resume({"--beta", "0.3"}, 2, "dpo.beta  0.1                0.3  impossible: another loss");
  resume({"--label-smoothing", "0.2"}, 2, "dpo.label-smoothing  0                  0.2  impossible: another loss");
  resume({"--loss", "ipo"}, 2, "dpo.loss  sigmoid            ipo  impossible: another loss");
  resume({}, 0, "RESUMING from ");
}

TEST_F(Dpo, EveryLayoutOfRanksHasTheSameLosses) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const std::vector<std::string> common = {"--epochs", "1", "--optim.epsilon", "1e-3", "--beta", "0.5"};
  done("one", common);
  const auto want = losses("one");
  ASSERT_GE(want.size(), 7U);
  EXPECT_LT(want.rbegin()->second, 0.99 * want.at(1));
  const std::pair<int, std::vector<std::string>> cases[] = {
      {2, {"--mesh.pipeline", "2", "--batch.micro", "1"}},
      {4, {"--mesh.tensor", "2", "--mesh.sequence", "--optim.shard", "optimizer"}},
      {2, {"--optim.shard", "parameters"}},
  };
  int number = 0;
  for (const auto& [ranks, layout] : cases) {
    const std::string name = fmt::format("layout-{}", ++number);
    std::vector<std::string> flags = layout;
    flags.insert(flags.end(), common.begin(), common.end());
    done(name, flags, ranks);
    const auto got = losses(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    for (const auto& [step, loss] : want) EXPECT_NEAR(got.at(step), loss, 1e-4 * loss) << name << ", step " << step;
    const RunLog log = log_of(name), of_one = log_of("one");
    EXPECT_NEAR(log.evaluations.back().validation_loss.value(), of_one.evaluations.back().validation_loss.value(),
                1e-3);
    for (size_t i = 0; i < of_one.steps.back().values.size(); ++i)
      EXPECT_NEAR(log.steps.back().values[i].second, of_one.steps.back().values[i].second, 2e-3)
          << name << ", " << of_one.steps.back().values[i].first;
  }
}

TEST_F(Dpo, ResumesOnAnotherLayout) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const auto to = [&](const std::string& name, int ranks, const char* steps, std::vector<std::string> layout) {
    layout.insert(layout.end(), {"--run.steps", steps, "--optim.schedule", "constant", "--optim.warmup-steps", "0",
                                 "--optim.epsilon", "1e-3"});
    done(name, layout, ranks);
  };
  to("one", 1, "6", {});
  to("changes", 2, "3", {});
  to("changes", 1, "4", {});
  to("changes", 2, "6", {"--mesh.tensor", "2"});
  const auto want = losses("one"), got = losses("changes");
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [step, loss] : want) EXPECT_NEAR(got.at(step), loss, 1e-4 * loss) << "step " << step;
}

/// All linears of the blocks, large steps.
const std::vector<std::string> kAdapters = {"--lora-rank",     "4",    "--lora.targets", "all-linear",
                                            "--optim.epsilon", "1e-3", "--beta",         "0.5",
                                            "--lora.alpha",    "16"};

TEST_F(Dpo, TrainsAdaptersBesideTheBaseModel) {
  std::vector<std::string> flags = kAdapters;
  flags.insert(flags.end(), {"--epochs", "6", "--learning-rate", "2e-2"});
  const Outcome outcome = done("run", flags);
  EXPECT_THAT(outcome.output,
              ContainsRegex("adapters +c_attn, attn.c_proj, c_fc, mlp.c_proj in 0-1: rank 4, scale 4\n"));
  EXPECT_THAT(outcome.output, ContainsRegex("computed the log-probabilities of 60 pairs by [^ ]*model in"));
  const RunLog log = log_of("run");
  EXPECT_NEAR(log.evaluations.front().validation_loss.value(), std::log(2), 1e-6) << "B is 0 at the start";
  EXPECT_LT(log.evaluations.back().validation_loss.value(), 0.5);
  EXPECT_GT(measure(log.steps.back().values, "rewards/margins"), 0.5);
  // The reference is the model without adapters.
  done("full", {"--run.steps", "1"});
  const NamedValues of_full = log_of("full").evaluations.front().values, of_adapters = log.evaluations.front().values;
  EXPECT_NEAR(measure(of_adapters, "logps/chosen"), measure(of_full, "logps/chosen"), 1e-4);
  EXPECT_NEAR(measure(of_adapters, "logps/rejected"), measure(of_full, "logps/rejected"), 1e-4);

  // An adapter is trained on: then the model with it is the reference.
  const Outcome exported = run(trireme_command({"export", "--model", path("run"), "--output", path("adapter")}));
  ASSERT_EQ(exported.code, 0) << exported.output;
  const Outcome on = done("on", {"--adapter", path("adapter"), "--run.steps", "3", "--beta", "0.5"});
  EXPECT_THAT(on.output, ContainsRegex("computed the log-probabilities of 60 pairs by [^ ]*model with the adapter "
                                       "[^ ]*adapter in"));
  const RunLog next = log_of("on");
  EXPECT_NEAR(next.evaluations.front().validation_loss.value(), std::log(2), 1e-5);
  EXPECT_NEAR(measure(next.evaluations.front().values, "logps/rejected"),
              measure(log.evaluations.back().values, "logps/rejected"), 1e-3);
  EXPECT_LT(measure(next.evaluations.front().values, "logps/rejected"), measure(of_full, "logps/rejected") - 0.5);
}

TEST_F(Dpo, TrainsAdaptersOnEveryLayoutAndResumesWithTheSameBits) {
  const auto to = [&](const std::string& name, const char* steps, const std::vector<std::string>& more, int ranks = 1) {
    std::vector<std::string> flags = kAdapters;
    flags.insert(flags.end(), more.begin(), more.end());
    flags.insert(flags.end(), {"--run.steps", steps, "--optim.schedule", "constant", "--optim.warmup-steps", "0"});
    return done(name, flags, ranks);
  };
  to("one", "6", {});
  to("stopped", "3", {});
  const Outcome resumed = to("stopped", "6", {});
  EXPECT_THAT(resumed.output, HasSubstr("RESUMING from "));
  EXPECT_EQ(losses("stopped"), losses("one"));
  EXPECT_EQ(weights("stopped"), weights("one"));
  if (mpirun_path().empty()) return;
  to("changes", "3", {"--optim.shard", "parameters"}, 2);
  to("changes", "6", {"--mesh.tensor", "2", "--mesh.sequence"}, 2);
  const auto want = losses("one"), got = losses("changes");
  ASSERT_EQ(got.size(), want.size());
  EXPECT_LT(want.at(6), 0.99 * want.at(1));
  for (const auto& [step, loss] : want) EXPECT_NEAR(got.at(step), loss, 1e-4 * loss) << "step " << step;
}

TEST_F(Dpo, CountsBadPairsOrEndsAtTheFirst) {
  const auto fault = [&](const std::string& row, const std::string& message) {
    write_text(path("data.jsonl"), rows(8) + row + "\n");
    expect_refused(1, path("data.jsonl") + " row 9: " + message);
    const Outcome counted = run(trireme_command(
        words("counted", {"--skip-bad-rows", "--run.steps", "1", "--checkpoint.resume", "none", "--run.overwrite"})));
    EXPECT_EQ(counted.code, 0) << counted.output;
    EXPECT_THAT(counted.output,
                HasSubstr("data.jsonl: 1 skipped of 9 rows; for example " + path("data.jsonl") + " row 9: " + message));
  };
  fault(R"({"prompt": "cat", "chosen": "the cat", "rejected": "the cat"})",
        "\"chosen\" and \"rejected\" do not differ");
  fault(R"({"prompt": "cat", "chosen": "the cat"})",
        "no pair: expected \"chosen\" and \"rejected\", found prompt, chosen");
  fault(R"({"chosen": "a", "rejected": "b"})",
        "\"prompt\" is missing: \"chosen\" is a text, which does not say what it answers");
  fault(R"({"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "x"}], )"
        R"("rejected": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "y"}]})",
        "\"chosen\" and \"rejected\" have no common prompt");
}

TEST_F(Dpo, SaysWhatIsCutAndLeftOut) {
  std::string text = rows(6);
  const std::string word = " the cat and the dog and the mat and the hat and the cat and the dog";
  text += fmt::format(R"({{"prompt": "cat", "chosen": "the cat{}", "rejected": "a"}})", word) + "\n";
  text += fmt::format(R"({{"prompt": "{}", "chosen": "cat", "rejected": "dog"}})", std::string(60, 'x')) + "\n";
  text += fmt::format(R"({{"prompt": "cat", "chosen": "x{0} cat", "rejected": "x{0} dog"}})", word) + "\n";
  write_text(path("data.jsonl"), text);
  const Outcome outcome = done("run", {"--run.steps", "1", "--validation-share", "0"});
  EXPECT_THAT(outcome.output, HasSubstr("training: 1 answer of 18 cut to --sequence = 48"));
  EXPECT_THAT(
      outcome.output,
      HasSubstr("training: 1 pair left out: none of the first 48 ids of an answer with its prompt counts in the loss"));
  EXPECT_THAT(outcome.output, HasSubstr("training: 1 pair left out: the answers are the same in their first 48 ids"));
  EXPECT_THAT(outcome.output, HasSubstr("7 pairs with "));
  write_text(path("data.jsonl"),
             fmt::format(R"({{"prompt": "{}", "chosen": "cat", "rejected": "dog"}})", std::string(60, 'x')));
  expect_refused(1,
                 "data.jsonl: no pair is left to train on: no id of an answer counts in 1 pair, and the answers are "
                 "the same in 0 pairs; raise --sequence (now 48)",
                 {"--validation-share", "0"});
}

TEST_F(Dpo, RefusesWhatItCannotDo) {
  const auto refused = [&](const std::vector<std::string>& all, int code, const std::string& message) {
    const Outcome outcome = run(trireme_command(all));
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  };
  refused({"dpo", "--model", path("model")}, 2, "--data is missing: a file of pairs of answers");
  expect_refused(2, "chat.packing (flag --chat.packing) has no effect when training on pairs",
                 {"--chat.packing", "false"});
  expect_refused(
      2, "dpo.label-smoothing (flag --dpo.label-smoothing) is for the losses sigmoid and robust, but dpo.loss is hinge",
      {"--loss", "hinge", "--label-smoothing", "0.1"});
  expect_refused(2, "dpo.loss", {"--loss", "kto"});
  expect_refused(2, "lora.alpha (flag --lora.alpha) has no effect without lora.rank", {"--lora.alpha", "8"});
  refused({"train", "--dpo.beta", "2"}, 2,
          "dpo.beta (flag --dpo.beta) is an option of `trireme dpo`, which trains on conversations");
  refused({"sft", "--model", "x", "--data", "y", "--dpo.beta", "2"}, 2,
          "dpo.beta (flag --dpo.beta) is about pairs of answers, on which `trireme dpo` trains");
}

TEST_F(Dpo, ExplainsItself) {
  const Outcome outcome = run(trireme_command({"dpo", "--help"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, StartsWith("usage: trireme dpo --model MODEL --data DATA --output RUN"));
  EXPECT_THAT(outcome.output, HasSubstr("rewards/accuracies   share of pairs with a positive margin: 0.5 is chance"));
  EXPECT_THAT(outcome.output, HasSubstr("--beta X"));
  EXPECT_THAT(outcome.output, HasSubstr("--dpo.label-smoothing"));
}

}  // namespace
}  // namespace trireme
