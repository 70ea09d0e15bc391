#include "base/hub.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace trireme {
namespace {

constexpr std::string_view kOne[] = {"tokenizer.json"};
constexpr std::string_view kTwo[] = {"config.json", "model.safetensors"};

TEST(Hub, NamesAreToldFromPathsOfOnesOwn) {
  for (const char* name : {"gpt2", "facebook/opt-125m", "models/gpt2", "EleutherAI/gpt-neox-20b"})
    EXPECT_TRUE(looks_like_hub_name(name)) << name;
  for (const char* path :
       {"", "/tmp/model", "./gpt2", "runs/a/b", "tok/tokenizer.json", "vocab.txt", "a b", "../m", "x/"})
    EXPECT_FALSE(looks_like_hub_name(path)) << path;
  std::filesystem::create_directory("hub-test-runs");
  EXPECT_FALSE(looks_like_hub_name("hub-test-runs/first"));  // a folder that is here is meant
  std::filesystem::remove("hub-test-runs");
}

TEST(Hub, TheLineToTypeFetchesIntoThePathThatWasGiven) {
  EXPECT_EQ(
      how_to_fetch("gpt2", kOne),
      "; nothing is downloaded: if gpt2 is a name of the Hugging Face hub, fetch it with `curl -fL --create-dirs -o "
      "gpt2/tokenizer.json https://huggingface.co/gpt2/resolve/main/tokenizer.json`");
  EXPECT_EQ(
      how_to_fetch("models/gpt2", kTwo),
      "; nothing is downloaded: if gpt2 is a name of the Hugging Face hub, fetch it with `for f in config.json "
      "model.safetensors; do curl -fL --create-dirs -o models/gpt2/$f https://huggingface.co/gpt2/resolve/main/$f; "
      "done`");
  EXPECT_EQ(how_to_fetch("/data/absent", kTwo), "; nothing is downloaded");
}

}  // namespace
}  // namespace trireme
