// Tokenizers as those of Llama, Qwen, Gemma and other decoders, small ones, against ids that Hugging Face tokenizers
// gave: tests/peers/decoder_tokenizers_test.py makes both.

#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "tests/support/paths.h"
#include "text/json_node.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

class DecoderTokenizers : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Families, DecoderTokenizers,
                         testing::Values("llama2", "llama5", "phi3", "gemma", "llama3", "tekken", "qwen", "smollm",
                                         "granite", "olmo2", "phi4-mini"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(DecoderTokenizers, GiveHuggingFacesIdsAndTexts) {
  const std::string path = source_dir() + "/tests/golden/tokenizers/" + GetParam();
  const auto tokenizer = load_tokenizer(path + ".json");
  std::istringstream lines(read_text(path + ".cases.jsonl"));
  size_t cases = 0;
  for (std::string line; std::getline(lines, line); ++cases) {
    const JsonNode row = parse_json_node(line, "cases.jsonl");
    const std::string& text = row.find("text")->text;
    std::vector<TokenId> ids;
    for (const JsonNode& id : row.find("ids")->items) ids.push_back(static_cast<TokenId>(id.integer));
    EXPECT_EQ(tokenizer->encode(text).ids, ids) << text;
    EXPECT_EQ(tokenizer->decode(ids, true), row.find("decoded")->text) << text;
  }
  EXPECT_EQ(cases, 60u);
}

TEST_P(DecoderTokenizers, AreWrittenAsTheyWereRead) {
  const std::string path = source_dir() + "/tests/golden/tokenizers/" + GetParam() + ".json";
  const auto tokenizer = load_tokenizer(path);
  EXPECT_EQ(tokenizer_from_json(tokenizer->json(), path)->hash(), tokenizer->hash());
}

}  // namespace
}  // namespace trireme
