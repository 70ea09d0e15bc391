#include "checkpoint/gguf/import.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/model_folder.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string golden(const std::string& name) { return (fs::path(source_dir()) / "tests/golden" / name).string(); }

/// A model with its weights.
struct Loaded {
  ModelFolder folder;
  ParameterTable table;
  TrainingState state;

  explicit Loaded(const std::string& path)
      : folder(open_model(path)), table(folder.spec), state(table, DType::f32, false) {
    load_model(folder, folder.spec, table, state);
  }
  std::vector<float> values(const Parameter& parameter) const {
    std::vector<float> all(static_cast<size_t>(parameter.stored_shape.count()));
    state.read_master(parameter, all);
    return all;
  }
};

std::string exported(const Loaded& model, const TemporaryFolder& folder, GgufFileType type) {
  const GgufExport options{.name = "m",
                           .types = {type},
                           .tokenizer_json = model.folder.tokenizer_json,
                           .generation = model.folder.generation,
                           .pre_tokenizer = {}};
  export_gguf(folder.path(), options, model.folder.spec, model.table, model.state);
  return folder / gguf_file_name("m", type);
}

void expect_near(const Loaded& again, const Loaded& model, float tolerance) {
  for (const Parameter& parameter : model.table.all()) {
    const std::vector<float> a = model.values(parameter), b = again.values(again.table.find(parameter.name));
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << parameter.name << " " << i;
  }
}

class RoundTrip : public testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, AModelIsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const Loaded model(golden(GetParam())), again(exported(model, folder, GgufFileType::f32));
  Spec expected = model.folder.spec;
  expected.embedding_dropout = expected.attention_dropout = expected.residual_dropout = 0;
  EXPECT_EQ(again.folder.spec, expected);
  // Gains that are stored complete are rounded once more.
  expect_near(again, model, expected.norm_offset != 0 ? 1e-6f : 0);
}

INSTANTIATE_TEST_SUITE_P(Families, RoundTrip,
                         testing::Values("gpt2", "llama", "llama-biases", "qwen2", "qwen3", "gemma", "olmo2", "olmo3",
                                         "granite", "phi3-partial", "neox-sequential"));

TEST(GgufImport, EveryTypeIsDecoded) {
  const TemporaryFolder folder;
  const Loaded model(golden("llama"));
  for (const auto& [name, type] : Names<GgufFileType>::kAll) {
    const Loaded again(exported(model, folder, type));
    expect_near(again, model, type == GgufFileType::bf16 ? 0.02f : 0.005f);  // f16, because its rows are short
  }
}

TEST(GgufImport, ATokenizerGivesTheSameIds) {
  for (const char* name : {"granite", "llama3", "olmo2", "phi4-mini", "qwen", "smollm", "tekken"}) {
    const std::string json = read_text(golden(std::string("tokenizers/") + name + ".json"));
    const auto before = tokenizer_from_json(json, name);
    const TemporaryFolder folder;
    GgufMetadata metadata;
    add_vocabulary(json, {}, static_cast<int64_t>(before->vocabulary_size()), {}, metadata);
    GgufWriter(folder / "t.gguf", metadata, {}).commit();
    const auto after = tokenizer_from_json(gguf_tokenizer(GgufFile(folder / "t.gguf").header()), name);
    std::ifstream cases(golden(std::string("tokenizers/") + name + ".cases.jsonl"));
    size_t count = 0;
    for (std::string line; std::getline(cases, line); ++count) {
      const auto text = parse_json(line, name).at("text").get<std::string>();
      EXPECT_EQ(after->encode(text).ids, before->encode(text).ids) << name << ": " << text;
    }
    EXPECT_GT(count, 10u) << name;
  }
}

/// A small file with everything that the reader looks at.
std::string small_file() {
  const TemporaryFolder folder;
  GgufMetadata metadata;
  metadata.add("general.architecture", "llama");
  metadata.add("a", std::span<const float>(std::vector<float>{1, 2}));
  GgufWriter writer(folder / "x.gguf", metadata, {{"w", {2, 32}, BlockType::q8_0}, {"b", {3}, BlockType::f32}});
  writer.write(0, std::vector<float>(64, 0.5f));
  writer.write(1, std::vector<float>{1, 2, 3});
  writer.commit();
  return read_text(folder / "x.gguf");
}

GgufHeader parsed(const std::string& file) { return parse_gguf(std::as_bytes(std::span(file)), "x.gguf"); }

TEST(GgufReader, ATruncatedFileIsAnErrorWhereverItEnds) {
  const std::string file = small_file();
  EXPECT_EQ(parsed(file).tensors.size(), 2u);
  for (size_t size = 0; size < file.size() - 20; ++size)  // the padding behind the last tensor is not needed
    EXPECT_ERROR(parsed(file.substr(0, size)), ErrorKind::data, "x.gguf: ");
}

TEST(GgufReader, WhatIsMalformedIsNamed) {
  const std::string file = small_file();
  const auto with = [&](const std::string& at, size_t offset, const std::string& bytes) {
    std::string changed = file;
    changed.replace(changed.find(at) + offset, bytes.size(), bytes);
    return changed;
  };
  const auto u32 = [](uint32_t v) { return std::string(reinterpret_cast<const char*>(&v), 4); };
  const auto u64 = [](uint64_t v) { return std::string(reinterpret_cast<const char*>(&v), 8); };
  const std::string tensor = u64(1) + "w";
  const std::pair<std::string, const char*> cases[] = {
      {"GGML" + file.substr(4), "not a GGUF file: it does not begin with GGUF"},
      {with("GGUF", 4, u32(1)), "GGUF version 1, expected 2 or 3"},
      {with("GGUF", 4, std::string("\0\0\0\3", 4)), "(a big-endian file), expected 2 or 3"},
      {with("GGUF", 8, u64(uint64_t{1} << 60)), "says that it has 1152921504606846976 tensors"},
      {with("GGUF", 16, u64(uint64_t{1} << 60)), "says that it has 1152921504606846976 keys"},
      {with("GGUF", 24, u64(uint64_t{1} << 40)), "a key needs 1099511627776 bytes"},
      {with("general.architecture", 20, u32(13)), "key general.architecture has the unknown type 13"},
      {with(u64(1) + "a", 9, u32(9) + u32(9)), "is an array of arrays"},
      {with(u64(1) + "a", 17, u64(uint64_t{1} << 61)), "says that it has 2305843009213693952 elements"},
      {with(tensor, 9, u32(5)), "tensor w has 5 dims, expected 1 to 4"},
      {with(tensor, 13, u64(0)), "tensor w: a size of its shape is 0"},
      {with(tensor, 13, u64(uint64_t{1} << 62) + u64(4)), "which is 0 or too large"},
      {with(tensor, 13, u64(33)), "tensor w: rows of 33 values are not whole blocks of 32"},
      {with(tensor, 29, u32(10)), "tensor w has the type number 10, which is not supported; supported: f32, f16"},
      {with(tensor, 33, u64(1)), "tensor w begins at 1, which 32 does not divide"},
      {with(tensor, 33, u64(1 << 20)), "truncated: tensor w begins at 1048576 and has 2 blocks of 34 bytes"},
      {with(u64(1) + "b", 25, u64(64)), "tensors w and b overlap"},
      {with(u64(1) + "b", 8, "w"), "tensor w appears twice"},
  };
  for (const auto& [changed, message] : cases) EXPECT_ERROR(parsed(changed), ErrorKind::data, message);
}

TEST(GgufImport, WhatIsNotSupportedIsNamed) {
  const TemporaryFolder folder;
  const auto refused = [&](const auto& fill, const char* message) {
    GgufMetadata metadata;
    fill(metadata);
    GgufWriter(folder / "x.gguf", metadata, {}).commit();
    EXPECT_ERROR(open_model(folder / "x.gguf"), ErrorKind::data, message);
  };
  refused([](GgufMetadata&) {}, "key general.architecture is missing");
  refused([](GgufMetadata& m) { m.add("general.architecture", "rwkv6"); },
          "the architecture rwkv6 is not supported; supported: gpt2, gptneox, llama");
  refused([](GgufMetadata& m) { m.add("general.architecture", uint32_t{3}); },
          "key general.architecture is not a text");
  refused([](GgufMetadata& m) { m.add("general.architecture", "llama"); }, "key llama.block_count is missing");
  refused(
      [](GgufMetadata& m) {
        m.add("general.architecture", "llama");
        m.add("llama.block_count", uint32_t{1000000000});
      },
      "block_count is 1000000000, but the file has only 0 tensors");
  const auto tokenizer = [&](const auto& fill, const char* message) {
    GgufMetadata metadata;
    fill(metadata);
    GgufWriter(folder / "t.gguf", metadata, {}).commit();
    EXPECT_ERROR(gguf_tokenizer(GgufFile(folder / "t.gguf").header()), ErrorKind::data, message);
  };
  tokenizer([](GgufMetadata& m) { m.add("tokenizer.ggml.model", "bert"); },
            "the tokenizer bert (tokenizer.ggml.model) is not supported; supported: gpt2 and llama");
  const std::vector<std::string> tokens{"a", "b"};
  tokenizer(
      [&](GgufMetadata& m) {
        m.add("tokenizer.ggml.model", "gpt2");
        m.add("tokenizer.ggml.pre", "x");
        m.add("tokenizer.ggml.tokens", std::span<const std::string>(tokens));
      },
      "the pre-tokenizer x (tokenizer.ggml.pre) is not known here");
  tokenizer(
      [&](GgufMetadata& m) {
        m.add("tokenizer.ggml.model", "llama");
        m.add("tokenizer.ggml.tokens", std::span<const std::string>(tokens));
        m.add("tokenizer.ggml.scores", std::span<const float>(std::vector<float>{1}));
      },
      "2 tokens, but 1 types or scores of tokens");
}

}  // namespace
}  // namespace trireme
