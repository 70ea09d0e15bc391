// Folders that are almost those of a model.
#include "checkpoint/huggingface/folder_kind.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/model_folder.h"
#include "tests/checkpoint/small_run.h"
#include "tests/checkpoint/tensor_map.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

std::string golden(const std::string& model) { return (fs::path(source_dir()) / "tests" / "golden" / model).string(); }

class FolderKind : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  /// A golden model's configuration, and its weights under another name.
  void make(const std::string& model, const std::string& weights, const std::string& config = "config.json",
            const std::string& folder = "m") {
    fs::create_directories(path(folder));
    fs::copy_file(golden(model) + "/config.json", path(folder + "/" + config), fs::copy_options::overwrite_existing);
    if (!weights.empty()) fs::copy_file(golden(model) + "/model.safetensors", path(folder + "/" + weights));
  }
  void write_config(const Json& config) { write_text(path("m/config.json"), config.dump()); }
  /// The embedding of the model that the folder is opened as.
  static std::vector<float> embedding(const std::string& folder) {
    const ModelFolder opened = open_model(folder);
    const ParameterTable table(opened.spec);
    TrainingState state(table, DType::f32, false);
    load_model(opened, opened.spec, table, state);
    const Parameter& p = table.find("embedding.token.weight");
    std::vector<float> values(static_cast<size_t>(p.stored_shape.count()));
    state.read_master(p, values);
    return values;
  }
  /// The golden model's tensors in `count` files of this form, without an index.
  void shard(const std::string& model, const std::string& form, size_t count) {
    const TensorMap all = read_tensors(golden(model) + "/model.safetensors");
    std::vector<TensorMap> shards(count);
    size_t n = 0;
    for (const auto& [name, tensor] : all) shards[n++ % count][name] = tensor;
    for (size_t i = 0; i < count; ++i)
      write_tensors(path(fmt::format("m/{}-{:05}-of-{:05}.safetensors", form, i + 1, count)), shards[i]);
  }
  TemporaryFolder folder_;
};

TEST_F(FolderKind, AFamilyIsKnownByItsArchitectureOrItsFields) {
  for (const char* model :
       {"gpt2", "opt", "neox-parallel", "bert-mlm", "bert-classifier", "distilbert-mlm", "roberta-mlm"}) {
    SCOPED_TRACE(model);
    fs::remove_all(path("m"));
    make(model, "model.safetensors");
    Json config = read_json(path("m/config.json"));
    const std::string type = config.at("model_type");
    const Spec want = read_huggingface_spec(path("m"));
    config.erase("model_type");
    write_config(config);
    EXPECT_EQ(read_huggingface_spec(path("m")), want);
    EXPECT_EQ(read_model_config(path("m")).at("model_type"), type);
    config["model_type"] = nullptr;
    write_config(config);
    EXPECT_EQ(read_huggingface_spec(path("m")), want);
    config.erase("architectures");
    write_config(config);
    if (type == "roberta") {
      EXPECT_ERROR(read_huggingface_spec(path("m")), ErrorKind::data, "\"model_type\" is missing, and neither");
    } else {
      EXPECT_EQ(read_model_config(path("m")).at("model_type"), type);
    }
    config["architectures"] = {"MambaForCausalLM"};
    write_config(config);
    EXPECT_ERROR(read_huggingface_spec(path("m")), ErrorKind::data,
                 "add \"model_type\" with one of gpt2, opt, gpt_neox, bert, distilbert, roberta");
  }
}

TEST_F(FolderKind, OneVariantOfTheWeightsIsRead) {
  const auto want = embedding(golden("gpt2"));
  for (const char* name : {"model.fp16.safetensors", "model.bf16.safetensors", "model.ema.safetensors"}) {
    SCOPED_TRACE(name);
    fs::remove_all(path("m"));
    make("gpt2", name);
    EXPECT_EQ(embedding(path("m")), want);
  }
  fs::copy_file(path("m/model.ema.safetensors"), path("m/model.fp16.safetensors"));
  EXPECT_ERROR(embedding(path("m")), ErrorKind::data,
               "holds several variants of the weights, but none is named model.safetensors: model.ema.safetensors, "
               "model.fp16.safetensors; rename the one to use");
  fs::copy_file(path("m/model.ema.safetensors"), path("m/model.safetensors"));
  EXPECT_EQ(embedding(path("m")), want);
}

TEST_F(FolderKind, CompleteShardsNeedNoIndex) {
  const auto want = embedding(golden("gpt2"));
  for (const char* form : {"model", "model.fp16"}) {
    for (const size_t count : {size_t{1}, size_t{2}, size_t{5}}) {
      SCOPED_TRACE(fmt::format("{} {}", form, count));
      fs::remove_all(path("m"));
      make("gpt2", "");
      shard("gpt2", form, count);
      EXPECT_EQ(embedding(path("m")), want);
    }
    fs::remove(path(fmt::format("m/{}-00002-of-00005.safetensors", form)));
    fs::remove(path(fmt::format("m/{}-00005-of-00005.safetensors", form)));
    EXPECT_ERROR(embedding(path("m")), ErrorKind::io, "3 shards of weights, but 2, 5 of 5 are missing");
  }
  fs::remove_all(path("m"));
  make("gpt2", "");
  shard("gpt2", "model", 2);
  fs::copy_file(golden("gpt2") + "/model.safetensors", path("m/model-00002-of-00002.safetensors"),
                fs::copy_options::overwrite_existing);
  EXPECT_ERROR(embedding(path("m")), ErrorKind::data, " is also in ");
}

TEST_F(FolderKind, TheNewestCheckpointOfATrainerIsTaken) {
  for (const char* step : {"checkpoint-500", "checkpoint-1500", "checkpoint-1000"})
    make(std::string(step) == "checkpoint-1500" ? "opt" : "gpt2", "model.safetensors", "config.json",
         std::string("m/") + step);
  fs::create_directories(path("m/checkpoint-best"));
  fs::create_directories(path("m/checkpoint-9000"));  // was being written
  testing::internal::CaptureStderr();
  const ModelFolder opened = open_model(path("m"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("using the newest: " + path("m/checkpoint-1500")));
  EXPECT_EQ(opened.path, path("m/checkpoint-1500"));
  EXPECT_EQ(opened.spec, read_huggingface_spec(golden("opt")));
  make("gpt2", "model.safetensors");  // the Trainer's final weights are preferred
  EXPECT_EQ(open_model(path("m")).path, path("m"));
}

TEST_F(FolderKind, AnAdapterIsNamedWithItsBaseModel) {
  fs::create_directories(path("m"));
  write_text(path("m/adapter_config.json"), R"({"peft_type": "LORA", "base_model_name_or_path": "facebook/opt-125m"})");
  write_text(path("m/adapter_model.safetensors"), "");
  EXPECT_ERROR(
      open_model(path("m")), ErrorKind::data,
      "m is an adapter (PEFT, \"LORA\") of facebook/opt-125m, not a complete model; name the model, and the adapter "
      "beside it: `trireme sample --model MODEL --adapter " +
          path("m") + "`");
}

TEST_F(FolderKind, BertsFirstConfigurationIsNamedWithWhatToType) {
  make("bert-mlm", "model.safetensors", "bert_config.json");
  EXPECT_ERROR(open_model(path("m")), ErrorKind::data,
               "`cp " + path("m") + "/bert_config.json " + path("m") + "/config.json`");
  Json config = read_json(path("m/bert_config.json"));
  for (const char* field : {"model_type", "architectures"}) config.erase(field);
  write_config(config);
  EXPECT_EQ(embedding(path("m")), embedding(golden("bert-mlm")));
}

TEST_F(FolderKind, WeightsUnderANameOfTheirOwnAreNamed) {
  for (const auto& [name, plain] : {std::pair{"pytorch_model.bf16.safetensors", "model.safetensors"},
                                    {"weights.safetensors", "model.safetensors"},
                                    {"best.pth", "pytorch_model.bin"},
                                    {"last.ckpt", "pytorch_model.bin"}}) {
    SCOPED_TRACE(name);
    fs::remove_all(path("m"));
    make("gpt2", name);
    EXPECT_ERROR(open_model(path("m")), ErrorKind::data,
                 fmt::format("if {1} holds them, run `cp {0}/{1} {0}/{2}`", path("m"), name, plain));
    fs::copy_file(path("m/" + std::string(name)), path("m/model.safetensors"));
    EXPECT_EQ(open_model(path("m")).path, path("m"));
  }
}

TEST_F(FolderKind, ModelsInFoldersBelowAreNamed) {
  for (const char* below : {"m/0_Transformer", "m/snapshots/abc123", "m/final"}) {
    SCOPED_TRACE(below);
    fs::remove_all(path("m"));
    make("gpt2", "model.safetensors", "config.json", below);
    EXPECT_ERROR(open_model(path("m")), ErrorKind::data,
                 "m is not a model itself, but 1 folder in it is: " + path(below) + "; name that one");
  }
  make("gpt2", "model.safetensors", "config.json", "m/other");
  EXPECT_ERROR(open_model(path("m")), ErrorKind::data, "2 folders in it are: ");
  fs::create_directories(path("m/step-00000005"));  // a run beside its exports
  EXPECT_ERROR(open_model(path("m")), ErrorKind::io, "has no checkpoint");
}

TEST_F(FolderKind, FormsOfMetaAndOfShardedTrainingAreNamed) {
  fs::create_directories(path("m"));
  write_text(path("m/params.json"), "{}");
  for (const char* name : {"consolidated.00.pth", "consolidated.safetensors"}) {
    write_text(path(std::string("m/") + name), "x");
    EXPECT_ERROR(open_model(path("m")), ErrorKind::data, "weights in the form of Meta or Mistral");
    fs::remove(path(std::string("m/") + name));
  }
  for (const char* name : {"pytorch_model_fsdp_0/__0_0.distcp", "__0_0.distcp"}) {
    fs::remove_all(path("m"));
    fs::create_directories(path(std::string("m/") + name).substr(0, path(std::string("m/") + name).rfind('/')));
    write_text(path(std::string("m/") + name), "x");
    EXPECT_ERROR(open_model(path("m")), ErrorKind::data, "a sharded checkpoint of PyTorch (FSDP)");
  }
  fs::remove_all(path("m"));
  make("gpt2", "");
  fs::create_directories(path("m/onnx"));
  write_text(path("m/onnx/model.onnx"), "x");
  EXPECT_ERROR(open_model(path("m")), ErrorKind::data, "an ONNX graph, which is not supported");
}

TEST_F(FolderKind, WeightsOfOtherProgramsAreNamedWithWhatToDo) {
  for (const auto& [name, message] :
       {std::pair{"model.Q4_K_M.gguf", "a GGUF file of llama.cpp, which is not supported"},
        {"tf_model.h5", "weights of TensorFlow (Keras), which is not supported; in Python"},
        {"bert_model.ckpt.index", "a checkpoint of TensorFlow 1, which is not supported"},
        {"flax_model.msgpack", "from_flax=True"},
        {"model.onnx", "an ONNX graph, which is not supported"},
        {"rust_model.ot", "weights of rust-bert"}}) {
    SCOPED_TRACE(name);
    for (const bool with_config : {true, false}) {
      fs::remove_all(path("m"));
      fs::create_directories(path("m"));
      if (with_config) make("gpt2", "");
      write_text(path(std::string("m/") + name), "x");
      EXPECT_ERROR(open_model(path("m")), ErrorKind::data, message);
    }
  }
}

}  // namespace
}  // namespace trireme
