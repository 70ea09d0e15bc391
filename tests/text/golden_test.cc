// Published and recorded ids of real tokenizers, id for id. The files are not part of the project: see
// tests/support/test_data.h.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/support/sha256.h"
#include "tests/support/test_data.h"
#include "text/json_node.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

std::string data_path(const std::string& relative) { return (test_data_dir() / relative).string(); }

std::vector<TokenId> plain_ids(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  tokenizer.encode_plain(text, ids);
  return ids;
}

std::vector<TokenId> ids_of(const JsonNode& list) {
  std::vector<TokenId> ids;
  for (const JsonNode& id : list.items) ids.push_back(static_cast<TokenId>(id.integer));
  return ids;
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t end; (end = text.find(separator, at)) != std::string::npos; at = end + separator.size())
    parts.push_back(text.substr(at, end - at));
  parts.push_back(text.substr(at));
  return parts;
}

struct Family {
  const char* column;  ///< name in the recorded files
  const char* path;
  bool decodes;  ///< decode(encode(text)) == text for every text
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.column << " from " << family.path; }

class Golden : public testing::TestWithParam<Family> {};

TEST_P(Golden, ReferenceCasesMatch) {
  TRIREME_NEEDS_TEST_DATA("golden/reference_cases.jsonl");
  const auto tokenizer = load_tokenizer(data_path(GetParam().path));
  size_t cases = 0;
  for (const std::string& line : split(read_text(data_path("golden/reference_cases.jsonl")), "\n")) {
    if (line.empty()) continue;
    const JsonNode row = parse_json_node(line, "reference_cases.jsonl");
    const JsonNode* expected = row.find(GetParam().column);
    if (!expected) continue;  // the references disagree
    const std::string& text = row.find("text")->text;
    const std::vector<TokenId> ids = plain_ids(*tokenizer, text);
    ASSERT_EQ(ids, ids_of(*expected)) << "text: " << text;
    if (GetParam().decodes) {
      ASSERT_EQ(tokenizer->decode(ids), text);
    }
    ++cases;
  }
  EXPECT_GT(cases, 900u);
}

TEST_P(Golden, WholeFilesMatch) {
  TRIREME_NEEDS_TEST_DATA("golden/whole_file_counts.json");
  const auto tokenizer = load_tokenizer(data_path(GetParam().path));
  const JsonNode files = parse_json_node(read_text(data_path("golden/whole_file_counts.json")), "whole_file_counts");
  size_t cases = 0;
  for (const auto& [name, columns] : files.members) {
    const JsonNode* expected = columns.find(GetParam().column);
    if (!expected) continue;
    const std::vector<TokenId> ids = plain_ids(*tokenizer, read_text(data_path(name)));
    EXPECT_EQ(static_cast<int64_t>(ids.size()), expected->find("count")->integer) << name;
    const std::string_view bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId));
    EXPECT_EQ(sha256_hex(bytes), expected->find("sha256_u32le")->text) << name;
    ++cases;
  }
  if (std::string(GetParam().column) != "opt") {
    EXPECT_GE(cases, 7u);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Golden,
                         testing::Values(Family{"gpt2", "gpt2", true},
                                         Family{"gpt2", "tokenizers/gpt2.tokenizer.json", true},
                                         Family{"opt", "opt", true}, Family{"neox", "neox/20B_tokenizer.json", false},
                                         Family{"bert_uncased", "bert/bert-base-uncased-vocab.txt", false},
                                         Family{"bert_cased", "bert/bert-base-cased-vocab.txt", false}));

TEST(GoldenGpt2, PublishedFrenchTextMatches) {
  TRIREME_NEEDS_TEST_DATA("golden/swift-transformers/gpt2_encoded_tokens.json");
  const JsonNode row = parse_json_node(read_text(data_path("golden/swift-transformers/gpt2_encoded_tokens.json")),
                                       "gpt2_encoded_tokens");
  const auto tokenizer = load_tokenizer(data_path("gpt2"));
  EXPECT_EQ(plain_ids(*tokenizer, row.find("text")->text), ids_of(*row.find("token_ids")));
}

struct Published {
  const char* file;
  const char* tokenizer;
};

void PrintTo(const Published& published, std::ostream* out) { *out << published.file; }

class GoldenPublished : public testing::TestWithParam<Published> {};

TEST_P(GoldenPublished, TokensAndIdsMatch) {
  const std::string file = std::string("golden/swift-transformers/") + GetParam().file;
  TRIREME_NEEDS_TEST_DATA(file);
  if (!*GetParam().tokenizer) GTEST_SKIP() << "the tokenizer of " << file << " is not among the test data";
  const JsonNode row = parse_json_node(read_text(data_path(file)), file);
  const auto tokenizer = load_tokenizer(data_path(GetParam().tokenizer));
  const std::vector<TokenId> plain = plain_ids(*tokenizer, row.find("text")->text);
  std::vector<std::string> tokens, expected;
  for (const TokenId id : plain) tokens.push_back(tokenizer->id_to_token(id));
  for (const JsonNode& token : row.find("bpe_tokens")->items) expected.push_back(token.text);
  EXPECT_EQ(tokens, expected);
  EXPECT_EQ(tokenizer->encode(row.find("text")->text).ids, ids_of(*row.find("token_ids")));
}

INSTANTIATE_TEST_SUITE_P(Swift, GoldenPublished,
                         testing::Values(Published{"bert_uncased_encoded.json", "bert/bert-base-uncased-vocab.txt"},
                                         Published{"llama_encoded.json", "tokenizers/llama2.tokenizer.json"},
                                         Published{"t5_base_encoded.json", "tokenizers/t5-small.tokenizer.json"},
                                         Published{"falcon_encoded.json", ""}));

TEST(GoldenT5, TiesInARunOfOneCharacterMatch) {
  TRIREME_NEEDS_TEST_DATA("tokenizers/t5-small.tokenizer.json");
  const auto tokenizer = load_tokenizer(data_path("tokenizers/t5-small.tokenizer.json"));
  // 40 dashes, recorded from Hugging Face tokenizers 0.23: the single dash is neither first nor last
  std::vector<TokenId> expected(15, 14817);
  expected[0] = 3;
  expected[3] = 18;
  EXPECT_EQ(plain_ids(*tokenizer, std::string(40, '-')), expected);
}

TEST(GoldenBert, MrpcPairsMatch) {
  TRIREME_NEEDS_TEST_DATA("golden/mrpc_pairs_bert_uncased.jsonl");
  const auto tokenizer = load_tokenizer(data_path("bert/bert-base-uncased-vocab.txt"));
  size_t cases = 0;
  for (const std::string& line : split(read_text(data_path("golden/mrpc_pairs_bert_uncased.jsonl")), "\n")) {
    if (line.empty()) continue;
    const JsonNode row = parse_json_node(line, "mrpc_pairs");
    EncodeOptions options;
    options.max_length = static_cast<size_t>(row.find("max_len")->integer);
    const Encoding encoding = tokenizer->encode_pair(row.find("a")->text, row.find("b")->text, options);
    EXPECT_EQ(encoding.ids, ids_of(*row.find("ids"))) << line;
    std::vector<TokenId> types(encoding.types.begin(), encoding.types.end());
    EXPECT_EQ(types, ids_of(*row.find("types"))) << line;
    ++cases;
  }
  EXPECT_GE(cases, 150u);
}

/// mt-dnn's tables: uid, label, then one or two texts.
void check_mt_dnn(const std::string& family, const std::string& task, const Tokenizer& tokenizer) {
  const auto rows = split(read_text(data_path("golden/mt-dnn/" + task + "_train.tsv")), "\n");
  const auto expected = split(read_text(data_path("golden/mt-dnn/" + family + "." + task + "_train.json")), "\n");
  size_t cases = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].empty()) continue;
    const JsonNode row = parse_json_node(expected[i], family + " " + task);
    const auto columns = split(rows.at(i).substr(0, rows[i].find_last_not_of(' ') + 1), "\t");  // it strips its lines
    ASSERT_EQ(columns.at(0), row.find("uid")->text);
    const Encoding encoding =
        columns.size() > 3 ? tokenizer.encode_pair(columns[2], columns[3]) : tokenizer.encode(columns.at(2));
    EXPECT_EQ(encoding.ids, ids_of(*row.find("token_id"))) << rows[i];
    std::vector<TokenId> types(encoding.types.begin(), encoding.types.end());
    types.resize(encoding.ids.size());
    EXPECT_EQ(types, ids_of(*row.find("type_id"))) << rows[i];
    ++cases;
  }
  EXPECT_GT(cases, 0u);
}

TEST(GoldenMtDnn, BertAndRobertaRowsMatch) {
  TRIREME_NEEDS_TEST_DATA("golden/mt-dnn/cola_train.tsv");
  const auto bert = load_tokenizer(data_path("bert/bert-base-uncased-vocab.txt"));
  const auto roberta = load_tokenizer(data_path("tokenizers/roberta-base.tokenizer.json"));
  for (const char* task : {"cola", "mnli", "stsb"}) {
    check_mt_dnn("bert_base_uncased_lower", task, *bert);
    check_mt_dnn("roberta_base_cased", task, *roberta);
  }
}

TEST(GoldenFiles, EveryTokenizerLoadsAndRoundTrips) {
  TRIREME_NEEDS_TEST_DATA("tokenizers");
  const std::string text = "Hello, world 42 times. It is fine";
  for (const auto& entry : std::filesystem::directory_iterator(data_path("tokenizers"))) {
    const std::string path = entry.path().string();
    SCOPED_TRACE(path);
    const auto tokenizer = load_tokenizer(path);
    EXPECT_GT(tokenizer->vocabulary_size(), 3u);
    const auto again = tokenizer_from_json(tokenizer->json(), path);
    EXPECT_EQ(again->hash(), tokenizer->hash());
    if (path.find("torchtitan") != std::string::npos || path.find("added-tokens") != std::string::npos) continue;
    const std::vector<TokenId> ids = plain_ids(*tokenizer, text);
    const std::string decoded = tokenizer->decode(ids);
    if (path.find("bert-base-uncased") == std::string::npos) {
      EXPECT_EQ(decoded, text);
    } else {
      EXPECT_EQ(decoded, "hello, world 42 times. it is fine");
    }
  }
}

/// llama.cpp's vectors: texts in NAME.inp, ids in NAME.out.
struct Vectors {
  const char* name;
  const char* tokenizer;  ///< empty: missing from the real test data
};

void PrintTo(const Vectors& vectors, std::ostream* out) { *out << vectors.name; }

class GoldenLlamaCpp : public testing::TestWithParam<Vectors> {};

TEST_P(GoldenLlamaCpp, IdsMatch) {
  const std::string file = std::string("golden/llama.cpp/ggml-vocab-") + GetParam().name + ".gguf";
  TRIREME_NEEDS_TEST_DATA(file + ".inp");
  if (!*GetParam().tokenizer) GTEST_SKIP() << "the tokenizer of " << file << " is not among the test data";
  const auto texts = split(read_text(data_path(file + ".inp")), "\n__ggml_vocab_test__\n");
  const auto lines = split(read_text(data_path(file + ".out")), "\n");
  const auto tokenizer = load_tokenizer(data_path(GetParam().tokenizer));
  ASSERT_GE(lines.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string ids;
    for (const TokenId id : plain_ids(*tokenizer, texts[i])) ids += " " + std::to_string(id);
    EXPECT_EQ(ids, lines[i]) << "text: " << texts[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Vectors, GoldenLlamaCpp,
                         testing::Values(Vectors{"gpt-2", "gpt2"},
                                         Vectors{"llama-spm", "tokenizers/llama2.tokenizer.json"},
                                         Vectors{"command-r", ""}, Vectors{"deepseek-coder", ""},
                                         Vectors{"deepseek-llm", ""}, Vectors{"llama-bpe", ""}, Vectors{"qwen2", ""},
                                         Vectors{"refact", ""}, Vectors{"starcoder", ""}));

}  // namespace
}  // namespace trireme
