// Tokens that only the files beside a tokenizer declare. What is expected is what transformers 5.24 loads.

#include "text/files/declared_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using Files = std::vector<std::pair<std::string, std::string>>;
using Ids = std::vector<TokenId>;

/// Single characters, and what the test adds.
std::string tokenizer_json(const std::string& added = "") {
  return R"({"version": "1.0", "added_tokens": [)" + added +
         R"(], "normalizer": null, "pre_tokenizer": null, "decoder": null, "model": {"type": "BPE", "vocab":
         {"a": 0, "b": 1, "<": 2, ">": 3, "e": 4}, "merges": []}})";
}

class DeclaredTokens : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> load(const Files& files, const std::string& added = "") {
    const std::string path = folder_ / std::to_string(++made_);
    std::filesystem::create_directory(path);
    write_text(path + "/tokenizer.json", tokenizer_json(added));
    for (const auto& [name, text] : files) write_text(path + "/" + name, text);
    return load_tokenizer(path);
  }
  Ids ids(const Files& files, const std::string& text = "a<e>b") {
    Ids out;
    load(files)->encode_chat(text, out);
    return out;
  }
  TemporaryFolder folder_;
  int made_ = 0;
};

TEST_F(DeclaredTokens, AreTokensWhereverTheyAreDeclared) {
  const std::string config = "tokenizer_config.json", map = "special_tokens_map.json", token = R"({"content": "<e>"})";
  EXPECT_EQ(ids({}), (Ids{0, 2, 4, 3, 1}));
  for (const Files& files :
       std::vector<Files>{{{config, R"({"added_tokens_decoder": {"5": {"content": "<e>", "special": true}}})"}},
                          {{config, R"({"additional_special_tokens": ["<e>"]})"}},
                          {{config, R"({"extra_special_tokens": ["<e>"]})"}},
                          {{config, R"({"extra_special_tokens": {"end_token": "<e>"}})"}},
                          {{config, R"({"eos_token": "<e>"})"}},
                          {{config, R"({"pad_token": )" + token + "}"}},
                          {{config, R"({"image_token": "<e>"})"}},
                          {{map, R"({"additional_special_tokens": ["<e>"]})"}},
                          {{map, R"({"additional_special_tokens": [)" + token + "]}"}},
                          {{map, R"({"eos_token": "<e>"})"}},
                          {{map, R"({"eos_token": )" + token + "}"}},
                          {{config, R"({"eos_token": "a"})"}, {map, R"({"eos_token": "<e>"})"}},
                          {{"added_tokens.json", R"({"<e>": 5})"}}})
    EXPECT_EQ(ids(files), (Ids{0, 5, 1})) << files.front().first << ": " << files.front().second;
}

TEST_F(DeclaredTokens, AreThoseOfTheConfigurationAloneWhereItListsThem) {
  const std::string list = R"("added_tokens_decoder": {"5": {"content": "<e>", "special": true}})";
  EXPECT_EQ(ids({{"tokenizer_config.json", "{" + list + "}"}, {"added_tokens.json", R"({"ab": 6})"}}, "ab<e>"),
            (Ids{0, 1, 5}));
  EXPECT_EQ(ids({{"tokenizer_config.json", "{" + list + R"(, "bos_token": "ab"})"}}, "ab<e>"), (Ids{6, 5}));
}

TEST_F(DeclaredTokens, HaveTheIdOfTheVocabularyOrTheNextOne) {
  EXPECT_EQ(ids({{"added_tokens.json", R"({"<b>": 6, "<a>": 5})"}}, "<a><b>"), (Ids{5, 6}));
  EXPECT_EQ(ids({{"tokenizer_config.json", R"({"eos_token": "b"})"}}), (Ids{0, 2, 4, 3, 1}));
  EXPECT_EQ(load({{"tokenizer_config.json", R"({"eos_token": "b"})"}})->decode({{0, 1}}, true), "a");
  const LogLines log;
  EXPECT_EQ(ids({{"added_tokens.json", R"({"<e>": 9})"}}), (Ids{0, 5, 1}));
  EXPECT_THAT(log.text(), HasSubstr("added_tokens.json declares the id 9 for \"<e>\", but it gets 5, as in "
                                    "transformers"));
}

TEST_F(DeclaredTokens, HaveTheFlagsThatTheConfigurationLists) {
  const std::string added = R"({"id": 5, "content": "<e>", "special": false})";
  EXPECT_EQ(load({}, added)->decode({{0, 5}}, true), "a <e>");
  EXPECT_EQ(load({{"tokenizer_config.json", R"({"added_tokens_decoder": {"5": {"content": "<e>", "special": true}}})"}},
                 added)
                ->decode({{0, 5}}, true),
            "a");
  Ids stripped;
  load({{"tokenizer_config.json", R"({"added_tokens_decoder": {"5": {"content": "<e>", "lstrip": true}}})"}}, added)
      ->encode_chat("a  <e>", stripped);
  EXPECT_EQ(stripped, (Ids{0, 5}));
}

TEST_F(DeclaredTokens, StayInTheTextOfTheTokenizer) {
  const auto tokenizer = load({{"tokenizer_config.json", R"({"eos_token": "<e>"})"}});
  Ids out;
  tokenizer_from_json(tokenizer->json(), "again")->encode_chat("a<e>", out);
  EXPECT_EQ(out, (Ids{0, 5}));
  // A file that has them all keeps its bytes.
  const std::string added = R"({"id": 5, "content": "<e>", "special": true, "normalized": false})";
  EXPECT_EQ(load({{"tokenizer_config.json", R"({"eos_token": "<e>"})"}}, added)->json(), tokenizer_json(added));
}

TEST_F(DeclaredTokens, WithoutSenseAreNamed) {
  EXPECT_ERROR(load({{"tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "<e>"}}})"}}),
               ErrorKind::data, "tokenizer_config.json: added_tokens_decoder: \"x\" is not the id of a token");
  EXPECT_ERROR(load({{"tokenizer_config.json", R"({"eos_token": {"text": "<e>"}})"}}), ErrorKind::data,
               "tokenizer_config.json: eos_token");
  EXPECT_ERROR(load({{"added_tokens.json", R"({"<e>": "5"})"}}), ErrorKind::data,
               "added_tokens.json: the id of \"<e>\" is not a number");
}

TEST_F(DeclaredTokens, OfVocabulariesWithMergesAndOfQwenAreThoseOfTransformers) {
  const auto folder_with = [&](const Files& files) {
    const std::string path = folder_ / std::to_string(++made_);
    std::filesystem::create_directory(path);
    write_text(path + "/vocab.json", R"({"1": 0, "2": 1, "12": 2, "e": 3, "Ì": 4, "ģ": 5, "Ã": 6, "©": 7})");
    write_text(path + "/merges.txt", "#version: 0.2\n1 2\n");
    for (const auto& [name, text] : files) write_text(path + "/" + name, text);
    return path;
  };
  const auto ids_of = [](const std::string& folder, const std::string& text) {
    Ids out;
    load_tokenizer(folder)->encode_chat(text, out);
    return out;
  };
  const std::string end = R"("added_tokens_decoder": {"8": {"content": "<|im_end|>", "special": true}})";
  const std::string gpt2 = folder_with({{"tokenizer_config.json", "{" + end + "}"}}),
                    qwen = folder_with(
                        {{"tokenizer_config.json", R"({"tokenizer_class": "Qwen2TokenizerFast", )" + end + "}"}}),
                    by_model = folder_with(
                        {{"config.json", R"({"model_type": "qwen2"})"}, {"added_tokens.json", R"({"<|im_end|>": 8})"}});
  EXPECT_EQ(ids_of(gpt2, "12<|im_end|>"), (Ids{2, 8}));
  EXPECT_EQ(ids_of(gpt2, "e\u0301"), (Ids{3, 4, 5}));
  for (const std::string& folder : {qwen, by_model}) {
    EXPECT_EQ(ids_of(folder, "12<|im_end|>"), (Ids{0, 1, 8}));  // each digit is a piece
    EXPECT_EQ(ids_of(folder, "e\u0301"), (Ids{6, 7}));          // NFC
  }
  const LogLines log;
  (void)load_tokenizer(folder_with({{"tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})"}}));
  EXPECT_THAT(log.text(), HasSubstr("is read as GPT-2's, but tokenizer_config.json names CLIPTokenizer, which may"));
}

TEST(DeclaredTokensOfAModel, AreNotCutIntoPieces) {
  TRIREME_NEEDS_TEST_DATA("field4/tokenizers/decoder-only/tokenizer.json");
  const auto tokenizer = load_tokenizer((test_data_dir() / "field4/tokenizers/decoder-only").string());
  Ids out;
  tokenizer->encode_chat("<|im_start|><|im_end|>", out);
  EXPECT_EQ(out, (Ids{418, 419}));
}

}  // namespace
}  // namespace trireme
