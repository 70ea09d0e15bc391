// Adapters of PEFT on the models that scripts/make_peft_samples.py makes, against what PEFT merges them to.

#include "checkpoint/peft/adapter.h"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/safetensors.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/cut_states.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string sample(const std::string& name) { return source_dir() + "/tests/golden/peft/" + name; }

/// A base model and its weights.
struct Base {
  ModelFolder folder;
  ParameterTable table;
  TrainingState state;

  explicit Base(const std::string& path, const Layout& layout = {})
      : folder(open_model(path)), table(folder.spec, InitScheme::gpt2, layout), state(table, DType::f32, false) {
    load_model(folder, folder.spec, table, state);
  }
  void merge(const std::string& adapter) { PeftAdapter(adapter).merge(folder, table, state); }
};

class PeftSample : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Samples, PeftSample,
                         testing::Values("llama", "llama_all_rslora", "llama_dora", "llama_embedding", "gpt2",
                                         "gpt2_dora", "phi3", "gpt_neox", "bert"),
                         [](const auto& sample) { return std::string(sample.param); });

TEST_P(PeftSample, MergesToTheWeightsOfPeft) {
  const std::string folder = sample(GetParam());
  Base base(folder + "/base");
  base.merge(folder + "/adapter");
  const TemporaryFolder out;
  export_huggingface(out / "model", base.folder.spec, base.table, base.state, "", DType::f32, {},
                     base.folder.generation);
  const SafetensorsFile got(out / "model/model.safetensors"), before(folder + "/base/model.safetensors"),
      merged(folder + "/merged.safetensors");
  const Family& family =
      find_family(read_json(folder + "/base/config.json", 1 << 20).at("model_type").get<std::string>(), folder);
  size_t compared = 0;
  for (const SafetensorsEntry& entry : got.entries()) {
    const auto named = [&](const SafetensorsEntry& other) {
      return plain_name(family, other.name) == plain_name(family, entry.name);
    };
    const auto changed = std::ranges::find_if(merged.entries(), named);
    const auto values = got.read_f32(entry);
    if (changed == merged.entries().end()) {
      const auto same = std::ranges::find_if(before.entries(), named);
      ASSERT_NE(same, before.entries().end()) << entry.name;
      EXPECT_EQ(values, before.read_f32(*same)) << entry.name;
      continue;
    }
    ++compared;
    const auto want = merged.read_f32(*changed);
    ASSERT_EQ(values.size(), want.size()) << entry.name;
    // PEFT multiplies and adds in f32.
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(values[i], want[i], 2e-6 * std::max(1.0f, std::abs(want[i]))) << entry.name << " " << i;
  }
  EXPECT_EQ(compared, merged.entries().size());
}

TEST(PeftAdapter, RanksThatHoldPartsMergeTheirParts) {
  const std::string folder = sample("phi3");
  Base whole(folder + "/base");
  whole.merge(folder + "/adapter");
  for (int rank = 0; rank < 2; ++rank) {
    Base part(folder + "/base", {.part = {}, .tensor_rank = rank, .tensor_size = 2});
    TrainingState expected(part.table, DType::f32, false);
    copy_common(whole.table, whole.state, part.table, expected);
    part.merge(folder + "/adapter");
    for (const Parameter& parameter : part.table.all())
      EXPECT_TRUE(same_bytes(view_of(part.state.weights(), parameter), view_of(expected.weights(), parameter)))
          << parameter.name;
  }
  Base part(sample("llama_dora") + "/base", {.part = {}, .tensor_rank = 0, .tensor_size = 2});
  EXPECT_ERROR(part.merge(sample("llama_dora") + "/adapter"), ErrorKind::config,
               "is an adapter of DoRA, which needs all of block.");
}

/// A copy of a sample's adapter whose configuration a test changes.
struct ChangedAdapter {
  TemporaryFolder folder;
  Json config;

  explicit ChangedAdapter(const std::string& name) {
    fs::copy(sample(name) + "/adapter", folder / "adapter", fs::copy_options::recursive);
    config = read_json(path() + "/adapter_config.json", 1 << 20);
  }
  std::string path() const { return folder / "adapter"; }
  void set(const char* key, const Json& value) {
    config[key] = value;
    write_text(path() + "/adapter_config.json", dump_json(config));
  }
  /// With these tensors instead, each a pattern of values.
  void tensors(const std::vector<SafetensorsEntry>& entries, float value) {
    SafetensorsWriter writer(path() + "/adapter_model.safetensors", entries, {});
    for (size_t i = 0; i < entries.size(); ++i) {
      size_t count = 1;
      for (const int64_t size : entries[i].shape) count *= static_cast<size_t>(size);
      const std::vector<float> values(count, value);
      writer.write(i, std::as_bytes(std::span(values)));
    }
    writer.commit();
    set("target_modules", ".*");
  }
};

TEST(PeftAdapter, SaysWhatItDoesNotSupportByName) {
  const auto refused = [](const char* key, const Json& value, const char* text) {
    ChangedAdapter adapter("llama");
    adapter.set(key, value);
    EXPECT_ERROR(PeftAdapter{adapter.path()}, ErrorKind::data, text);
  };
  refused("peft_type", "IA3", "\"peft_type\" is IA3; only LORA is supported");
  refused("use_qalora", true,
          "\"use_qalora\" is true, which this program does not support; merge the adapter with PEFT's "
          "merge_and_unload() and use the merged model");
  refused("layer_replication", Json::array({Json::array({0, 1})}), "\"layer_replication\" is [[0,1]], which");
  refused("a_later_setting", 3, "\"a_later_setting\" is 3, which this program does not support");
  refused("lora_bias", true, "\"lora_bias\" is true, which this program does not support");
  refused("init_lora_weights", "pissa", "\"init_lora_weights\" is \"pissa\", whose adapters belong to changed base");
  refused("r", 0, "\"r\" is 0, expected a positive number");
  refused("lora_dropout", 1.5, "\"lora_dropout\" is 1.5, expected a number from 0 to below 1");
  refused("rank_pattern", {{"q_proj", 0}}, "\"rank_pattern\" of q_proj is 0, expected a positive number");
  refused("lora_alpha", 1e300, "\"lora_alpha\" is 1e+300, expected a number up to 1e30");
  refused("alpha_pattern", {{"q_proj", -1e40}}, "\"alpha_pattern\" of q_proj is -1e+40, expected a number up to 1e30");
  refused("target_modules", 5, "\"target_modules\" is 5, expected a list of names or a pattern");
  refused("target_modules", Json::array({"q_proj", 1}), "\"target_modules\" is [\"q_proj\",1], expected a list");
  refused(
      "target_modules", Json::array({"foo", "proj"}),
      "\"target_modules\" is foo, proj, which has no model.layers.0.self_attn.q_proj, but the adapter has tensors of "
      "it; the two files belong to different adapters");
  refused("use_dora", true, "has no lora_magnitude_vector, but \"use_dora\" is true");
  EXPECT_ERROR(
      PeftAdapter{sample("llama")}, ErrorKind::io,
      "is not an adapter of PEFT: it has no adapter_config.json; give the folder that save_pretrained() wrote; "
      "folders with one: " +
          sample("llama") + "/adapter");
}

TEST(PeftAdapter, OfAnotherModelIsRefusedWithAllDifferences) {
  Base base(sample("llama") + "/base");
  EXPECT_ERROR(base.merge(sample("gpt2") + "/adapter"), ErrorKind::data,
               "transformer.h.0.attn.c_attn: the model has no such module; the nearest is");
  EXPECT_ERROR(base.merge(sample("gpt2") + "/adapter"), ErrorKind::data, "(its base is example/gpt2)");
  ChangedAdapter adapter("llama");
  adapter.set("r", 2);
  EXPECT_ERROR(base.merge(adapter.path()), ErrorKind::data,
               "model.layers.0.self_attn.q_proj.lora_A: shape [4, 16], expected [2, 16]");
  adapter.set("rank_pattern", {{R"(.*layers\.\d\.self_attn\.(q|v)_proj)", 4}});
  base.merge(adapter.path());
}

TEST(PeftAdapter, OfATiedMatrixIsRefused) {
  Base base(sample("llama") + "/base");
  for (const auto& [module, a, b] : {std::tuple{"lm_head", ".lora_A.weight", ".lora_B.weight"},
                                     {"model.embed_tokens", ".lora_embedding_A", ".lora_embedding_B"}}) {
    ChangedAdapter adapter("llama");
    const std::string name = std::string("base_model.model.") + module;
    adapter.tensors({{name + a, "F32", {4, 16}}, {name + b, "F32", {24, 4}}}, 1);
    EXPECT_ERROR(base.merge(adapter.path()), ErrorKind::config,
                 std::string("it adapts ") + module +
                     ", which is tied: embedding and head of this model are one matrix, and would both change");
  }
}

TEST(PeftAdapter, DamagedOrForeignTensorsAreNamed) {
  Base base(sample("llama") + "/base");
  ChangedAdapter adapter("llama");
  const std::string name = "base_model.model.model.layers.0.self_attn.q_proj";
  adapter.tensors({{name + ".lora_A.weight", "F32", {4, 16}}, {name + ".lora_B.weight", "F32", {16, 4}}},
                  std::numeric_limits<float>::infinity());
  EXPECT_ERROR(base.merge(adapter.path()), ErrorKind::data,
               "with the adapter block.0.attention.qkv.weight has NaN or infinite values");
  adapter.tensors({{name + ".lora_A.weight", "F32", {4, 16}}}, 1);
  EXPECT_ERROR(PeftAdapter{adapter.path()}, ErrorKind::data, "model.layers.0.self_attn.q_proj has no lora_B");
  adapter.tensors({{"prompt_embeddings", "F32", {4, 16}}, {name + ".lora_C", "F32", {4, 16}}}, 1);
  EXPECT_ERROR(PeftAdapter{adapter.path()}, ErrorKind::data,
               "tensors that a LoRA adapter does not have: prompt_embeddings, " + name + ".lora_C");
}

}  // namespace
}  // namespace trireme
