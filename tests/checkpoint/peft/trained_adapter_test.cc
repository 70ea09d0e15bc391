// Adapters that a model has and trains: which linears, from and to the folders of PEFT.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/peft/adapter.h"
#include "checkpoint/peft/export.h"
#include "checkpoint/peft/targets.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

std::string golden(const std::string& name) { return source_dir() + "/tests/golden/peft/" + name; }

/// A base model with the adapter of a sample, as a run that trains it on.
struct Adapted {
  ModelFolder base;
  std::string model_type;
  LoraOptions options;
  Spec spec;
  ParameterTable table;
  TrainingState state;

  explicit Adapted(const std::string& folder, const Layout& layout = {})
      : base(open_model(folder + "/base")),
        model_type(kept_model_type(base.generation)),
        options(of_adapter(folder + "/adapter")),
        spec(with_adapters(base.spec, options, model_type)),
        table(spec, InitScheme::gpt2, layout, Trained(trained_beside_adapters(spec, options.modules_to_save), "")),
        state(table, DType::f32, false) {
    load_model(base, spec, table, state);
    PeftAdapter(options.adapter).load(adapter_family(spec, model_type), table, state);
  }
  static LoraOptions of_adapter(const std::string& folder) {
    LoraOptions options;
    options.adapter = folder;
    return options;
  }
  std::vector<float> values(const std::string& name) const {
    const Parameter& parameter = table.find(name);
    std::vector<float> values(static_cast<size_t>(parameter.stored_shape.count()));
    state.read_master(parameter, values);
    return values;
  }
};

class PeftTrained : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Samples, PeftTrained,
                         testing::Values("llama", "llama_all_rslora", "llama_dora", "gpt2_dora", "phi3", "gpt_neox",
                                         "bert"),
                         [](const auto& sample) { return std::string(sample.param); });

TEST_P(PeftTrained, MergesToWhatMergingTheFolderGives) {
  const std::string folder = golden(GetParam());
  Adapted adapted(folder);
  merge_adapters(adapted.table, adapted.state);
  const ModelFolder& base = adapted.base;
  const ParameterTable table(base.spec);
  TrainingState merged(table, DType::f32, false);
  load_model(base, base.spec, table, merged);
  PeftAdapter(folder + "/adapter").merge(base, table, merged);
  for (const Parameter& parameter : table.all()) {
    std::vector<float> want(static_cast<size_t>(parameter.stored_shape.count()));
    merged.read_master(parameter, want);
    const std::vector<float> got = adapted.values(parameter.name);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-6 * std::max(1.0f, std::abs(want[i]))) << parameter.name << " " << i;
  }
}

TEST_P(PeftTrained, IsWrittenWithTheBytesThatWereRead) {
  const std::string folder = golden(GetParam());
  const Adapted adapted(folder);
  const TemporaryFolder out;
  export_adapter(out / "adapter", adapted.table, adapted.state, adapted.options, "example/base", adapted.model_type);
  const SafetensorsFile got(out / "adapter/adapter_model.safetensors"),
      want(folder + "/adapter/adapter_model.safetensors");
  EXPECT_EQ(got.entries().size(), want.entries().size());
  for (const SafetensorsEntry& entry : want.entries()) {
    const SafetensorsEntry* own = got.find(entry.name);
    ASSERT_NE(own, nullptr) << entry.name;
    EXPECT_EQ(own->shape, entry.shape) << entry.name;
    EXPECT_EQ(got.read_f32(*own), want.read_f32(entry)) << entry.name;
  }
  // What is read of the written folder is the same adapter.
  LoraOptions again = Adapted::of_adapter(out / "adapter");
  EXPECT_EQ(with_adapters(adapted.base.spec, again, adapted.model_type).adapters, adapted.spec.adapters);
  EXPECT_EQ(again.modules_to_save, adapted.options.modules_to_save);
  const Json config = read_json(out / "adapter/adapter_config.json", 1 << 20);
  EXPECT_EQ(config.at("base_model_name_or_path"), "example/base");
}

class PeftParts : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Samples, PeftParts, testing::Values("llama_all_rslora", "llama_dora"),
                         [](const auto& sample) { return std::string(sample.param); });

TEST_P(PeftParts, TensorRanksTakeTheirPart) {
  const std::string folder = golden(GetParam());
  const Adapted whole(folder);
  for (const int rank : {0, 1}) {
    const Adapted part(folder, {.part = {}, .tensor_rank = rank, .tensor_size = 2});
    for (const Parameter& own : part.table.all()) {
      const std::vector<float> all = whole.values(own.name), values = part.values(own.name);
      for_each_run(own.stored(), whole.table.find(own.name).stored(), own.stored(),
                   [&](int64_t from, int64_t to, int64_t count) {
                     for (int64_t i = 0; i < count; ++i)
                       ASSERT_EQ(values[static_cast<size_t>(to + i)], all[static_cast<size_t>(from + i)]) << own.name;
                   });
    }
  }
}

TEST(PeftTrained, RefusesWhatCanOnlyBeMerged) {
  EXPECT_ERROR(Adapted(golden("llama_embedding")), ErrorKind::config,
               "it adapts model.embed_tokens, but only the linears of blocks can have adapters that are trained");
  EXPECT_ERROR(Adapted(golden("gpt2")), ErrorKind::config,
               "was trained without its weight (\"bias\" in adapter_config.json), which this program cannot train");
}

/// New magnitudes are the lengths of the base model's rows: merged, the new adapter is the base model.
TEST(PeftTrained, NewMagnitudesLeaveTheBaseAsItIs) {
  for (const char* sample : {"llama", "gpt2_dora", "phi3"}) {
    SCOPED_TRACE(sample);
    const ModelFolder base = open_model(golden(sample) + "/base");
    LoraOptions options;
    options.rank = 2;
    options.targets = "all-linear";
    options.dora = true;
    const Spec spec = with_adapters(base.spec, options, kept_model_type(base.generation));
    EXPECT_NE(spec.adapters.find(", magnitudes"), std::string::npos);
    const auto filled = [&](const ParameterTable& table, TrainingState& state) {
      load_model(base, spec, table, state);
      initialize_adapters(state, table, 3);
      initialize_magnitudes(table, InitScheme::gpt2, state, [&](const ParameterTable& block, TrainingState& weights) {
        load_model(base, base.spec, block, weights);
      });
    };
    const ParameterTable table(spec);
    TrainingState state(table, DType::f32, false), merged(table, DType::f32, false);
    filled(table, state);
    filled(table, merged);
    merge_adapters(table, merged);
    const auto values_of = [](const ParameterTable& of, const TrainingState& from, const std::string& name) {
      std::vector<float> values(static_cast<size_t>(of.find(name).stored_shape.count()));
      from.read_master(of.find(name), values);
      return values;
    };
    size_t magnitudes = 0;
    for (const Parameter& parameter : table.all()) {
      const std::vector<float> want = values_of(table, state, parameter.name),
                               got = values_of(table, merged, parameter.name);
      magnitudes += parameter.name.find(".lora_magnitude") != std::string::npos;
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 1e-6 * std::max(1.0f, std::abs(want[i]))) << parameter.name;
    }
    EXPECT_EQ(magnitudes, adapters_of(spec).size());
    // Tensor ranks have their part of the same numbers.
    for (const int rank : {0, 1}) {
      const ParameterTable part(spec, InitScheme::gpt2, {.part = {}, .tensor_rank = rank, .tensor_size = 2});
      TrainingState own(part, DType::f32, false);
      filled(part, own);
      for (const Parameter& parameter : part.all()) {
        const std::vector<float> all = values_of(table, state, parameter.name),
                                 got = values_of(part, own, parameter.name);
        for_each_run(parameter.stored(), table.find(parameter.name).stored(), parameter.stored(),
                     [&](int64_t from, int64_t to, int64_t count) {
                       for (int64_t i = 0; i < count; ++i)
                         ASSERT_EQ(got[static_cast<size_t>(to + i)], all[static_cast<size_t>(from + i)])
                             << parameter.name;
                     });
      }
    }
  }
}

TEST(PeftTrained, AScaleThatIsNotAboveZeroIsNamed) {
  const TemporaryFolder folder;
  std::filesystem::copy(golden("llama/adapter"), folder / "adapter", std::filesystem::copy_options::recursive);
  Json config = read_json(folder / "adapter/adapter_config.json", 1 << 20);
  config["lora_alpha"] = -8;
  write_text(folder / "adapter/adapter_config.json", dump_json(config));
  LoraOptions options = Adapted::of_adapter(folder / "adapter");
  const ModelFolder base = open_model(golden("llama/base"));
  EXPECT_ERROR(with_adapters(base.spec, options, "llama"), ErrorKind::config,
               "adapter_config.json: \"lora_alpha\" gives model.layers.0.self_attn.q_proj the scale -2, expected one "
               "above 0 for an adapter that is trained");
}

TEST(PeftTrained, RefusesAnAdapterOfAnotherBase) {
  LoraOptions options = Adapted::of_adapter(golden("gpt_neox/adapter"));
  const ModelFolder base = open_model(golden("llama/base"));
  EXPECT_ERROR(with_adapters(base.spec, options, "llama"), ErrorKind::data,
               "does not fit the model of this run (its base is example/gpt_neox):\n  "
               "gpt_neox.layers.0.attention.query_key_value: the model has no such module; the nearest is");
}

/// A Llama of two blocks with groups of heads, or another family.
Spec spec_of(const char* sample) { return open_model(golden(sample) + "/base").spec; }

std::string adapters(const char* sample, const LoraOptions& options, const char* model_type) {
  LoraOptions lora = options;
  return with_adapters(spec_of(sample), lora, model_type).adapters;
}

LoraOptions lora(const std::string& targets) {
  LoraOptions options;
  options.rank = 4;
  options.alpha = 8;
  options.targets = targets;
  return options;
}

TEST(LoraTargets, AreTheFamilysUsualOnesIfNothingIsSaid) {
  EXPECT_EQ(adapters("llama", lora(""), "llama"),
            "attention.qkv.query in 0-1: rank 4, scale 2; attention.qkv.value in 0-1: rank 4, scale 2");
  EXPECT_EQ(adapters("gpt2", lora(""), "gpt2"), "attention.qkv in 0-1: rank 4, scale 2");
  EXPECT_EQ(adapters("gpt_neox", lora(""), "gpt_neox"), "attention.qkv in 0-1: rank 4, scale 2");
  EXPECT_EQ(adapters("phi3", lora(""), "phi3"), "attention.qkv in 0-1: rank 4, scale 2");
  EXPECT_EQ(adapters("bert", lora(""), "bert"),
            "attention.qkv.query in 0-1: rank 4, scale 2; attention.qkv.value in 0-1: rank 4, scale 2");
}

TEST(LoraTargets, AreNamesPathsAndRegularExpressions) {
  EXPECT_EQ(adapters("llama", lora("down_proj, layers.1.mlp.gate_proj"), "llama"),
            "mlp.out in 0-1: rank 4, scale 2; mlp.in.gate in 1: rank 4, scale 2");
  EXPECT_EQ(adapters("llama", lora(R"(.*layers\.0\..*(o|k)_proj)"), "llama"),
            "attention.qkv.key in 0: rank 4, scale 2; attention.out in 0: rank 4, scale 2");
  EXPECT_EQ(adapters("gpt2", lora("c_proj"), "gpt2"),
            "attention.out in 0-1: rank 4, scale 2; mlp.out in 0-1: rank 4, scale 2");
  EXPECT_EQ(adapters("llama", lora("all-linear"), "llama"),
            "attention.qkv.query in 0-1: rank 4, scale 2; attention.qkv.key in 0-1: rank 4, scale 2; "
            "attention.qkv.value in 0-1: rank 4, scale 2; attention.out in 0-1: rank 4, scale 2; mlp.in.gate in 0-1: "
            "rank 4, scale 2; mlp.in.up in 0-1: rank 4, scale 2; mlp.out in 0-1: rank 4, scale 2");
}

TEST(LoraTargets, HaveRanksAndAlphasOfTheirOwn) {
  LoraOptions options = lora("q_proj,o_proj");
  options.rank_pattern = "o_proj=2, layers.1.self_attn.q_proj=16";
  options.alpha_pattern = "layers.0.self_attn.o_proj=6";
  EXPECT_EQ(adapters("llama", options, "llama"),
            "attention.qkv.query in 0: rank 4, scale 2; attention.out in 0: rank 2, scale 3; attention.qkv.query in 1: "
            "rank 16, scale 0.5; attention.out in 1: rank 2, scale 4");
  options.rank_pattern = "q_proj=16, .*_proj=2";  // the first that matches
  options.alpha_pattern = "";
  EXPECT_EQ(adapters("llama", options, "llama"),
            "attention.qkv.query in 0-1: rank 16, scale 0.5; attention.out in 0-1: rank 2, scale 4");
  options.rank_pattern = ".*_proj=2, q_proj=16";
  EXPECT_EQ(adapters("llama", options, "llama"),
            "attention.qkv.query in 0-1: rank 2, scale 4; attention.out in 0-1: rank 2, scale 4");
  options.rank_stabilized = true;
  options.rank_pattern = options.alpha_pattern = "";
  EXPECT_EQ(adapters("llama", options, "llama"),
            "attention.qkv.query in 0-1: rank 4, scale 4; attention.out in 0-1: rank 4, scale 4");
}

TEST(LoraTargets, AreCalledByTheNamesThatTheyAreGivenBy) {
  const auto said = [](const char* sample, const std::string& targets, const std::string& ranks = "") {
    LoraOptions options = lora(targets);
    options.rank_pattern = ranks;
    const std::string type = read_json(golden(sample) + "/base/config.json").at("model_type").get<std::string>();
    return published_adapters(with_adapters(spec_of(sample), options, type), type);
  };
  EXPECT_EQ(said("llama", "q_proj,v_proj"), "q_proj, v_proj in 0-1: rank 4, scale 2");
  EXPECT_EQ(said("llama", "layers.1.self_attn.o_proj,down_proj", "down_proj=8"),
            "down_proj in 0-1: rank 8, scale 1; o_proj in 1: rank 4, scale 2");
  EXPECT_EQ(said("gpt2", "c_attn,c_proj"), "c_attn, attn.c_proj, mlp.c_proj in 0-1: rank 4, scale 2");
  EXPECT_EQ(said("gpt_neox", "query_key_value,dense"), "query_key_value, dense in 0-1: rank 4, scale 2");
  EXPECT_EQ(said("phi3", "gate_up_proj"), "gate_up_proj in 0-1: rank 4, scale 2");
}

TEST(LoraTargets, ThatMatchNothingAreRefused) {
  EXPECT_ERROR(
      adapters("llama", lora("q_proj,qproj"), "llama"), ErrorKind::config,
      "lora.targets: \"qproj\" matches no linear of this model (llama); the nearest name is \"q_proj\". Its "
      "linears are o_proj, down_proj, q_proj, k_proj, v_proj, gate_proj, up_proj; all-linear means all of them");
  EXPECT_ERROR(adapters("llama", lora("c_attn"), "llama"), ErrorKind::config, "\"c_attn\" matches no linear");
  EXPECT_ERROR(adapters("gpt2", lora("q_proj|x_proj"), "gpt2"), ErrorKind::config,
               "\"q_proj|x_proj\" matches no linear");
  EXPECT_ERROR(adapters("llama", lora("(q_proj|x_proj"), "llama"), ErrorKind::config, "lora.targets: ");
  EXPECT_ERROR(adapters("llama", lora("q_proj,lm_head"), "llama"), ErrorKind::config,
               "lora.targets: \"lm_head\" is lm_head, but only the linears of blocks can have adapters here");
  EXPECT_ERROR(adapters("llama", lora("embed_tokens"), "llama"), ErrorKind::config,
               "\"embed_tokens\" is model.embed_tokens, but only the linears of blocks");
  EXPECT_ERROR(adapters("llama", lora("q_proj,,v_proj"), "llama"), ErrorKind::config, "has an empty name");
  LoraOptions options = lora("q_proj");
  options.rank_pattern = "v_proj=2";
  EXPECT_ERROR(adapters("llama", options, "llama"), ErrorKind::config,
               "lora.rank-pattern: \"v_proj\" matches none of the linears with adapters: q_proj");
  options.rank_pattern = "q_proj=two";
  EXPECT_ERROR(adapters("llama", options, "llama"), ErrorKind::config,
               "lora.rank-pattern: \"q_proj=two\" is not NAME=NUMBER with a number above 0");
}

TEST(LoraModulesToSave, AreTrainedInFullUnlessTheyAreTied) {
  LoraOptions options = lora("q_proj");
  const Spec tied = with_adapters(spec_of("llama"), options, "llama");
  const Spec untied = with_adapters(spec_of("llama_embedding"), options, "llama");
  EXPECT_EQ(trained_beside_adapters(untied, "lm_head,norm"), "*.lora_A,*.lora_B,head.weight,norm.weight");
  EXPECT_EQ(trained_beside_adapters(untied, ""), "*.lora_A,*.lora_B");
  for (const char* name : {"lm_head", "embed_tokens", "model.embed_tokens"})
    EXPECT_ERROR(trained_beside_adapters(tied, name), ErrorKind::config,
                 "is tied: embedding and head of this model are one matrix");
  EXPECT_ERROR(trained_beside_adapters(untied, "lmhead"), ErrorKind::config,
               "lora.modules-to-save: the model has no module \"lmhead\"; the nearest is \"lm_head\"");
  EXPECT_ERROR(trained_beside_adapters(untied, "q_proj"), ErrorKind::config,
               "\"q_proj\" is a part of block.0.attention.qkv.weight here, which cannot be trained alone");
}

TEST(AdapterTable, CutsBAsTheRowsAndAAsTheColumnsOfItsLinear) {
  LoraOptions options = lora("all-linear");
  const Spec spec = with_adapters(spec_of("llama"), options, "llama");
  const ParameterTable half(spec, InitScheme::gpt2, {.part = {}, .tensor_rank = 1, .tensor_size = 2});
  const auto shape = [&](const char* name) { return half.find(name).shape.to_string(); };
  EXPECT_EQ(shape("block.0.attention.qkv.lora_A"), "[12, 16]");
  EXPECT_EQ(shape("block.0.attention.qkv.lora_B.query"), "[8, 4]");
  EXPECT_EQ(shape("block.0.attention.qkv.lora_B.key"), "[4, 4]");
  EXPECT_EQ(shape("block.0.attention.out.lora_A"), "[4, 8]");
  EXPECT_EQ(shape("block.0.attention.out.lora_B"), "[16, 4]");
  EXPECT_EQ(shape("block.0.mlp.in.lora_B.up"), "[12, 4]");
  EXPECT_EQ(shape("block.0.mlp.out.lora_A"), "[4, 12]");
}

TEST(AdapterText, IsRefusedWhereItDescribesNoAdapter) {
  Spec spec = spec_of("llama");
  const auto refuses = [&](const char* text, const char* message) {
    spec.adapters = text;
    EXPECT_ERROR(spec.validate(), ErrorKind::config, message);
  };
  refuses("attention.qkv", "model: adapters are \"attention.qkv\", expected like");
  refuses("attention.qkv.gate in 0: rank 4, scale 1", "model: attention.qkv has no part gate");
  refuses("mlp.out in 0-2: rank 4, scale 1", "model: adapters of blocks 0 to 2, but the model has blocks 0 to 1");
  refuses("mlp.out in 0: rank 0, scale 1", "model: an adapter has rank 0 and scale 1, expected numbers above 0");
  refuses("mlp.in in 0: rank 4, scale 1; mlp.in.up in 0: rank 4, scale 1", "model: block.0.mlp.in has two adapters");
}

}  // namespace
}  // namespace trireme
