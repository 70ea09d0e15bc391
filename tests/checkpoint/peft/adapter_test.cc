// Adapters of PEFT on the models that scripts/make_peft_samples.py makes, against what PEFT merges them to.

#include "checkpoint/peft/adapter.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/cut_states.h"
#include "tests/support/expect_error.h"
#include "tests/support/log_lines.h"
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

/// A parameter in full, every value the same.
struct FullTensor {
  std::string name;
  std::vector<int64_t> shape;
  float value;
};

/// Adds tensors to those that an adapter's file has.
void add_tensors(const std::string& adapter, const std::vector<FullTensor>& added) {
  const std::string path = adapter + "/adapter_model.safetensors";
  std::vector<SafetensorsEntry> entries;
  std::vector<std::vector<float>> values;
  {
    const SafetensorsFile before(path);
    for (const SafetensorsEntry& entry : before.entries()) {
      entries.push_back({entry.name, "F32", entry.shape});
      values.push_back(before.read_f32(entry));
    }
  }
  for (const FullTensor& tensor : added) {
    entries.push_back({"base_model.model." + tensor.name, "F32", tensor.shape});
    values.emplace_back(static_cast<size_t>(tensor.shape[0] * tensor.shape[1]), tensor.value);
  }
  SafetensorsWriter writer(path, entries, {});
  for (size_t i = 0; i < entries.size(); ++i) writer.write(i, std::as_bytes(std::span(values[i])));
  writer.commit();
}

TEST(PeftAdapter, OneNameOfATiedMatrixTrainedInFullIsRefused) {
  const FullTensor embedding{"model.embed_tokens.weight", {24, 16}, 0.25F}, head{"lm_head.weight", {24, 16}, 0.25F},
      other{"lm_head.weight", {24, 16}, 0.5F};
  const auto merged = [](const std::vector<FullTensor>& tensors, const Json& saved) {
    ChangedAdapter adapter("llama");
    adapter.set("modules_to_save", saved);
    add_tensors(adapter.path(), tensors);
    Base base(sample("llama") + "/base");
    base.merge(adapter.path());
    const Parameter& embedding_here = base.table.find("embedding.token.weight");
    std::vector<float> values(static_cast<size_t>(embedding_here.stored_shape.count()));
    base.state.read_master(embedding_here, values);
    return values[0];
  };
  for (const char* name : {"embed_tokens", "model.embed_tokens"})
    EXPECT_ERROR(merged({embedding}, {name}), ErrorKind::config,
                 "it has trained in full model.embed_tokens, which is tied: embedding and head of this model are one "
                 "matrix");
  EXPECT_ERROR(merged({head}, {"lm_head"}), ErrorKind::config, "it has trained in full lm_head, which is tied");
  EXPECT_ERROR(merged({embedding, other}, {"embed_tokens", "lm_head"}), ErrorKind::config, "which is tied");
  // ensure_weight_tying writes one matrix under both names.
  EXPECT_EQ(merged({embedding, head}, {"embed_tokens", "lm_head"}), 0.25F);
  // An embedding that is stored as a part of the base model is the head, too.
  EXPECT_EQ(merged({embedding}, nullptr), 0.25F);
}

TEST(PeftAdapter, TensorsOfModulesThatTheConfigurationLeavesOutAreRefused) {
  const auto refused = [](const std::vector<std::pair<const char*, Json>>& settings, const std::string& text) {
    ChangedAdapter adapter("llama");
    for (const auto& [key, value] : settings) adapter.set(key, value);
    EXPECT_ERROR(PeftAdapter{adapter.path()}, ErrorKind::data,
                 text + ", but the adapter has tensors of it; the two files belong to different adapters");
  };
  refused({{"exclude_modules", {"v_proj"}}}, "\"exclude_modules\" excludes model.layers.0.self_attn.v_proj");
  refused({{"exclude_modules", R"(.*layers\.1\..*)"}}, "\"exclude_modules\" excludes model.layers.1.self_attn.q_proj");
  refused({{"target_modules", R"(.*\.q_proj)"}},
          R"("target_modules" is .*\.q_proj, which has no model.layers.0.self_attn.v_proj)");
  refused({{"layers_to_transform", {0}}},
          "\"layers_to_transform\" is 0, which leaves out model.layers.1.self_attn.q_proj");
  refused({{"layers_to_transform", 1}, {"layers_pattern", "layers"}},
          "\"layers_to_transform\" is 1, which leaves out model.layers.0.self_attn.q_proj");
  refused({{"layers_to_transform", {0, 1}}, {"layers_pattern", {"h", "blocks"}}},
          "\"layers_to_transform\" is 0, 1, which leaves out model.layers.0.self_attn.q_proj");
  refused({{"modules_to_save", {"q_proj"}}}, "\"modules_to_save\" trains model.layers.0.self_attn.q_proj in full");
  ChangedAdapter plain("llama_dora");
  plain.set("use_dora", false);
  EXPECT_ERROR(PeftAdapter{plain.path()}, ErrorKind::data, "has a lora_magnitude_vector, but \"use_dora\" is not true");
  for (const auto& [key, value] : std::vector<std::pair<const char*, Json>>{{"layers_to_transform", {0, 1}},
                                                                            {"layers_pattern", {"h", "layers"}},
                                                                            {"exclude_modules", {"proj", "lm_head"}}}) {
    ChangedAdapter adapter("llama");
    adapter.set("layers_to_transform", {0, 1});
    adapter.set(key, value);
    EXPECT_EQ(PeftAdapter(adapter.path()).modules(), 4U) << key;
  }
}

TEST(PeftAdapter, ModulesWithoutTensorsAreNamed) {
  const auto said = [](const std::string& sample_name, const Json& targets, const Json& saved = nullptr) {
    ChangedAdapter adapter(sample_name);
    adapter.set("target_modules", targets);
    adapter.set("modules_to_save", saved);
    const LogLines log;
    Base base(sample(sample_name) + "/base");
    base.merge(adapter.path());
    return log.text();
  };
  const auto warned = [](const std::string& modules) {
    return testing::HasSubstr("\"target_modules\" also means " + modules +
                              ", of which the adapter has no tensors; they stay as in the base model, as in PEFT");
  };
  const auto silent = testing::Not(testing::HasSubstr("has no tensors"));
  EXPECT_THAT(said("llama", {"q_proj", "v_proj"}), silent);
  EXPECT_THAT(said("llama", {"q_proj", "v_proj", "wte"}), silent);  // the model has no such module
  EXPECT_THAT(said("llama", {"q_proj", "v_proj"}, {"score"}), silent);
  EXPECT_THAT(said("llama", {"q_proj", "v_proj", "k_proj"}),
              warned("model.layers.0.self_attn.k_proj, model.layers.1.self_attn.k_proj"));
  EXPECT_THAT(said("llama", {"q_proj", "v_proj", "layers.1.self_attn.o_proj"}),
              warned("model.layers.1.self_attn.o_proj"));
  EXPECT_THAT(said("llama", R"(.*layers\.0\.mlp\.(up|down)_proj|.*[qv]_proj)"),
              warned("model.layers.0.mlp.down_proj, model.layers.0.mlp.up_proj"));
  EXPECT_THAT(said("llama", {"q_proj", "v_proj", "lm_head"}), warned("lm_head"));
  EXPECT_THAT(said("phi3", {"qkv_proj", "gate_up_proj", "o_proj"}),
              warned("model.layers.0.self_attn.o_proj, model.layers.1.self_attn.o_proj"));
  EXPECT_THAT(said("llama", "all-linear"), testing::HasSubstr(" and 2 more, of which the adapter"));
  // PEFT does not load it either.
  EXPECT_ERROR(said("llama", {"q_proj", "v_proj"}, {"model.norm"}), ErrorKind::data,
               "\"modules_to_save\" is model.norm, but the adapter has no model.norm.weight");
}

TEST(PeftAdapter, TheFirstPatternOfTheFileCounts) {
  ChangedAdapter adapter("llama");
  adapter.set("alpha_pattern", {{"q_proj", 3}, {"layers.0.self_attn.q_proj", 50}});
  const PeftConfig config = read_peft_config(adapter.path());
  EXPECT_EQ(config.scale_of("model.layers.0.self_attn.q_proj"), 3.0 / 4);
  EXPECT_EQ(config.scale_of("model.layers.0.self_attn.v_proj"), 2);
  adapter.set("alpha_pattern", {{"layers.0.self_attn.q_proj", 50}, {"q_proj", 3}});
  EXPECT_EQ(read_peft_config(adapter.path()).scale_of("model.layers.0.self_attn.q_proj"), 50.0 / 4);
  adapter.set("rank_pattern", {{"v_proj", 16}, {".*_proj", 2}});
  EXPECT_EQ(read_peft_config(adapter.path()).rank_of("model.layers.0.self_attn.v_proj"), 16);
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
