#include "checkpoint/huggingface/generation_settings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using Ids = std::vector<TokenId>;

/// What a folder with these files keeps.
std::string kept(const Json& config, const Json& generation) {
  const TemporaryFolder folder;
  if (!generation.is_null()) write_text(folder / "generation_config.json", dump_json(generation));
  return read_generation_files(folder.path(), config);
}

TEST(GenerationSettings, NewEndsComeBeforeThoseOfTheFiles) {
  const auto ends = [](const std::string& files, const Ids& added) {
    const std::string made = with_end_tokens(files, added, TokenId{9});
    EXPECT_EQ(kept_config(made).at("eos_token_id"), parse_json(made, "made").at("config").at("eos_token_id"));
    return generation_settings(made, "made").end;
  };
  EXPECT_EQ(ends(kept({{"eos_token_id", 0}}, {{"eos_token_id", 0}}), {2}), (Ids{2, 0}));
  EXPECT_EQ(ends(kept({{"eos_token_id", 0}}, nullptr), {2}), (Ids{2, 0}));
  EXPECT_EQ(ends(kept(Json::object(), {{"eos_token_id", Json({0, 3})}}), {2, 3}), (Ids{2, 3, 0}));
  EXPECT_EQ(ends(kept({{"eos_token_id", 4}}, Json{{"temperature", 1.0}}), {2}), (Ids{2, 4}));
  // Where nothing is named, the tokenizer's end of a document still is one.
  EXPECT_EQ(ends("", {2}), (Ids{2, 9}));
  EXPECT_EQ(generation_settings(with_end_tokens("", Ids{2}, TokenId{9}), "made").begin, TokenId{9});
}

TEST(GenerationSettings, TheTypeOfTheWeightsIsKept) {
  EXPECT_EQ(kept_dtype(kept({{"model_type", "llama"}, {"torch_dtype", "bfloat16"}}, nullptr)), "bfloat16");
  EXPECT_EQ(kept_dtype(without_tokens(kept({{"model_type", "llama"}, {"dtype", "bfloat16"}}, nullptr))), "bfloat16");
  EXPECT_EQ(kept_dtype(kept({{"model_type", "llama"}}, nullptr)), "");
  EXPECT_EQ(kept_dtype(""), "");
}

TEST(GenerationSettings, FilesBesideAnyVocabularyAreKept) {
  for (const char* vocabulary : {"tokenizer.json", "vocab.txt", "vocab.json"}) {
    const TemporaryFolder folder;
    write_text(folder / vocabulary, "{}");
    write_text(folder / "merges.txt", "");
    write_text(folder / "tokenizer_config.json", R"({"eos_token": "<e>"})");
    write_text(folder / "chat_template.jinja", "hello");
    const auto files = kept_tokenizer_files(read_generation_files(folder.path(), Json::object()), "test");
    EXPECT_EQ(files.size(), 2U) << vocabulary;
    EXPECT_EQ(files.at("chat_template.jinja"), "hello") << vocabulary;
  }
}

}  // namespace
}  // namespace trireme
