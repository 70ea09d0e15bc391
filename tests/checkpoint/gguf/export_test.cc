#include "checkpoint/gguf/export.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/huggingface/huggingface.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string tokenizer(const std::string& pre_tokenizer, const std::string& model) {
  return R"({"added_tokens":[],"normalizer":null,"pre_tokenizer":)" + pre_tokenizer +
         R"(,"post_processor":null,"decoder":null,"model":{)" + model + "}}";
}

const std::string kBytes = R"("type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"])";

std::string bytes_of_vocabulary(const std::string& json, int64_t vocabulary, const std::string& pre = {}) {
  GgufMetadata metadata;
  add_vocabulary(json, {}, vocabulary, pre, metadata);
  return metadata.bytes();
}

TEST(GgufFile, HasTheBytesOfTheFormat) {
  const TemporaryFolder folder;
  GgufMetadata metadata;
  metadata.add("n", uint32_t{7});
  metadata.add("t", std::span<const std::string>(std::vector<std::string>{"x"}));
  GgufWriter writer(folder / "x.gguf", metadata, {{"w", {2, 3}, BlockType::f32}, {"b", {3}, BlockType::f16}});
  const float values[] = {1, 2, 3, 4, 5, 6};
  writer.write(1, std::span(values).first(3));
  writer.write(0, values);
  EXPECT_FALSE(fs::exists(folder / "x.gguf"));
  writer.commit();
  const auto u32 = [](uint32_t v) { return std::string(reinterpret_cast<const char*>(&v), 4); };
  const auto u64 = [](uint64_t v) { return std::string(reinterpret_cast<const char*>(&v), 8); };
  const auto text = [&](const std::string& t) { return u64(t.size()) + t; };
  std::string expected = "GGUF" + u32(3) + u64(2) + u64(2) + text("n") + u32(4) + u32(7) + text("t") + u32(9) + u32(8) +
                         u64(1) + text("x") + text("w") + u32(2) + u64(3) + u64(2) + u32(0) + u64(0) + text("b") +
                         u32(1) + u64(3) + u32(1) + u64(32);
  expected.resize((expected.size() + 31) / 32 * 32, '\0');
  expected.append(reinterpret_cast<const char*>(values), sizeof values);
  expected.append(8, '\0');
  const uint16_t halves[] = {0x3C00, 0x4000, 0x4200};
  expected.append(reinterpret_cast<const char*>(halves), sizeof halves);
  expected.append(32 - sizeof halves, '\0');
  EXPECT_EQ(read_text(folder / "x.gguf"), expected);
}

TEST(GgufFile, ADiskThatIsTooSmallIsRefused) {
  const TemporaryFolder folder;
  require_disk_space(folder.path(), 1);
  EXPECT_ERROR(require_disk_space(folder.path(), uint64_t{1} << 62), ErrorKind::io,
               "GB free, but the files take 4611686018.43 GB; nothing was written");
}

TEST(GgufFileType, TensorsHaveTheTypesOfLlamaCpp) {
  const auto type = [](GgufFileType file, const char* name, int64_t layer, int64_t row, bool head = false) {
    return tensor_type(file, {.name = name, .layer = layer, .layers = 16, .is_head = head}, row > 1 ? 2 : 1, row);
  };
  using enum GgufFileType;
  EXPECT_EQ(type(q4_k_m, "blk.0.attn_norm.weight", 0, 1), BlockType::f32);
  EXPECT_EQ(type(q8_0, "position_embd.weight", 0, 256), BlockType::f32);
  EXPECT_EQ(type(q4_k_m, "token_embd.weight", 0, 256), BlockType::q4_k);
  EXPECT_EQ(type(q4_k_m, "token_embd.weight", 0, 256, true), BlockType::q6_k);
  EXPECT_EQ(type(q4_0, "output.weight", 0, 256, true), BlockType::q6_k);
  EXPECT_EQ(type(q4_0, "output.weight", 0, 96, true), BlockType::q8_0);
  EXPECT_EQ(type(q8_0, "output.weight", 0, 256, true), BlockType::q8_0);
  // Of 16 layers 0, 1, then every third one from 4 on, and 14 and 15.
  std::string wide;
  for (int64_t layer = 0; layer < 16; ++layer)
    wide += type(q4_k_m, "blk.1.ffn_down.weight", layer, 512) == BlockType::q6_k ? '6' : '4';
  EXPECT_EQ(wide, "6644644644644666");
  EXPECT_EQ(type(q5_k_m, "blk.1.attn_v.weight", 1, 512), BlockType::q6_k);
  EXPECT_EQ(type(q4_k_m, "blk.1.attn_qkv.weight", 1, 512), BlockType::q5_k);
  EXPECT_EQ(type(q5_k_m, "blk.1.attn_qkv.weight", 1, 512), BlockType::q6_k);
  EXPECT_EQ(type(q4_k_m, "blk.3.attn_q.weight", 3, 96), BlockType::q5_0);
  EXPECT_EQ(type(q5_k_m, "blk.3.attn_q.weight", 3, 96), BlockType::q5_1);
  EXPECT_EQ(type(q6_k, "blk.3.attn_q.weight", 3, 96), BlockType::q8_0);
  for (const GgufFileType file : {q4_k_m, q5_k_m, q6_k, q8_0, q4_0})
    EXPECT_EQ(type(file, "blk.3.attn_q.weight", 3, 40), BlockType::f16);
}

TEST(GgufArchitecture, EveryFamilyIsWrittenOrRefusedWithItsReason) {
  for (const Family* family : families()) {
    const std::string name = family->model_type;
    if (name == "opt" || name == "bert" || name == "roberta" || name == "distilbert" || name.starts_with("qwen3_5")) {
      EXPECT_ERROR(gguf_architecture(*family, small_spec()), ErrorKind::config,
                   "cannot write a " + name + " model as GGUF: llama.cpp");
      continue;
    }
    // Every rule but the matrix of the head of another task has a name there.
    EXPECT_EQ(gguf_names(*family).size(), family->names.size()) << name;
  }
}

TEST(GgufArchitecture, WhatLlamaCppComputesOtherwiseIsRefused) {
  const std::string golden = (fs::path(source_dir()) / "tests/golden/").string();
  const auto refused = [&](const char* folder, const auto& change, const char* reason) {
    Spec spec = read_huggingface_spec(golden + folder);
    change(spec);
    std::string type = read_json(golden + folder + std::string("/config.json")).at("model_type").get<std::string>();
    EXPECT_ERROR(gguf_architecture(find_family(type, ""), spec), ErrorKind::config, reason);
  };
  refused(
      "gpt2", [](Spec& s) { s.activation = Activation::relu; },
      "cannot write this gpt2 model as GGUF, because llama.cpp would compute another one: its activation is relu, but "
      "only gelu-tanh is computed there");
  refused(
      "qwen3", [](Spec& s) { s.biases.attention_out = true; }, "it has biases, which are not read there");
  refused(
      "gemma2", [](Spec& s) { s.tied_head = false; }, "only a tied one is read there");
  refused(
      "gemma2", [](Spec& s) { s.logits_cap = 0; }, "it has no caps of scores and logits");
  refused(
      "gemma3", [](Spec& s) { s.attention_layers = "WFFW"; }, "do not repeat in the way that is read there");
  refused(
      "qwen2", [](Spec& s) { s.rotary.kind = RotaryKind::llama3; }, "scaled as Llama 3's");
  refused(
      "qwen2", [](Spec& s) { s.rotary.kind = RotaryKind::longrope; }, "factors per frequency (longrope)");
  refused(
      "llama", [](Spec& s) { s.rotary = {.kind = RotaryKind::yarn, .truncate = false}; }, "\"truncate\" false");
  refused(
      "olmo3", [](Spec& s) { s.window_rotary_base = 7; }, "another base of positions");
  refused(
      "smollm3", [](Spec&) {}, "every fourth one there, and not here");
}

TEST(GgufArchitecture, RowsThatTurnTogetherBecomeNeighbours) {
  Spec spec = small_spec();
  spec.head_size = 4;
  const GgufArchitecture architecture{.model_type = "", .name = "llama", .activation = {}, .interleaved = true};
  std::vector<float> values{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
  to_gguf_values(architecture, spec, "blk.0.attn_k.weight", 2, values);
  EXPECT_EQ(values, (std::vector<float>{0, 0, 2, 2, 1, 1, 3, 3, 4, 4, 6, 6, 5, 5, 7, 7}));
  to_gguf_values(architecture, spec, "blk.0.attn_v.weight", 2, values);
  EXPECT_EQ(values[2], 2);
}

TEST(GgufVocabulary, TheNameOfThePreTokenizerIsThatOfItsSteps) {
  const std::string bytes = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":)";
  const auto split = [&](const std::string& pattern) {
    return R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")" + pattern +
           R"("},"behavior":"Isolated","invert":false},)" + bytes + "false}]}";
  };
  const std::string qwen =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
  EXPECT_THAT(bytes_of_vocabulary(tokenizer(bytes + "true}", kBytes), 3), HasSubstr("gpt-2"));
  EXPECT_THAT(bytes_of_vocabulary(tokenizer(split(qwen), kBytes), 3), HasSubstr("qwen2"));
  EXPECT_ERROR(bytes_of_vocabulary(tokenizer(split("x+"), kBytes), 3), ErrorKind::config,
               "none known here does what this model's does (x+); the nearest is ");
  EXPECT_ERROR(bytes_of_vocabulary(tokenizer(split(qwen + "|!"), kBytes), 3), ErrorKind::config,
               "the nearest is qwen2. Use --gguf-pre NAME for one that you know to be right");
  EXPECT_THAT(bytes_of_vocabulary(tokenizer(split("x+"), kBytes), 3, "chatglm-bpe"), HasSubstr("chatglm-bpe"));
}

TEST(GgufVocabulary, IdsWithoutATokenAreUnused) {
  const std::string bytes =
      bytes_of_vocabulary(tokenizer(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})", kBytes), 5);
  EXPECT_THAT(bytes, HasSubstr("[PAD3]"));
  EXPECT_THAT(bytes, HasSubstr("[PAD4]"));
  EXPECT_ERROR(
      bytes_of_vocabulary(tokenizer(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})", kBytes), 2),
      ErrorKind::data, "token \"ab\" has the id 2, but the model has only 2 ids");
  EXPECT_THAT(bytes_of_vocabulary("", 5), HasSubstr("no_vocab"));
}

TEST(GgufVocabulary, OtherModelsOfTokensAreRefused) {
  EXPECT_ERROR(bytes_of_vocabulary(tokenizer("null", R"("type":"WordLevel","vocab":{"a":0},"unk_token":"a")"), 1),
               ErrorKind::config, "llama.cpp has no tokenizer like this model's (WordLevel)");
}

TEST(GgufExport, NamesTheFileByItsType) {
  EXPECT_EQ(gguf_file_name("my-model", GgufFileType::q4_k_m), "my-model-Q4_K_M.gguf");
}

TEST(GgufExport, IsStoppedBetweenTensorsAndLeavesNoFile) {
  const TemporaryFolder folder;
  const ParameterTable table(small_spec());
  TrainingState state(table, DType::f32, false);
  const GgufExport options{
      .name = "m", .types = {GgufFileType::f32}, .tokenizer_json = {}, .generation = {}, .pre_tokenizer = {}};
  int asked = 0;
  EXPECT_ERROR(export_gguf(folder.path(), options, small_spec(), table, state, [&] { return ++asked > 3; }),
               ErrorKind::stopped, "the export was stopped after 3 of 28 tensors");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace trireme
