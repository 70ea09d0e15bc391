#include "hub/name.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/expect_error.h"

namespace trireme::hub {
namespace {

TEST(HubName, IsDistinguishedFromLocalPaths) {
  for (const char* name : {"gpt2", "facebook/opt-125m", "models/gpt2", "EleutherAI/gpt-neox-20b"})
    EXPECT_TRUE(looks_like_name(name)) << name;
  for (const char* path :
       {"", "/tmp/model", "./gpt2", "runs/a/b", "tok/tokenizer.json", "vocab.txt", "a b", "../m", "x/", "a.parquet",
        "~/model", "nosuch/model.safetensors", "model.ckpt", "nosuch/run.yaml", "nosuch/x/", "/nosuch"})
    EXPECT_FALSE(looks_like_name(path)) << path;
  std::filesystem::create_directory("hub-test-runs");
  EXPECT_FALSE(looks_like_name("hub-test-runs/first"));  // an existing folder is meant
  std::filesystem::remove("hub-test-runs");
}

TEST(HubName, MayBeFollowedByARevision) {
  for (const char* name : {"gpt2@step1000", "EleutherAI/pythia-160m@refs/pr/1", "models/gpt2@main"}) {
    EXPECT_TRUE(looks_like_name(name)) << name;
    EXPECT_EQ(name_in(name).find('@'), std::string::npos) << name;
  }
  EXPECT_EQ(name_in("EleutherAI/pythia-160m@refs/pr/1"), "EleutherAI/pythia-160m");
  EXPECT_EQ(revision_in("EleutherAI/pythia-160m@refs/pr/1"), "refs/pr/1");
  EXPECT_EQ(revision_in("gpt2"), "main");
  for (const char* wrong : {"gpt2@", "gpt2@../x", "gpt2@a\\b"})
    EXPECT_ERROR(revision_in(wrong), ErrorKind::usage, "is not a revision");
}

TEST(HubName, OfOtherFormsIsRefusedBeforeItBecomesAPath) {
  for (const char* name : {"../x", "a/../b", "a/b/c", "a--b", "a..b", "-a", "a.", "", "/", "a\\b", "a b", ".locks"})
    EXPECT_ERROR(checked_repository(Kind::model, name), ErrorKind::usage, "is not a name on the Hugging Face hub");
  EXPECT_EQ(checked_repository(Kind::model, "EleutherAI/pythia-160m").folder(), "models--EleutherAI--pythia-160m");
  EXPECT_EQ(checked_repository(Kind::dataset, "nyu-mll/glue").folder(), "datasets--nyu-mll--glue");
  EXPECT_EQ(checked_repository(Kind::dataset, "nyu-mll/glue").path(), "datasets/nyu-mll/glue");
}

TEST(HubName, OfAFileStaysBelowItsFolder) {
  for (const char* path : {"config.json", "onnx/model.onnx", "a b/c+d.txt", "..a", "a..b"})
    EXPECT_TRUE(is_safe_path(path)) << path;
  for (const char* path : {"", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\\b", "a\nb"})
    EXPECT_FALSE(is_safe_path(path)) << path;
  EXPECT_FALSE(is_safe_path(std::string(300, 'a')));
  EXPECT_FALSE(is_safe_path(std::string_view("a\0b", 3)));
}

TEST(HubName, OfARevisionStaysBelowItsFolderToo) {
  require_revision("main");
  require_revision("refs/pr/1");
  EXPECT_ERROR(require_revision("../../x"), ErrorKind::usage, "\"../../x\" is not a revision");
  EXPECT_TRUE(is_commit("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("0123456789ABCDEF0123456789abcdef01234567"));
}

TEST(HubName, IsEncodedForUrls) {
  EXPECT_EQ(url_encoded("a b/c+d%.txt"), "a%20b/c%2Bd%25.txt");
  EXPECT_EQ(url_encoded("refs/pr/1", true), "refs%2Fpr%2F1");
}

}  // namespace
}  // namespace trireme::hub
