// Folders of models with other parts than text: the text part is read, everything else goes through an export.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "checkpoint/huggingface/folder_kind.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/huggingface/huggingface.h"
#include "tests/checkpoint/tensor_map.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

std::string golden(const std::string& model) { return (fs::path(source_dir()) / "tests" / "golden" / model).string(); }

struct WrapperCase {
  const char *model_type, *architecture, *text_type, *text;  ///< text: golden model
};
constexpr WrapperCase kWrappers[] = {
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", "qwen3.5"},
    {"qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl_text", "qwen3"},
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", "gemma3"},
    {"mistral3", "Mistral3ForConditionalGeneration", "mistral", "mistral"},
};

/// A wrapper whose text model is a golden one. older: names as before transformers 5.
void make_wrapper(const std::string& folder, const WrapperCase& wrapper, bool older) {
  fs::create_directories(folder);
  Json text = read_json(golden(wrapper.text) + "/config.json");
  text["model_type"] = wrapper.text_type;
  const Json tied = text.value("tie_word_embeddings", Json(wrapper.text_type == std::string("gemma3_text")));
  text.erase("architectures");
  text.erase("tie_word_embeddings");
  const Json config{{"model_type", wrapper.model_type},
                    {"architectures", {wrapper.architecture}},
                    {"tie_word_embeddings", tied},
                    {"dtype", "float32"},
                    {"image_token_id", 30},
                    {"text_config", text},
                    {"vision_config", {{"depth", 2}, {"hidden_size", 8}}}};
  write_text(folder + "/config.json", dump_json(config, 1));
  TensorMap tensors;
  for (const auto& [name, tensor] : read_tensors(golden(wrapper.text) + "/model.safetensors")) {
    const std::string plain = name.starts_with("model.") ? name.substr(6) : name;
    const bool head = plain == name;
    tensors[older ? (head ? "language_model." : "language_model.model.") + plain
                  : (head ? "" : "model.language_model.") + plain] = tensor;
  }
  tensors[older ? "vision_tower.patch.weight" : "model.visual.patch.weight"] = {"BF16", {2, 1, 3}, "abcdefghijkl"};
  tensors["multi_modal_projector.scale"] = {"F16", {}, "xy"};
  tensors["mtp.layers.0.counts"] = {"I64", {1}, "12345678"};
  write_tensors(folder + "/model.safetensors", tensors);
  write_text(folder + "/preprocessor_config.json", "{\"size\":   224}");
  write_text(folder + "/README.md", "a model\r\n");
  write_text(folder + "/generation_config.json", "{\"eos_token_id\":2,   \"temperature\": 0.6}");
}

/// Weights of a folder as f32.
struct Loaded {
  Spec spec;
  ParameterTable table;
  TrainingState state;
  explicit Loaded(const std::string& folder)
      : spec(read_huggingface_spec(folder)), table(spec), state(table, DType::f32, false) {
    load_huggingface(folder, spec, table, state);
  }
  std::vector<float> values(const std::string& name) const {
    const Parameter& parameter = table.find(name);
    std::vector<float> out(static_cast<size_t>(parameter.stored_shape.count()));
    state.read_master(parameter, out);
    return out;
  }
  void save(const std::string& from, const std::string& to) const {
    export_huggingface(to, spec, table, state, "", DType::f32, {},
                       read_generation_files(from, read_model_config(from)));
  }
};

TEST(Wrapper, TheTextPartIsReadUnderTheNamesOfBothVersions) {
  for (const WrapperCase& wrapper : kWrappers)
    for (const bool older : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, older {}", wrapper.model_type, older));
      TemporaryFolder folder;
      make_wrapper(folder / "w", wrapper, older);
      const Loaded got(folder / "w"), want(golden(wrapper.text));
      EXPECT_EQ(got.spec, want.spec);
      for (const Parameter& parameter : want.table.all())
        EXPECT_EQ(got.values(parameter.name), want.values(parameter.name)) << parameter.name;
    }
}

TEST(Wrapper, OtherTensorsAndFilesGoThroughAnExportUnchanged) {
  for (const WrapperCase& wrapper : kWrappers)
    for (const bool older : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, older {}", wrapper.model_type, older));
      TemporaryFolder folder;
      make_wrapper(folder / "w", wrapper, older);
      Loaded(folder / "w").save(folder / "w", folder / "out");
      EXPECT_EQ(read_tensors(folder / "out/model.safetensors"), read_tensors(folder / "w/model.safetensors"));
      EXPECT_EQ(read_json(folder / "out/config.json"), read_json(folder / "w/config.json"));
      for (const char* name : {"preprocessor_config.json", "README.md", "generation_config.json"})
        EXPECT_EQ(read_text((folder / "out") + "/" + name), read_text((folder / "w") + "/" + name)) << name;
    }
}

TEST(Wrapper, ChangedWeightsAndTheTiedCopyOfThemAreWritten) {
  TemporaryFolder folder;
  make_wrapper(folder / "w", kWrappers[0], false);
  TensorMap tensors = read_tensors(folder / "w/model.safetensors");
  tensors["lm_head.weight"] = tensors.at("model.language_model.embed_tokens.weight");
  write_tensors(folder / "w/model.safetensors", tensors);
  Loaded model(folder / "w");
  std::vector<float> values = model.values("embedding.token.weight");
  values[0] += 1;
  model.state.write_master(model.table.find("embedding.token.weight"), values);
  model.save(folder / "w", folder / "out");
  TensorMap out = read_tensors(folder / "out/model.safetensors");
  EXPECT_EQ(out["model.language_model.embed_tokens.weight"].at<float>(0), values[0]);
  EXPECT_EQ(out["lm_head.weight"], out["model.language_model.embed_tokens.weight"]);
}

TEST(Wrapper, TheTypeOfTheWeightsIsNamedWhereItWas) {
  TemporaryFolder folder;
  make_wrapper(folder / "w", kWrappers[0], false);
  const Loaded model(folder / "w");
  export_huggingface(folder / "out", model.spec, model.table, model.state, "", DType::bf16, {},
                     read_generation_files(folder / "w", read_model_config(folder / "w")));
  const Json config = read_json(folder / "out/config.json");
  EXPECT_EQ(config["dtype"], "bfloat16");
  EXPECT_EQ(config["text_config"]["dtype"], "bfloat16");
  EXPECT_FALSE(config.contains("torch_dtype"));
  const TensorMap out = read_tensors(folder / "out/model.safetensors");
  EXPECT_EQ(out.at("model.language_model.norm.weight").dtype, "BF16");
  EXPECT_EQ(out.at("mtp.layers.0.counts").dtype, "I64");
}

TEST(Wrapper, AnExportNeedsTheFolderThatTheModelBeganAs) {
  TemporaryFolder folder;
  make_wrapper(folder / "w", kWrappers[0], false);
  const Loaded model(folder / "w");
  const std::string kept = read_generation_files(folder / "w", read_model_config(folder / "w"));
  const auto save = [&] {
    export_huggingface(folder / "out", model.spec, model.table, model.state, "", DType::f32, {}, kept);
  };
  fs::rename(folder / "w", folder / "gone");
  EXPECT_ERROR(save(), ErrorKind::config, "other files) go into the export, but it is not there; put the folder back");
  make_wrapper(folder / "w", kWrappers[1], false);
  EXPECT_ERROR(save(), ErrorKind::config, "but its config.json is another one now; put the folder back");
  EXPECT_FALSE(fs::exists(folder / "out/config.json"));
}

TEST(Wrapper, OtherTextModelsAndUnknownTensorsAreNamed) {
  TemporaryFolder folder;
  make_wrapper(folder / "w", kWrappers[3], false);
  Json config = read_json(folder / "w/config.json");
  config["text_config"]["model_type"] = "ministral3";
  write_text(folder / "w/config.json", dump_json(config, 1));
  EXPECT_ERROR(read_huggingface_spec(folder / "w"), ErrorKind::data,
               "\"model_type\" of \"text_config\" is \"ministral3\", but only \"mistral\" is supported in this family");
  make_wrapper(folder / "x", kWrappers[0], false);
  TensorMap tensors = read_tensors(folder / "x/model.safetensors");
  tensors["model.language_model.layers.0.new.weight"] = {"F32", {1}, "abcd"};
  write_tensors(folder / "x/model.safetensors", tensors);
  EXPECT_ERROR(Loaded(folder / "x"), ErrorKind::data, "layers.0.new.weight: unexpected, F32 [1]");
}

}  // namespace
}  // namespace trireme
