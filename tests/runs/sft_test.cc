// `trireme sft`, as a user runs it: a tiny model that learns to answer.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "checkpoint/checkpoint_folder.h"
#include "tests/runs/chat_fixture.h"
#include "tests/text/chat/published_templates.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Sft : public ChatFixture {
 protected:
  Sft() : ChatFixture("sft") { write_text(path("data.jsonl"), rows(60)); }

  /// Questions and answers that follow a rule.
  static std::string rows(int count) {
    const char* const things[] = {"cat", "dog", "mat", "hat"};
    std::string text;
    for (int n = 0; n < count; ++n) {
      const std::string thing = things[n % 4];
      text +=
          fmt::format(
              R"({{"messages": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "the {}"}}]}})",
              thing, thing) +
          "\n";
    }
    return text;
  }
};

TEST_F(Sft, LearnsToAnswerAndExportsWhatTransformersNeeds) {
  const Outcome outcome = done("run", {"--epochs", "12"});
  EXPECT_THAT(outcome.output, ContainsRegex("tokenised 60 conversations of .*data.jsonl on 1 rank in"));
  EXPECT_THAT(outcome.output, HasSubstr("57 conversations with "));
  EXPECT_THAT(outcome.output, HasSubstr(", validation 3 conversations with "));
  EXPECT_THAT(outcome.output, HasSubstr("on assistant"));
  EXPECT_THAT(outcome.output, ContainsRegex("packed, [0-9.]+ % unused"));
  const RunLog log = log_of("run");
  ASSERT_GE(log.evaluations.size(), 3U);
  EXPECT_GT(log.evaluations.front().validation_loss.value(), 3);
  EXPECT_LT(log.evaluations.back().validation_loss.value(), 0.7);
  EXPECT_TRUE(std::filesystem::exists(path("run/best")));

  const Outcome talk = run(trireme_command({"sample", "--threads", "1", "--model", path("run"), "--chat", "--greedy",
                                            "--max-new-tokens", "8", "--jsonl", "--prompt", "dog"}));
  EXPECT_THAT(talk.output, HasSubstr("the ")) << talk.output;
  const Outcome exported = run(trireme_command({"export", "--model", path("run"), "--output", path("exported")}));
  ASSERT_EQ(exported.code, 0) << exported.output;
  EXPECT_EQ(read_text(path("exported/chat_template.jinja")), kChatTemplate);
  EXPECT_EQ(read_text(path("exported/tokenizer.json")), read_text(path("model/tokenizer.json")));
  const Outcome page = run(trireme_command({"report", path("run")}));
  EXPECT_EQ(page.code, 0) << page.output;
}

TEST_F(Sft, EndsWithTheTimeOfAStepBesideItsPlan) {
  // Longer than the two seconds from which on steps are judged, on a fast machine, too.
  EXPECT_THAT(done("long", {"--epochs", "500", "--evaluation.every", "0"}).output,
              ContainsRegex("step of [0-9]+ tokens on average: [0-9.]+ s planned with the rates of this machine "
                            "\\(.*\\), [0-9.]+ s measured \\([+-][0-9.]+ %\\)"));
}

TEST_F(Sft, AdaptersLearnToAnswerAndTheRunTalksWithThem) {
  const Outcome outcome =
      done("run", {"--epochs", "12", "--lora-rank", "8", "--lora.targets", "all-linear", "--learning-rate", "2e-2"});
  EXPECT_THAT(outcome.output, HasSubstr("mlp.c_proj in 0-1: rank 8, scale 2"));
  const RunLog log = log_of("run");
  // Embedding and head are random and frozen.
  EXPECT_LT(log.evaluations.back().validation_loss.value(), log.evaluations.front().validation_loss.value() - 0.4);
  const auto answer = [&](const std::string& model, const std::vector<std::string>& flags) {
    std::vector<std::string> all{"sample",   "--threads",        "1", "--model", path(model), "--chat",
                                 "--greedy", "--max-new-tokens", "8", "--jsonl", "--prompt",  "dog"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome talk = run(trireme_command(all));
    EXPECT_EQ(talk.code, 0) << talk.output;
    const size_t at = talk.output.find("{\"context\"");
    if (at == std::string::npos) return talk.output;
    return Json::parse(talk.output.substr(at, talk.output.find('\n', at) - at)).at("text").get<std::string>();
  };
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--output", path("adapter")}, {"--merge", "--output", path("merged")}}) {
    std::vector<std::string> all{"export", "--model", path("run")};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome exported = run(trireme_command(all));
    ASSERT_EQ(exported.code, 0) << exported.output;
  }
  const std::string own = answer("run", {});
  EXPECT_NE(answer("model", {}), own);
  EXPECT_EQ(answer("merged", {}), own);
  EXPECT_EQ(answer("model", {"--adapter", path("adapter")}), own);
  const Outcome again = done("next", {"--adapter", path("adapter"), "--run.steps", "2"});
  EXPECT_THAT(again.output, HasSubstr("starting from the adapter " + path("adapter")));
  EXPECT_LT(losses("next").at(1), losses("run").at(1) - 0.4);
  // With magnitudes, which sampling merges.
  done("dora", {"--epochs", "4", "--lora-rank", "8", "--lora.targets", "all-linear", "--learning-rate", "2e-2",
                "--lora.dora", "true"});
  const Outcome exported =
      run(trireme_command({"export", "--model", path("dora"), "--merge", "--output", path("dora-merged")}));
  ASSERT_EQ(exported.code, 0) << exported.output;
  EXPECT_EQ(answer("dora", {}), answer("dora-merged", {}));
  EXPECT_NE(answer("dora", {}), answer("model", {}));
}

TEST_F(Sft, TrainsAllTurnsOfAPublishedTemplateAndExportsItUnchanged) {
  write_text(path("model/chat_template.jinja"), chat::kPhi3);
  write_text(path("data.jsonl"),
             R"({"messages": [{"role": "user", "content": "cat"}, {"role": "assistant", "content": "mat"},
             {"role": "user", "content": "dog"}, {"role": "assistant", "content": "hat"}]})"
             "\n");
  std::string text = read_text(path("data.jsonl"));
  std::erase(text, '\n');
  write_text(path("data.jsonl"), text + "\n" + text + "\n");
  const Outcome outcome = done("run", {"--run.steps", "2", "--sequence", "64", "--validation-share", "0"});
  EXPECT_THAT(outcome.output, HasSubstr("model/chat_template.jinja is the published template of Phi-3: "));
  const Outcome exported = run(trireme_command({"export", "--model", path("run"), "--output", path("exported")}));
  ASSERT_EQ(exported.code, 0) << exported.output;
  EXPECT_EQ(read_text(path("exported/chat_template.jinja")), chat::kPhi3);
}

TEST_F(Sft, TheTokenThatEndsATrainedTurnEndsTextsEverywhere) {
  // The token is declared beside the tokenizer alone, and nothing calls it an end.
  Json config = read_json(path("model/tokenizer_config.json"));
  config["additional_special_tokens"] = {"<turn>"};
  write_text(path("model/tokenizer_config.json"), dump_json(config));
  std::string chat = kChatTemplate;
  chat.replace(chat.find("</s>"), 4, "<turn>");
  write_text(path("model/chat_template.jinja"), chat);
  const auto does = [&](std::vector<std::string> words) {
    const Outcome outcome = run(trireme_command(std::move(words)));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome.output;
  };
  const auto ends = [&](const std::string& folder) {
    return read_json(path(folder + "/generation_config.json")).at("eos_token_id");
  };
  EXPECT_THAT(done("run", {"--epochs", "1"}).output,
              HasSubstr("texts of this model will also end at <turn> (265), which ends the turns that are trained on"));
  does({"export", "--model", path("run/best"), "--output", path("exported")});
  EXPECT_EQ(ends("model"), Json(0));
  EXPECT_EQ(ends("exported"), Json({265, 0}));
  EXPECT_THAT(read_text(path("exported/tokenizer.json")), HasSubstr("<turn>"));
  for (const char* name : {"run", "run/latest", "run/best", "exported"})
    EXPECT_THAT(does({"tokenizer", "chat", "--tokenizer", path(name), path("data.jsonl")}),
                HasSubstr("     265 * \"<turn>\"\n"))
        << name;
  EXPECT_THAT(done("again", {"--model", path("exported"), "--run.steps", "1"}).output,
              testing::Not(HasSubstr("will also end")));

  done("lora", {"--epochs", "1", "--lora-rank", "2"});
  does({"export", "--model", path("lora"), "--output", path("adapter")});
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    EXPECT_TRUE(std::filesystem::exists(path("adapter/") + name)) << name;
  EXPECT_EQ(ends("adapter"), Json({265, 0}));
  does({"export", "--model", path("model"), "--adapter", path("adapter"), "--merge", "--output", path("merged")});
  EXPECT_EQ(ends("merged"), Json({265, 0}));
  EXPECT_EQ(read_text(path("merged/chat_template.jinja")), chat);
}

TEST_F(Sft, TrainsOnSeveralFilesAndFolders) {
  std::filesystem::create_directory(path("more"));
  write_text(path("more/a.jsonl"), rows(8));
  const Outcome outcome = done("run", {"--data", path("data.jsonl") + "=20", "--data", path("more"), "--epochs", "1",
                                       "--validation-share", "0", "--chat.packing", "false"});
  EXPECT_THAT(outcome.output, HasSubstr("data.jsonl: an epoch has 20 conversations of 60"));
  EXPECT_THAT(outcome.output, HasSubstr("more: 28 conversations with "));
  EXPECT_EQ(log_of("run").steps.back().step, 7);
  expect_refused(2, "expected FILE, FILE=N for N of its rows", {"--data", path("data.jsonl") + "=x"});
}

TEST_F(Sft, ShowsWhatATunerLooksAt) {
  const Outcome outcome = done("run", {"--epochs", "2", "--chat.packing", "false", "--log.every", "5"});
  EXPECT_THAT(outcome.output, ContainsRegex("step +15/30 \\| epoch  1.00 \\| loss +[0-9.]+ \\| mean +[0-9.]+ \\| lr"));
  const RunLog log = log_of("run");
  EXPECT_NEAR(log.steps.at(3).epoch.value(), 1.0, 0.06);
  EXPECT_NE(log.steps.at(1).interval_loss, log.steps.at(1).loss);
  const std::string best = path("run") + "/best";
  EXPECT_THAT(outcome.output, ContainsRegex("best snapshot: .*run/step-00000030, validation loss [0-9.]+"));
  EXPECT_THAT(outcome.output, HasSubstr("trireme sample --model " + best + " --chat --interactive\n"));
  EXPECT_THAT(outcome.output, HasSubstr("trireme export --model " + best + " --output " + path("run") + "-model\n"));
}

TEST_F(Sft, EndsEarlyWhereTheValidationLossNoLongerFalls) {
  const std::vector<std::string> flags = {
      "--epochs",        "50", "--evaluation.every", "2", "--evaluation.patience", "3",
      "--learning-rate", "5",  "--optim.clip",       "0", "--optim.warmup-steps",  "0"};
  const Outcome outcome = done("run", flags);
  EXPECT_THAT(outcome.output,
              HasSubstr("training ends early: the validation loss has not been lower in 3 evaluations in a row"));
  const int64_t last = log_of("run").steps.back().step;
  EXPECT_LT(last, 100);
  EXPECT_THAT(done("run", flags).output, HasSubstr("training ends early"));  // and so does its resume
  EXPECT_EQ(log_of("run").steps.back().step, last);
  expect_refused(2, "evaluation.patience (flag --evaluation.patience) is set, but there is no validation data",
                 {"--evaluation.patience", "2", "--validation-share", "0"});
}

TEST_F(Sft, TakesTheArgumentsOfTrl) {
  const Outcome outcome = run(trireme_command({"sft",
                                               "--model_name_or_path",
                                               path("model"),
                                               "--dataset_name",
                                               path("data.jsonl"),
                                               "--output_dir",
                                               path("trl"),
                                               "--max_length",
                                               "48",
                                               "--per_device_train_batch_size",
                                               "4",
                                               "--max_steps",
                                               "3",
                                               "--warmup_ratio",
                                               "0.1",
                                               "--lr_scheduler_type",
                                               "cosine",
                                               "--assistant_only_loss",
                                               "True",
                                               "--report_to",
                                               "none",
                                               "--logging_steps",
                                               "1",
                                               "--launch.threads",
                                               "1",
                                               "--log.peak-tflops",
                                               "1"}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("1 key of trl-sft has no effect here (--verbose shows why): report_to"));
  EXPECT_EQ(log_of("trl").steps.size(), 3U);
  EXPECT_THAT(outcome.output, HasSubstr("4 rows per step: 1 rank x 1 micro-batch of 4"));
  EXPECT_THAT(outcome.output, HasSubstr("on assistant"));
}

TEST_F(Sft, AnEosTokenOfTheUsersEndsTextsAndIsWhatTemplatesWrite) {
  Json config = read_json(path("model/tokenizer_config.json"));
  config["additional_special_tokens"] = {"<turn>"};
  write_text(path("model/tokenizer_config.json"), dump_json(config));
  std::string chat = kChatTemplate;
  chat.replace(chat.find("'</s>\\n'"), 9, "eos_token");
  write_text(path("model/chat_template.jinja"), chat);
  done("run", {"--epochs", "1", "--eos-token", "<turn>"});
  const Outcome exported = run(trireme_command({"export", "--model", path("run"), "--output", path("exported")}));
  ASSERT_EQ(exported.code, 0) << exported.output;
  EXPECT_EQ(read_json(path("exported/generation_config.json")).at("eos_token_id"), Json({265, 0}));
  EXPECT_EQ(read_json(path("exported/tokenizer_config.json")).at("eos_token"), Json("<turn>"));
  EXPECT_THAT(run(trireme_command({"tokenizer", "chat", "--tokenizer", path("run"), path("data.jsonl")})).output,
              HasSubstr("     265 * \"<turn>\"\n"));
  expect_refused(2, "--eos-token is \"<none>\", but ", {"--eos-token", "<none>"});
}

TEST_F(Sft, ResumesWithTheSameBits) {
  const std::vector<std::string> flags = {"--epochs",          "2",    "--checkpoint.every", "3",
                                          "--checkpoint.keep", "0",    "--model.dropout",    "0.1",
                                          "--checkpoint.best", "false"};
  done("never", flags);
  const std::vector<float> want = weights("never");
  // What a kill after the snapshot of step 3 leaves.
  std::filesystem::copy(path("never"), path("killed"), std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::directory_iterator(path("killed"))) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-") && name != "step-00000003") std::filesystem::remove_all(entry.path());
  }
  const Outcome resumed = done("killed", flags);
  EXPECT_THAT(resumed.output, HasSubstr("step-00000003: 3 steps and 12 samples are done"));
  EXPECT_THAT(resumed.output,
              ContainsRegex("read 60 conversations of .*data.jsonl from .*/killed/conversations/.*ids"));
  EXPECT_EQ(weights("killed"), want);
}

TEST_F(Sft, IsResumedByTheSameCommandWhenItIsKilled) {
  const std::vector<std::string> flags = {"--epochs", "60", "--checkpoint.every", "2", "--checkpoint.best", "false"};
  Program program(trireme_command(words("killed", flags)));
  ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("snapshot of step 4 ") != out.npos; }))
      << program.output();
  kill(program.pid(), SIGKILL);
  EXPECT_EQ(program.finish().code, 128 + SIGKILL);
  const int64_t step = open_checkpoint(path("killed")).facts.progress.step;
  ASSERT_GE(step, 4);
  // Some more steps, of the same schedule.
  const std::string end = std::to_string(step + 3), decay = std::to_string(60 * 15);
  const std::vector<std::string> rest = {"--run.steps",          end, "--optim.decay-steps", decay,
                                         "--optim.warmup-steps", "27"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--checkpoint.every", "2", "--checkpoint.best", "false"});
    return more;
  };
  const Outcome resumed = done("killed", with(rest));
  EXPECT_THAT(resumed.output, HasSubstr(fmt::format("{} steps and ", step)));
  done("whole", with(rest));
  EXPECT_EQ(weights("killed"), weights("whole"));
}

TEST_F(Sft, ResumesOnAnotherLayout) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const auto to = [&](const std::string& name, int ranks, const char* steps, std::vector<std::string> layout) {
    layout.insert(layout.end(), {"--run.steps", steps, "--optim.schedule", "constant", "--optim.warmup-steps", "0",
                                 "--optim.epsilon", "1e-3"});
    done(name, layout, ranks);
  };
  to("one", 1, "9", {});
  to("changes", 2, "3", {});
  to("changes", 1, "5", {});
  to("changes", 2, "9", {"--mesh.tensor", "2"});
  const auto want = losses("one"), got = losses("changes");
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [step, loss] : want) EXPECT_NEAR(got.at(step), loss, 1e-4 * loss) << "step " << step;
}

TEST_F(Sft, TakesADataSetOfTheHubByItsName) {
  const std::string revision(40, 'a'), set = path("hub/hub/datasets--some--chats");
  std::filesystem::create_directories(set + "/snapshots/" + revision);
  std::filesystem::create_directories(set + "/refs");
  write_text(set + "/refs/main", revision);
  write_text(set + "/snapshots/" + revision + "/train.jsonl", rows(20));
  const std::vector<std::string> offline = {"HF_HUB_OFFLINE=1", "HF_HOME=" + path("hub")};
  const auto of = [&](const std::string& name) {
    return run(trireme_command(words("run", {"--data", name, "--run.steps", "1"})), offline);
  };
  const Outcome outcome = of("some/chats");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("tokenised 20 conversations of some/chats on 1 rank in"));
  EXPECT_THAT(
      of("some/others").output,
      HasSubstr("--data some/others does not exist; HF_HUB_OFFLINE is set, so the Hugging Face hub is not used"));
}

TEST_F(Sft, RefusesToResumeWithOtherConversations) {
  done("run", {"--run.steps", "1"});
  write_text(path("data.jsonl"), rows(61));
  const Outcome other = run(trireme_command(words("run", {"--run.steps", "2"})));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, ContainsRegex("data file 1 .*--checkpoint.allow-other-data"));
  write_text(path("data.jsonl"), rows(60));
  const Outcome options = run(trireme_command(words("run", {"--run.steps", "2", "--loss-on", "all"})));
  EXPECT_EQ(options.code, 2);
  EXPECT_THAT(options.output, ContainsRegex("--loss-on .*assistant .*all .*--checkpoint.allow-other-data"));
  EXPECT_THAT(options.output, Not(HasSubstr("XXH3")));
}

TEST_F(Sft, SaysWhatIsWorthALineAboutItsConversations) {
  write_text(path("data.jsonl"), rows(20) +
                                     R"({"messages": [{"role": "user", "content": "cat"}, {"role": "assistant", )"
                                     R"("content": "the cat", "weight": 0.5}]})" +
                                     "\n" + R"({"messages": []})" + "\n");
  write_text(path("noend.jinja"),
             "{% for m in messages %}{{ m.role ~ ': ' ~ m.content ~ '\n' }}{% endfor %}"
             "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}");
  const Outcome outcome = done("run", {"--run.steps", "1", "--skip-bad-rows", "--chat-template", path("noend.jinja")});
  EXPECT_THAT(outcome.output, HasSubstr("2 skipped of 22 rows: 1 x "));
  EXPECT_THAT(outcome.output, HasSubstr("1 x no turn of the assistant"));
  EXPECT_THAT(outcome.output, HasSubstr("left-out.txt lists them"));
  EXPECT_THAT(read_text(path("run/left-out.txt")), HasSubstr("data.jsonl row 22: no turn of the assistant\n"));
  EXPECT_THAT(outcome.output, HasSubstr("20 of 20 conversations: no special token ends what the assistant says"));
}

TEST_F(Sft, NamesATokenThatTheModelHasNoRowFor) {
  Json tokenizer = Json::parse(read_text(path("model/tokenizer.json")));
  tokenizer["added_tokens"].push_back({{"id", 5000},
                                       {"content", "<late>"},
                                       {"single_word", false},
                                       {"lstrip", false},
                                       {"rstrip", false},
                                       {"normalized", false},
                                       {"special", true}});
  write_text(path("model/tokenizer.json"), tokenizer.dump());
  write_text(path("data.jsonl"), R"({"prompt": "cat", "completion": "the <late>"})");
  expect_refused(1, "the tokenizer writes id 5000 (\"<late>\"), but the embedding of " + path("model"));
}

TEST_F(Sft, EveryLayoutOfRanksHasTheSameLosses) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  done("one", {"--epochs", "1", "--optim.epsilon", "1e-3"});
  const auto want = losses("one");
  ASSERT_GE(want.size(), 3U);
  const std::pair<int, std::vector<std::string>> cases[] = {
      {2, {}},
      {2, {"--mesh.tensor", "2"}},
      {2, {"--mesh.pipeline", "2"}},
      {4, {"--mesh.tensor", "2", "--optim.shard", "optimizer"}},
      {2, {"--optim.shard", "parameters"}},
  };
  int number = 0;
  for (const auto& [ranks, layout] : cases) {
    const std::string name = fmt::format("layout-{}", ++number);
    std::vector<std::string> flags = layout;
    flags.insert(flags.end(), {"--epochs", "1", "--optim.epsilon", "1e-3"});
    const Outcome outcome = done(name, flags, ranks);
    EXPECT_THAT(outcome.output, HasSubstr(fmt::format("on {} ranks in", ranks)));
    const auto got = losses(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    for (const auto& [step, loss] : want) EXPECT_NEAR(got.at(step), loss, 1e-4 * loss) << name << ", step " << step;
    EXPECT_NEAR(log_of(name).evaluations.back().validation_loss.value(),
                log_of("one").evaluations.back().validation_loss.value(), 1e-3)
        << name;
  }
}

TEST_F(Sft, CountsBadRowsOrEndsAtTheFirst) {
  write_text(path("data.jsonl"), rows(8) + R"({"messages": [{"role": "user", "content": "d"}]})" + "\n");
  expect_refused(1,
                 path("data.jsonl") + " row 9: no turn of the assistant; --skip-bad-rows skips and counts such rows");
  const Outcome counted = done("run", {"--skip-bad-rows", "--run.steps", "1"});
  EXPECT_THAT(counted.output, HasSubstr("data.jsonl: 1 skipped of 9 rows; for example " + path("data.jsonl") +
                                        " row 9: no turn of the assistant"));
  write_text(path("data.jsonl"), R"({"messages": [{"role": "user", "content": "d"}]})");
  expect_refused(
      1, "data.jsonl has no usable conversation: 1 bad row skipped; for example " + path("data.jsonl") + " row 1: ",
      {"--skip-bad-rows"});
}

TEST_F(Sft, SaysWhatIsCutAndLeftOut) {
  std::string text = rows(6);
  text +=
      R"({"prompt": "cat", "completion": "the cat and the dog and the mat and the hat and the cat and the dog and the mat"})";
  text += "\n" + fmt::format(R"({{"prompt": "{}", "completion": "cat"}})", std::string(60, 'x')) + "\n";
  write_text(path("data.jsonl"), text);
  const Outcome outcome = done("run", {"--run.steps", "1", "--validation-share", "0"});
  EXPECT_THAT(outcome.output, HasSubstr("training: 1 conversation of 8 cut to --sequence = 48"));
  EXPECT_THAT(outcome.output,
              HasSubstr("training: 1 conversation left out: none of the first 48 ids counts in the loss"));
  EXPECT_THAT(outcome.output, HasSubstr("no validation"));
  EXPECT_THAT(log_of("run").evaluations, testing::IsEmpty());
}

TEST_F(Sft, TakesATemplateOfTheUsersIntoTheModel) {
  const std::string own =
      "{% for m in messages %}[{{ m.role }}] {% generation %}{{ m.content }}</s>{% endgeneration %}{% endfor %}";
  write_text(path("own.jinja"), own);
  done("run", {"--chat-template", path("own.jinja"), "--run.steps", "2", "--loss-on", "last"});
  const Outcome exported = run(trireme_command({"export", "--model", path("run"), "--output", path("exported")}));
  ASSERT_EQ(exported.code, 0) << exported.output;
  EXPECT_EQ(read_text(path("exported/chat_template.jinja")), own);
}

TEST_F(Sft, ReadsAlpacaWithOtherNamesFromAFileOfOptions) {
  write_text(path("rows.csv"), "frage,output\ncat,the cat\ndog,the dog\nhat,the hat\n");
  write_text(path("options.yaml"), "chat: {columns: instruction=frage, packing: false}\nrun: {steps: 2}\n");
  std::vector<std::string> all =
      words("run", {path("options.yaml"), "--data", path("rows.csv"), "--validation", path("data.jsonl")});
  const Outcome outcome = run(trireme_command(all));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("3 conversations with "));
  EXPECT_THAT(outcome.output, HasSubstr(", validation 60 conversations with "));
  EXPECT_THAT(outcome.output, HasSubstr("one conversation each"));
}

TEST_F(Sft, RefusesWhatItCannotDo) {
  const auto refused = [&](const std::vector<std::string>& all, int code, const std::string& message) {
    const Outcome outcome = run(trireme_command(all));
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  };
  refused({"sft", "--data", path("data.jsonl")}, 2, "--model is missing: the folder of the model to train");
  refused({"sft", "--model", path("model")}, 2, "--data is missing: a file of conversations");
  expect_refused(1, "--data " + path("nosuch.jsonl") + " does not exist", {"--data", path("nosuch.jsonl")});
  expect_refused(2, "data.split (flag --data.split) has no effect when training on conversations; remove it",
                 {"--data.split", "9,1"});
  expect_refused(2, "both select the validation data; remove one of them",
                 {"--validation", path("data.jsonl"), "--validation-share", "0.1"});
  expect_refused(2, "--column a: expected NAME=VALUE", {"--column", "a"});
  expect_refused(2, "--column a=b: \"a\" is not a column; they are messages", {"--column", "a=b"});
  expect_refused(2, "chat.columns: \"x\" is not NAME=VALUE", {"--chat.columns", "x"});
  expect_refused(2, "chat.roles: \"a\" is given twice", {"--role", "a=user", "--role", "a=tool"});
  expect_refused(2, "--template-option n=2: \"n\" is given twice",
                 {"--template-option", "n=1", "--template-option", "n=2"});
  expect_refused(2, "chat.template-options is [1], expected a JSON object", {"--chat.template-options", "[1]"});
  expect_refused(2, "chat.date is \"soon\", expected a date like 2026-11-26", {"--chat.date", "soon"});
  expect_refused(2, "--sequence is 1, but a row has at least 2 ids; raise it", {"--sequence", "1"});
  expect_refused(2, "but there is no validation data", {"--evaluation.only", "--validation-share", "0"});
  expect_refused(1, " has no chat template \"nosuch\"; it has default", {"--chat-template", "nosuch"});
  refused({"train", "--chat.epochs", "2"}, 2,
          "chat.epochs (flag --chat.epochs) is an option of `trireme sft`, which trains on conversations");
  std::filesystem::remove(path("model/chat_template.jinja"));
  expect_refused(1, " has no chat template: neither chat_template.jinja nor \"chat_template\"");
  std::filesystem::remove(path("model/tokenizer.json"));
  expect_refused(2, " has no tokenizer.json, so conversations cannot become its ids");
}

TEST_F(Sft, ExplainsItself) {
  const Outcome outcome = run(trireme_command({"sft", "--help"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, StartsWith("usage: trireme sft --model MODEL --data DATA --output RUN"));
  EXPECT_THAT(outcome.output, HasSubstr("--loss-on WHO"));
  EXPECT_THAT(outcome.output, HasSubstr("--chat.validation-share"));
  EXPECT_LE(std::ranges::count(outcome.output, '\n'), 150);
}

}  // namespace
}  // namespace trireme
