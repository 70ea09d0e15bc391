#include "hub/place.h"

#include <gmock/gmock.h>

#include "tests/hub/hub_fixture.h"

namespace trireme::hub {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// The meaning of names, with the user's variables.
class Places : public WithHub {
 protected:
  Places() {
    setenv("HF_HOME", folder_.path().c_str(), 1);
    setenv("HF_ENDPOINT", hub_.hub().url().c_str(), 1);
    setenv("REQUESTS_CA_BUNDLE", HttpsServer::certificate().c_str(), 1);
    unsetenv("HF_HUB_OFFLINE");
    before_ = fs::current_path();
    fs::create_directory(folder_ / "here");
    fs::current_path(folder_ / "here");
    for (const char* split :
         {"train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001", "test-00000-of-00001"})
      hub_.add("datasets/nyu-mll/glue", fmt::format("mrpc/{}.parquet", split), split, true);
    for (const char* file :
         {"data/train-00000-of-00001.parquet", "data/validation-00000-of-00001.parquet", "README.md"})
      hub_.add("datasets/some/texts", file, file, true);
  }
  ~Places() override {
    fs::current_path(before_);
    setenv("HF_HUB_OFFLINE", "1", 1);
    for (const char* name : {"HF_HOME", "HF_ENDPOINT", "REQUESTS_CA_BUNDLE"}) unsetenv(name);
  }
  std::string snapshot(const std::string& folder) const {
    return fmt::format("{}/hub/{}/snapshots/{}", folder_.path(), folder, FakeHub::kCommit);
  }
  size_t requests() const { return hub_.hub().requests().size(); }

  fs::path before_;
};

TEST_F(Places, OfAModelAreTheFolderThenTheCacheThenTheHub) {
  EXPECT_EQ(place_of_model("gpt2").path, snapshot("models--gpt2"));
  const size_t asked = requests();
  EXPECT_GT(asked, 0u);
  EXPECT_EQ(place_of_model("gpt2").path, snapshot("models--gpt2"));
  EXPECT_EQ(place_of_model("models/gpt2").path, snapshot("models--gpt2"));  // the place of nanoGPT's init_from
  EXPECT_EQ(place_of_tokenizer("gpt2").path, snapshot("models--gpt2"));
  EXPECT_EQ(requests(), asked);
  fs::create_directory("gpt2");
  write_text("gpt2/config.json", "{}");
  testing::internal::CaptureStderr();
  EXPECT_EQ(place_of_model("gpt2").path, "gpt2");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("gpt2 is the local folder of that name, not a model of the hub"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(place_of_model("gpt2").path, "gpt2");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "said once";
  EXPECT_EQ(requests(), asked);
}

TEST_F(Places, LocalPathsAreNotHubNames) {
  for (const char* path : {"./gpt3", "/absent/gpt2", "../gpt2", "runs/a/b", "model.pt"}) {
    const Place place = place_of_model(path);
    EXPECT_EQ(place.path, path);
    EXPECT_EQ(place.why_not, "");
  }
  EXPECT_EQ(requests(), 0u);
}

TEST_F(Places, OfUnknownNamesSuggestTheNearestAndHowToCopyFilesByHand) {
  place_of_model("gpt2");
  const Place unknown = place_of_model("gpt3");
  EXPECT_EQ(
      unknown.why_not,
      fmt::format(
          "; the model gpt3 is missing on the hub, or users without a token (HF_TOKEN) cannot read it (401: Invalid "
          "username or password.); the nearest model in the cache is gpt2; run `trireme fetch gpt3` on a "
          "connected machine and copy its folder {0}/hub/models--gpt3 to this one",
          folder_.path()));
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_THAT(
      place_of_model("gpt2-xl").why_not,
      HasSubstr(
          "; HF_HUB_OFFLINE is set, so the Hugging Face hub is not used; the nearest model in the cache is gpt2;"));
  EXPECT_EQ(place_of_model("gpt2").path, snapshot("models--gpt2"));
}

TEST_F(Places, OfAPossiblyMistypedPathAreRequestedOnce) {
  setenv("HF_ENDPOINT", "https://127.0.0.1:1", 1);  // nobody listens
  for (const auto& place : {place_of_model("nosuch"), place_of_tokenizer("nosuch/x")}) {
    EXPECT_THAT(place.why_not, testing::StartsWith("; cannot fetch https://127.0.0.1:1/api/models/nosuch"));
    EXPECT_THAT(place.why_not, testing::Not(HasSubstr("attempts"))) << "a second one comes after a second";
  }
  EXPECT_EQ(settings_for_names().connect_seconds, 3);
  setenv("HF_HUB_ETAG_TIMEOUT", "20", 1);
  EXPECT_EQ(settings_for_names().connect_seconds, 20);
  unsetenv("HF_HUB_ETAG_TIMEOUT");
  EXPECT_EQ(settings_for_names().first_attempts, 1);
  EXPECT_EQ(read_settings().first_attempts, 2) << "what `trireme fetch` is asked for is meant";
}

TEST_F(Places, OfAModelWithoutItsTokenizerAreCompletedWhereTheHubCanBeAsked) {
  hub_.add("models/gpt2", "additional_chat_templates/rag.jinja", "{{ documents }}");
  place_of_model("gpt2");
  EXPECT_TRUE(fs::exists(snapshot("models--gpt2") + "/additional_chat_templates/rag.jinja"));
  fs::remove(snapshot("models--gpt2") + "/tokenizer.json");  // as after Python has loaded only the weights
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_EQ(place_of_model("gpt2").path, snapshot("models--gpt2"));
  EXPECT_FALSE(fs::exists(snapshot("models--gpt2") + "/tokenizer.json"));
  unsetenv("HF_HUB_OFFLINE");
  place_of_model("gpt2");
  EXPECT_TRUE(fs::exists(snapshot("models--gpt2") + "/tokenizer.json"));
}

TEST_F(Places, OfARevisionAreThoseOfItsCommit) {
  const std::string commit = FakeHub::kCommit;
  EXPECT_EQ(still_to_fetch({.model = "gpt2@" + commit, .tokenizer = "", .glue_task = ""}), Files{"gpt2@" + commit});
  EXPECT_EQ(place_of_model("gpt2@" + commit).path, snapshot("models--gpt2"));
  EXPECT_EQ(still_to_fetch({.model = "gpt2@" + commit, .tokenizer = "", .glue_task = ""}), Files{});
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_EQ(place_of_model("gpt2@" + commit).path, snapshot("models--gpt2"));
  EXPECT_EQ(place_of_tokenizer("gpt2@" + commit).path, snapshot("models--gpt2"));
  EXPECT_THAT(place_of_model("gpt2@step1000").why_not, HasSubstr("run `trireme fetch gpt2 --revision step1000` on"));
  unsetenv("HF_HUB_OFFLINE");
  EXPECT_THAT(place_of_model("gpt2@step1000").why_not, HasSubstr("revision step1000"));
  EXPECT_EQ(place_of_data("some/texts@" + commit + "/data/validation-*").files.size(), 1u);
  EXPECT_EQ(place_of_data("some/texts@" + commit).files.size(), 1u);
  EXPECT_THAT(place_of_data("some/texts@refs/convert/parquet/data/*").why_not,
              HasSubstr("revision refs/convert/parquet"));
}

TEST_F(Places, OfGlueAreTheFilesOfTheTask) {
  EXPECT_EQ(place_of_glue("mrpc").path, snapshot("datasets--nyu-mll--glue"));
  const size_t asked = requests();
  EXPECT_EQ(place_of_glue("mrpc").path, snapshot("datasets--nyu-mll--glue"));
  EXPECT_EQ(requests(), asked);
  EXPECT_EQ(still_to_fetch({.model = "", .tokenizer = "", .glue_task = "mrpc"}), Files{});
  fs::remove(snapshot("datasets--nyu-mll--glue") + "/mrpc/train-00001-of-00002.parquet");
  EXPECT_EQ(still_to_fetch({.model = "gpt2", .tokenizer = "", .glue_task = "mrpc"}), (Files{"gpt2", "glue/mrpc"}));
  EXPECT_THROW(place_of_glue("cola"), Error);
}

TEST_F(Places, OfDataAreItsFilesForTraining) {
  const std::string folder = snapshot("datasets--some--texts");
  testing::internal::CaptureStderr();
  EXPECT_EQ(place_of_data("some/texts").files, Files{folder + "/data/train-00000-of-00001.parquet"});
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("some/texts: using its 1 file for training, not validation; select others with some/texts/PATTERN"));
  EXPECT_EQ(place_of_data("some/texts/data/validation-*").files,
            Files{folder + "/data/validation-00000-of-00001.parquet"});
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_EQ(place_of_data("some/texts").files.size(), 1u);
  EXPECT_THAT(place_of_data("some/text").why_not,
              HasSubstr("the nearest data set in the cache is some/texts; run `trireme fetch some/text --dataset`"));
  unsetenv("HF_HUB_OFFLINE");
  hub_.add("datasets/some/more", "one/train.parquet", "1");
  hub_.add("datasets/some/more", "two/train.parquet", "2");
  EXPECT_ERROR(place_of_data("some/more"), ErrorKind::usage,
               "the data set some/more has 2 folders to choose from (one, two); name one: some/more/two/*");
  EXPECT_EQ(place_of_data("some/more/one/*").files.size(), 1u);
}

}  // namespace
}  // namespace trireme::hub
