// Checkpoints of nanoGPT and of Intel's recipe against the same model in Hugging Face's files.
#include "checkpoint/nanogpt.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/model_folder.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/torch_bytes.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

std::string sample(const std::string& name) {
  return (fs::path(source_dir()) / "tests" / "golden" / "torch" / name).string();
}

struct Loaded {
  ModelFolder folder;
  ParameterTable table;
  TrainingState state;
  explicit Loaded(const std::string& path)
      : folder(open_model(path)), table(folder.spec), state(table, DType::f32, false) {
    load_model(folder, folder.spec, table, state);
  }
};

/// The state that the Hugging Face folder of the same model gives.
void expect_the_same_model(const Loaded& loaded) {
  const Loaded want(sample("huggingface"));
  EXPECT_TRUE(same_state(loaded.state, want.state));
  Spec spec = want.folder.spec;
  spec.embedding_dropout = loaded.folder.spec.embedding_dropout;
  spec.attention_dropout = loaded.folder.spec.attention_dropout;
  spec.residual_dropout = loaded.folder.spec.residual_dropout;
  EXPECT_EQ(loaded.folder.spec, spec);
}

TEST(Nanogpt, CheckpointsAreTheModelOfTheirArguments) {
  expect_the_same_model(Loaded(sample("ckpt.pt")));
  TemporaryFolder folder;
  fs::copy_file(sample("ckpt.pt"), folder / "ckpt.pt");
  expect_the_same_model(Loaded(folder.path()));
}

TEST(Nanogpt, ACheckpointHasTheTokenizerOfItsCharacterDataset) {
  TemporaryFolder folder;
  fs::create_directories(folder / "out");
  fs::create_directories(folder / "data/x");  // from config.dataset of the checkpoint
  fs::copy_file(sample("ckpt.pt"), folder / "out/ckpt.pt");
  EXPECT_EQ(find_nanogpt_meta(folder / "out/ckpt.pt"), "");
  EXPECT_EQ(open_model(folder / "out").tokenizer_json, "");
  // pickle.dumps({"itos": {0: "a", 1: "b"}}, protocol=2)
  const std::string meta(
      "\x80\x02}q\x00X\x04\x00\x00\x00itosq\x01}q\x02(K\x00X\x01\x00\x00\x00"
      "aq\x03K\x01X\x01\x00\x00\x00"
      "bq\x04us.",
      43);
  write_text(folder / "data/x/meta.pkl", meta);
  EXPECT_EQ(find_nanogpt_meta(folder / "out/ckpt.pt"), folder / "data/x/meta.pkl");
  EXPECT_NE(open_model(folder / "out").tokenizer_json, "");
  EXPECT_NE(open_model(folder / "out/ckpt.pt").tokenizer_json, "");
  write_text(folder / "out/meta.pkl", meta);
  fs::remove_all(folder / "data");
  EXPECT_NE(open_model(folder / "out").tokenizer_json, "") << "beside the checkpoint";
  EXPECT_EQ(find_nanogpt_meta(sample("bare.pt")), "") << "a bare dictionary of tensors names no dataset";
}

TEST(Nanogpt, FilesWithoutArgumentsTakeTheConfigBesideThem) {
  for (const char* name : {"snapshot.pt", "bare.pt"}) {
    SCOPED_TRACE(name);
    TemporaryFolder folder;
    fs::copy_file(sample(name), folder / (std::string(name) == "bare.pt" ? "ckpt.pt" : name));
    EXPECT_ERROR(open_model(folder.path()), ErrorKind::data,
                 "has no model_args with the number of heads; put the config.json");
    // The activation is these programs', whatever the model they began with had.
    std::string config = read_text(sample("huggingface/config.json"));
    config.replace(config.find("\"gelu\""), 6, "\"gelu_new\"");
    write_text(folder / "config.json", config);
    expect_the_same_model(Loaded(folder.path()));
  }
}

TEST(Nanogpt, AnotherFamilysConfigIsRefused) {
  TemporaryFolder folder;
  fs::copy_file(sample("bare.pt"), folder / "ckpt.pt");
  fs::copy_file(fs::path(source_dir()) / "tests/golden/opt/config.json", folder / "config.json");
  EXPECT_ERROR(open_model(folder.path()), ErrorKind::data,
               "nanoGPT's models are GPT-2 models, but the config.json beside it is for opt");
}

TEST(Nanogpt, BadArgumentsAreNamed) {
  const auto error = [](const std::string& args) {
    TemporaryFolder folder;
    const std::string w = pickle_tensor(pickle_storage("FloatStorage", "0", 6), 0, {6}, {1});
    write_text(folder / "ckpt.pt",
               torch_of(pickle_of(pickle_dict({{"model", pickle_dict({{"w", w}})}, {"model_args", args}}))));
    try {
      (void)open_model(folder / "ckpt.pt");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error("N"), testing::HasSubstr("model_args is not a dictionary"));
  EXPECT_THAT(error("}"), testing::HasSubstr("ckpt.pt: model_args: \"n_layer\" is missing"));
  EXPECT_THAT(error(pickle_dict({{"n_layer", "]"}})), testing::HasSubstr("n_layer is neither a number nor a string"));
  const auto sizes = [](int heads) {
    return pickle_dict({{"n_layer", pickle_number(1)},
                        {"n_head", pickle_number(static_cast<uint64_t>(heads))},
                        {"n_embd", pickle_number(8)},
                        {"block_size", pickle_number(4)},
                        {"bias", "\x88"},
                        {"vocab_size", pickle_number(5)}});
  };
  EXPECT_THAT(error(sizes(3)), testing::HasSubstr("ckpt.pt: model: 3 heads do not divide width 8"));
  EXPECT_THAT(error(sizes(-1)), testing::HasSubstr("\"n_head\" is -1"));
  EXPECT_EQ(error(sizes(2)), "no error");
}

TEST(Nanogpt, WeightsThatDoNotFitAreListed) {
  const std::string w = pickle_tensor(pickle_storage("FloatStorage", "0", 6), 0, {6}, {1});
  TemporaryFolder folder;
  write_text(folder / "ckpt.pt", torch_of(pickle_of(pickle_dict({{"transformer.ln_f.weight", w}, {"x", w}}))));
  fs::copy_file(sample("huggingface/config.json"), folder / "config.json");
  EXPECT_ERROR(Loaded(folder.path()), ErrorKind::data, "does not fit the model (29 tensors)");
  EXPECT_ERROR(Loaded(folder.path()), ErrorKind::data, "ln_f.weight: shape [6], expected [8]");
  EXPECT_ERROR(Loaded(folder.path()), ErrorKind::data, "x: unexpected, F32 [6]");
}

TEST(ModelFolder, FilesOfOtherFormatsAreCalledByTheirName) {
  TemporaryFolder folder;
  const std::string pad(64, '\0');
  const std::pair<std::string, const char*> files[] = {
      {"GGUF" + pad, "format GGUF is recognised but not supported; convert"},
      {"PK\x03\x04" + pad + "w.npy" + pad, "format npz is recognised but not supported"},
      {"\x08\x07\x12\x07pytorch", "format ONNX is recognised but not supported"}};
  for (const auto& [bytes, text] : files) {
    write_text(folder / "model", bytes);
    EXPECT_ERROR(open_model(folder / "model"), ErrorKind::data, text);
  }
  EXPECT_ERROR(open_model(sample("huggingface/model.safetensors")), ErrorKind::io,
               "is a file; give the folder that contains it and its config.json");
  std::filesystem::create_directory(folder / "alone");
  write_text(folder / "alone/model.safetensors", "");
  EXPECT_ERROR(open_model(folder / "alone"), ErrorKind::io,
               "holds weights but no config.json, which describes the model");
  EXPECT_ERROR(open_model(folder / "absent"), ErrorKind::io, "absent does not exist");
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_ERROR(open_model("no-such-gpt2"), ErrorKind::io,
               "HF_HUB_OFFLINE is set, so the Hugging Face hub is not used; run `trireme fetch no-such-gpt2` on a "
               "connected machine and copy its folder ");
}

TEST(TorchFolder, EveryContainerGivesTheSameModel) {
  const Loaded want(sample("huggingface"));
  for (const char* name : {"zip.bin", "stream.bin", "views.bin"}) {
    SCOPED_TRACE(name);
    TemporaryFolder folder;
    fs::copy_file(sample("huggingface/config.json"), folder / "config.json");
    fs::copy_file(sample(name), folder / "pytorch_model.bin");
    const Loaded loaded(folder.path());
    EXPECT_EQ(loaded.folder.spec, want.folder.spec);
    EXPECT_TRUE(same_state(loaded.state, want.state));
  }
  TemporaryFolder folder;
  for (const auto& file : fs::directory_iterator(sample("sharded"))) fs::copy(file, folder.path());
  fs::copy_file(sample("huggingface/config.json"), folder / "config.json");
  EXPECT_TRUE(same_state(Loaded(folder.path()).state, want.state));
}

TEST(TorchFolder, SafetensorsArePreferred) {
  TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    fs::copy_file(sample("huggingface") + "/" + name, folder / name);
  write_text(folder / "pytorch_model.bin", "not read");
  write_text(folder / "ckpt.pt", "not read");
  EXPECT_TRUE(same_state(Loaded(folder.path()).state, Loaded(sample("huggingface")).state));
}

}  // namespace
}  // namespace trireme
