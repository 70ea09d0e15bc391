// Models and data by name, as a user has them: `trireme fetch`, and names in place of folders, from a hub of the tests'
// own.

#include "tests/runs/glue_fixture.h"
#include "tests/support/fake_hub.h"
#include "tests/support/paths.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class ByName : public GlueFixture {
 protected:
  ByName() {
    add_folder("models/tiny/bert", path("model"));
    add_folder("datasets/nyu-mll/glue", source_dir() + "/tests/golden/parquet/glue");
    add_folder("models/tiny/gpt2", source_dir() + "/tests/golden/gpt2");
  }
  void add_folder(const std::string& repository, const std::string& folder) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().lexically_relative(folder).string();
      hub_.add(repository, name, read_text(entry.path().string()), !name.ends_with(".json") && !name.ends_with(".txt"));
    }
  }
  std::vector<std::string> environment(const std::string& home = "hf") const {
    return {"HF_HOME=" + path(home), "HF_ENDPOINT=" + hub_.hub().url(),
            "REQUESTS_CA_BUNDLE=" + HttpsServer::certificate(), "HF_HUB_OFFLINE=0", "HF_TOKEN=hf_secret"};
  }
  Outcome trireme(const std::vector<std::string>& arguments) const {
    return run(trireme_command(arguments), environment());
  }
  std::string snapshot(const std::string& folder) const {
    return fmt::format("{}/hub/{}/snapshots/{}", path("hf"), folder, FakeHub::kCommit);
  }
  FakeHub hub_;
};

TEST_F(ByName, FetchPrintsTheFolderAndTeaches) {
  const Outcome first = trireme({"fetch", "tiny/gpt2"});
  EXPECT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("fetching 2 files of tiny/gpt2 ("));
  EXPECT_THAT(first.output, HasSubstr(snapshot("models--tiny--gpt2") + "\n"));
  EXPECT_THAT(first.output, Not(HasSubstr("hf_secret")));
  EXPECT_EQ(read_text(snapshot("models--tiny--gpt2") + "/model.safetensors"),
            read_text(source_dir() + "/tests/golden/gpt2/model.safetensors"));
  const Outcome again = trireme({"fetch", "tiny/gpt2"});
  EXPECT_THAT(again.output, Not(HasSubstr("fetching")));
  const Outcome some = trireme({"fetch", "tiny/gpt2", "--include", "case.*"});
  EXPECT_EQ(some.code, 0) << some.output;
  EXPECT_TRUE(fs::exists(snapshot("models--tiny--gpt2") + "/case.safetensors"));
  EXPECT_THAT(trireme({"fetch", "glue/mrpc"}).output, HasSubstr("glue/mrpc is a data set: add --dataset"));
  EXPECT_EQ(trireme({"fetch", "glue/mrpc", "--dataset"}).code, 0);
  EXPECT_TRUE(fs::exists(snapshot("datasets--nyu-mll--glue") + "/mrpc/train-00001-of-00002.parquet"));
  EXPECT_FALSE(fs::exists(snapshot("datasets--nyu-mll--glue") + "/mnli"));
  const Outcome help = trireme({"fetch", "--help"});
  EXPECT_THAT(help.output, HasSubstr("trireme fetch glue/mrpc --dataset"));
  EXPECT_THAT(help.output, HasSubstr("HF_HUB_OFFLINE=1 uses no network"));
}

TEST_F(ByName, FetchRefusesImpossibleRequestsInOneLine) {
  trireme({"fetch", "tiny/gpt2"});
  const Outcome unknown = trireme({"fetch", "tiny/gpt3"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.output,
              HasSubstr("the nearest model in the cache is tiny/gpt2; run `trireme fetch tiny/gpt3` on"));
  const Outcome outside = trireme({"fetch", "../x"});
  EXPECT_EQ(outside.code, 2);
  EXPECT_THAT(outside.output, HasSubstr("\"../x\" is not a name on the Hugging Face hub"));
  const Outcome revision = trireme({"fetch", "tiny/gpt2", "--revision", "../x"});
  EXPECT_EQ(revision.code, 2);
  EXPECT_THAT(revision.output, HasSubstr("\"../x\" is not a revision"));
  const Outcome two = trireme({"fetch", "tiny/gpt2@main", "--revision", "main"});
  EXPECT_EQ(two.code, 2);
  EXPECT_THAT(two.output, HasSubstr("tiny/gpt2@main and --revision main both name a revision; remove one of them"));
  std::vector<std::string> offline = environment();
  offline.push_back("HF_HUB_OFFLINE=1");
  const Outcome nobody = run(trireme_command({"fetch", "tiny/gpt2"}), offline);
  EXPECT_EQ(nobody.code, 2);
  EXPECT_THAT(nobody.output, HasSubstr("HF_HUB_OFFLINE is set: nothing is fetched"));
}

TEST_F(ByName, AKilledFetchIsResumed) {
  const std::string weights(3'000'000, 'w');
  hub_.add("models/tiny/slow", "config.json", "{}");
  hub_.add("models/tiny/slow", "model.safetensors", weights, true);
  hub_.trick_elsewhere([&](const WebRequest& request) -> std::optional<WebReply> {
    if (!request.header("range").empty()) return std::nullopt;
    WebReply reply{200, {}, weights.substr(0, 1'000'000)};
    reply.length = weights.size();  // and then nothing for longer than the test waits
    reply.hold_seconds = 5;
    return reply;
  });
  const std::string incomplete =
      path("hf") + "/hub/models--tiny--slow/blobs/" + hub_hash(weights, true) + ".incomplete";
  {
    Program program(trireme_command({"fetch", "tiny/slow"}), environment());
    for (int i = 0; i < 400 && (!fs::exists(incomplete) || fs::file_size(incomplete) < 1'000'000); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(program.pid(), SIGKILL);
    EXPECT_EQ(program.finish().code, 128 + SIGKILL);
  }
  ASSERT_EQ(fs::file_size(incomplete), 1'000'000u);
  const Outcome again = trireme({"fetch", "tiny/slow"});
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("model.safetensors: resuming after 1.0 MB of 3.0 MB"));
  EXPECT_EQ(hub_.elsewhere().requests().back().header("range"), "bytes=1000000-");
  EXPECT_EQ(read_text(snapshot("models--tiny--slow") + "/model.safetensors"), weights);
}

TEST_F(ByName, TwoProcessesFetchTheSameFileOnlyOnce) {
  const std::string weights(3'000'000, 'w');
  hub_.add("models/tiny/slow", "config.json", "{}");
  hub_.add("models/tiny/slow", "model.safetensors", weights, true);
  hub_.trick_elsewhere([&](const WebRequest&) -> std::optional<WebReply> {
    WebReply reply{200, {}, weights};
    reply.stall_seconds = 2;  // so that the second one arrives meanwhile
    return reply;
  });
  Program first(trireme_command({"fetch", "tiny/slow"}), environment());
  ASSERT_TRUE(first.wait_for([](const std::string& out) { return out.find("fetching 2 files") != std::string::npos; }));
  Program second(trireme_command({"fetch", "tiny/slow"}), environment());
  const Outcome one = first.finish(), other = second.finish();
  EXPECT_EQ(one.code, 0) << one.output;
  EXPECT_EQ(other.code, 0) << other.output;
  EXPECT_THAT(other.output, HasSubstr("tiny/slow: waiting for another process on this host that fetches it"));
  EXPECT_THAT(other.output, Not(HasSubstr("fetching")));
  for (const Outcome* outcome : {&one, &other})
    EXPECT_THAT(outcome->output, HasSubstr(snapshot("models--tiny--slow") + "\n"));
  EXPECT_EQ(read_text(snapshot("models--tiny--slow") + "/model.safetensors"), weights);
  EXPECT_EQ(hub_.elsewhere().requests().size(), 1u) << "the weights came once";
}

TEST_F(ByName, ARevisionFollowsTheName) {
  const std::string name = std::string("tiny/gpt2@") + FakeHub::kCommit;
  const Outcome exported = trireme({"export", "--model", name, "--output", path("exported")});
  EXPECT_EQ(exported.code, 0) << exported.output;
  const Outcome fetched = trireme({"fetch", name});
  EXPECT_EQ(fetched.code, 0) << fetched.output;
  EXPECT_THAT(fetched.output, HasSubstr(snapshot("models--tiny--gpt2") + "\n"));
  const Outcome unknown = trireme({"export", "--model", "tiny/gpt2@step7", "--output", path("none")});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.output, HasSubstr("revision step7"));
}

TEST_F(ByName, ModelsAreExportedAndTrained) {
  const Outcome exported = trireme({"export", "--model", "tiny/gpt2", "--output", path("exported")});
  EXPECT_EQ(exported.code, 0) << exported.output;
  EXPECT_TRUE(fs::exists(path("exported/model.safetensors")));
  fs::create_directory(path("tokens"));
  std::string ids;
  for (int i = 0; i < 2000; ++i) ids += {static_cast<char>(i % 16), '\0'};
  for (const char* name : {"tokens/train.bin", "tokens/val.bin"}) write_text(path(name), ids);
  const Outcome trained =
      trireme({"train", "--model.init", "tiny/gpt2", "--data.dir", path("tokens"), "--run.dir", path("run"),
               "--run.steps", "1", "--batch.global", "2", "--evaluation.every", "0", "--launch.threads", "1"});
  EXPECT_EQ(trained.code, 0) << trained.output;
  EXPECT_THAT(trained.output, HasSubstr("starting from the weights of " + snapshot("models--tiny--gpt2")));
}

TEST_F(ByName, AFolderOfThatNameWins) {
  fs::create_directories(path("tiny"));
  fs::copy(source_dir() + "/tests/golden/gpt2", path("local"));
  const std::string command =
      fmt::format("cd '{}' && exec '{}' export --model local --output out", folder(), trireme_path());
  const Outcome outcome = run({"sh", "-c", command}, environment());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("local is the local folder of that name, not a model of the hub"));
  EXPECT_TRUE(hub_.hub().requests().empty());
}

TEST_F(ByName, GlueTakesModelAndRowsAndOneRankOfTheHostFetches) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const std::vector<std::string> words{"glue",      "--model_name_or_path", "tiny/bert", "--task_name",
                                       "mrpc",      "--output_dir",         path("out"), "--do_train",
                                       "--do_eval", "--num_train_epochs",   "1",         "--learning_rate",
                                       "2e-3",      "--launch.threads",     "1"};
  const Outcome outcome = run(mpirun_command(2, words), environment());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("has fetched tiny/bert, glue/mrpc"));
  EXPECT_THAT(outcome.output, HasSubstr("fetching 4 files of nyu-mll/glue ("));
  EXPECT_THAT(outcome.output, Not(HasSubstr("hf_secret")));
  EXPECT_TRUE(fs::exists(path("out/eval_results.json")));
  size_t weights = 0;
  for (const WebRequest& request : hub_.elsewhere().requests())
    weights +=
        request.path.find(hub_hash(read_text(path("model/model.safetensors")), true)) != std::string::npos ? 1 : 0;
  EXPECT_EQ(weights, 1u);
  std::vector<std::string> offline = environment("elsewhere");
  offline.push_back("HF_HUB_OFFLINE=1");
  std::vector<std::string> other = words;
  std::ranges::replace(other, path("out"), path("other"));
  const Outcome refused = run(mpirun_command(2, other), offline);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(
      refused.output,
      HasSubstr("no folder tiny/bert on this host; HF_HUB_OFFLINE is set, so the Hugging Face hub is not used; run"));
}

TEST_F(ByName, GlueTakesTheRevisionThatRunGluesFlagNames) {
  const auto glue = [&](const std::string& model, const std::string& revision, const std::string& tokenizer = "") {
    std::vector<std::string> words{"glue",
                                   "--model_name_or_path",
                                   model,
                                   "--model_revision",
                                   revision,
                                   "--task_name",
                                   "mrpc",
                                   "--data_dir",
                                   path("data"),
                                   "--output_dir",
                                   path("out"),
                                   "--do_eval",
                                   "--launch.threads",
                                   "1"};
    if (!tokenizer.empty()) words.insert(words.end(), {"--tokenizer_name", tokenizer});
    return trireme(words);
  };
  hub_.add("models/tiny/words", "vocab.txt", read_text(path("vocab.txt")));
  const auto asked_for = [&](const std::string& path) {
    return std::ranges::any_of(hub_.hub().requests(), [&](const WebRequest& r) { return r.path == path; });
  };
  const Outcome taken = glue("tiny/bert", FakeHub::kCommit, "tiny/words");
  EXPECT_EQ(taken.code, 0) << taken.output;
  for (const char* name : {"tiny/bert", "tiny/words"}) {
    EXPECT_TRUE(asked_for(fmt::format("/api/models/{}/revision/{}", name, FakeHub::kCommit))) << name;
    EXPECT_FALSE(asked_for(fmt::format("/api/models/{}/revision/main", name))) << name;
  }
  const Outcome unknown = glue("tiny/bert", "step7");
  EXPECT_EQ(unknown.code, 1) << unknown.output;
  EXPECT_THAT(unknown.output, HasSubstr("revision step7"));
  const Outcome twice = glue("tiny/bert@step8", "step7");
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.output,
              HasSubstr("tiny/bert@step8 and --model-revision step7 both name a revision; remove one of them"));
  const Outcome folder = glue(path("model"), "step7");
  EXPECT_EQ(folder.code, 2);
  EXPECT_THAT(folder.output, HasSubstr("--model-revision step7 is a revision on the Hugging Face hub, but "
                                       "--model-name-or-path " +
                                       path("model") + " is not a name on the hub; remove it"));
  EXPECT_EQ(glue(path("model"), "main").code, 0);
  const Outcome outside = glue("tiny/bert", "../x");
  EXPECT_EQ(outside.code, 2);
  EXPECT_THAT(outside.output, HasSubstr("\"../x\" is not a revision"));
}

TEST_F(ByName, BenchGlueTakesModelAndRows) {
  const Outcome outcome = trireme({"bench", "glue", "--model", "tiny/bert", "--batch", "2", "--max-seq-length", "16",
                                   "--steps", "1", "--threads", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("fetching 4 files of nyu-mll/glue ("));
  EXPECT_THAT(outcome.output, HasSubstr("mrpc f32, batch 2 per rank"));
  std::vector<std::string> offline = environment("elsewhere");
  offline.push_back("HF_HUB_OFFLINE=1");
  const Outcome refused = run(trireme_command({"bench", "glue", "--model", "tiny/bert", "--threads", "1"}), offline);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("no folder tiny/bert on this host; HF_HUB_OFFLINE is set"));
}

TEST_F(ByName, PrepareTakesDataAndTokenizer) {
  hub_.add("datasets/tiny/texts", "data/train-00000-of-00001.parquet",
           read_text(source_dir() + "/tests/golden/parquet/zstd-v1-dictionary.parquet"), true);
  hub_.add("models/tiny/words", "vocab.txt", read_text(path("vocab.txt")));
  const Outcome outcome = trireme({"prepare", "--input", "tiny/texts", "--tokenizer", "tiny/words", "--end-of-text",
                                   "[SEP]", "--output", path("tokens"), "--val-fraction", "0"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_GT(fs::file_size(path("tokens/train.bin")), 1000u);
}

}  // namespace
}  // namespace trireme
