// The output of `trireme export --format neox`, read back, and by torch if installed (tests/peers).
#include "checkpoint/neox/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/torch/value.h"
#include "checkpoint/torch/writer.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/torch_bytes.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

Spec neox_spec(Residual residual = Residual::parallel) {
  Spec spec = small_spec(16);
  spec.heads = 4;
  spec.residual = residual;
  spec.position = Position::rotary;
  spec.rotary_dims = 2;
  spec.tied_head = false;
  return spec;
}

struct Model {
  ModelFolder folder;
  ParameterTable table;
  TrainingState state;
  explicit Model(const std::string& path)
      : folder(open_model(path)), table(folder.spec), state(table, DType::f32, false) {
    load_model(folder, folder.spec, table, state);
  }
};

void export_huggingface_model(const std::string& path, const Spec& spec, DType dtype) {
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, false);
  fill(state, table, 3);
  export_huggingface(path, spec, table, state, "", dtype);
}

/// HF -> NeoX -> HF: every byte of the weights and of the configuration.
void expect_round_trip(const Spec& spec, int tensor, int pipeline, DType dtype) {
  SCOPED_TRACE(fmt::format("tensor {} pipeline {} {}", tensor, pipeline, name_of(dtype)));
  TemporaryFolder folder;
  const std::string before = folder / "before", neox = folder / "neox", after = folder / "after";
  export_huggingface_model(before, spec, dtype);
  const Model theirs(before);
  export_neox(neox, theirs.folder.spec, theirs.table, theirs.state,
              {.tensor = tensor, .pipeline = pipeline, .dtype = dtype, .progress = {}, .config_json = {}});
  const Model ours(neox);
  export_huggingface(after, ours.folder.spec, ours.table, ours.state, "", dtype);
  for (const char* file : {"model.safetensors", "config.json"})
    EXPECT_TRUE(read_text(before + "/" + file) == read_text(after + "/" + file)) << file;
}

TEST(NeoxExport, HuggingFaceFoldersComeBackByteForByte) {
  for (const Residual residual : {Residual::parallel, Residual::sequential}) {
    for (const int tensor : {1, 2, 4}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        expect_round_trip(neox_spec(residual), tensor, 1, dtype);
        expect_round_trip(neox_spec(residual), tensor, 0, dtype);
        expect_round_trip(neox_spec(residual), tensor, 2, dtype);
      }
    }
  }
}

TEST(NeoxExport, TiedHeadsAndVocabulariesThatRanksDoNotDivideComeBackToo) {
  Spec spec = neox_spec();
  spec.tied_head = true;
  expect_round_trip(spec, 2, 1, DType::f32);
  spec.vocabulary = spec.vocabulary_rows = 37;
  expect_round_trip(spec, 4, 2, DType::f32);
  expect_round_trip(spec, 2, 0, DType::bf16);
  spec.biases.qkv = spec.biases.attention_out = false;
  expect_round_trip(spec, 1, 1, DType::f32);
}

TEST(NeoxExport, ModelsOfOtherFamiliesComeBackWhereNeoxHasThem) {
  Spec spec = small_spec();  // GPT-2's choices
  spec.vocabulary_rows = spec.vocabulary;
  TemporaryFolder folder;
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, false);
  fill(state, table, 5);
  export_neox(folder / "neox", spec, table, state, {.tensor = 2, .pipeline = 1});
  const Model back(folder / "neox");
  Spec want = spec;
  want.vocabulary_rows = back.folder.spec.vocabulary_rows;
  EXPECT_EQ(back.folder.spec, want);
  for (const Parameter& p : table.all()) {
    std::vector<float> was(static_cast<size_t>(p.stored_shape.count())), is(was.size());
    state.read_master(p, was);
    back.state.read_master(back.table.find(p.name), is);
    EXPECT_EQ(was, is) << p.name;
  }
}

TEST(NeoxExport, BiasesThatEveryRankAddsAreDivided) {
  const auto bias = [](Residual residual) {
    TemporaryFolder folder;
    const Spec spec = neox_spec(residual);
    const ParameterTable table(spec);
    TrainingState state(table, DType::f32, false);
    fill(state, table, 1);
    export_neox(folder / "neox", spec, table, state, {.tensor = 4, .pipeline = 1});
    std::vector<float> whole(8);
    state.read_master(table.find("block.0.attention.out.bias"), whole);
    const TorchArchive file(folder / "neox/global_step0/layer_02-model_03-model_states.pt");
    return whole[0] / read_f32(file.root().at("attention.dense.bias").tensor(), file.path())[0];
  };
  EXPECT_EQ(bias(Residual::parallel), 4);
  EXPECT_EQ(bias(Residual::sequential), 1);
}

TEST(NeoxExport, ProgressOfTheRunIsKept) {
  TemporaryFolder folder;
  const Spec spec = neox_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, false);
  fill(state, table, 1);
  NeoxExport options;
  options.progress.step = 12;
  options.progress.samples = 384;
  export_neox(folder / "neox", spec, table, state, options);
  EXPECT_EQ(read_text(folder / "neox/latest"), "global_step12");
  const CheckpointFolder back = open_checkpoint(folder / "neox");
  EXPECT_EQ(back.origin, CheckpointOrigin::neox_weights);
  EXPECT_EQ(back.facts.progress.step, 12);
  EXPECT_EQ(back.facts.progress.samples, 384);
  TrainingState trained(table, DType::f32, true);
  EXPECT_ERROR(load_checkpoint(back, table, trained), ErrorKind::data, "resuming a run needs the optimizer's state");
}

TEST(NeoxExport, WhatNeoxHasNoModelForIsRefused) {
  const auto refused = [](auto change, const NeoxExport& options = {}) {
    Spec spec = neox_spec();
    change(spec);
    const ParameterTable table(spec);
    TrainingState state(table, DType::f32, false);
    TemporaryFolder folder;
    try {
      export_neox(folder / "neox", spec, table, state, options);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::config);
      EXPECT_FALSE(fs::exists(folder / "neox"));
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(refused([](Spec& s) { s.biases.mlp_out = s.biases.mlp_in = false; }),
              HasSubstr("GPT-NeoX does not support this model: with a parallel residual, NeoX needs the MLP's biases"));
  EXPECT_THAT(refused([](Spec& s) { s.biases.qkv = false; }),
              HasSubstr("only one of the two linear layers of a branch has a bias"));
  EXPECT_THAT(refused([](Spec& s) { s.embedding_norm = true; }),
              HasSubstr("its embedding is not just the sum of tokens and positions"));
  EXPECT_THAT(refused([](Spec&) {}, {.tensor = 3}), HasSubstr("tensor 3 does not divide 4 heads; 1, 2, 4 do"));
  EXPECT_THAT(refused([](Spec&) {}, {.tensor = 1, .pipeline = 5}),
              HasSubstr("--pipeline 5 stages are more than 2 layers"));
}

// ---- the writer and the reader of values

TEST(TorchWriter, WritesWhatTheReaderReads) {
  TemporaryFolder folder;
  const TorchTensorItem tensor{DType::f32, {2, 3}, [] {
                                 const std::vector<float> values{0, 1, 2, 3, 4, 5};
                                 const auto bytes = std::as_bytes(std::span(values));
                                 return std::vector<std::byte>(bytes.begin(), bytes.end());
                               }};
  write_torch(folder / "x.pt", TorchItem::Entries{{"none", {}},
                                                  {"small", int64_t{-7}},
                                                  {"large", int64_t{1} << 40},
                                                  {"real", 0.25},
                                                  {"text", "abc"},
                                                  {"inner", TorchItem::Entries{{"tensor", tensor}}}});
  const TorchArchive file(folder / "x.pt");
  const TorchValue root = file.root();
  EXPECT_FALSE(root.find("none"));
  EXPECT_EQ(root.at("small").integer(), -7);
  EXPECT_EQ(root.at("large").integer(), int64_t{1} << 40);
  EXPECT_EQ(root.at("real").number(), 0.25);
  EXPECT_EQ(root.at("text").text(), "abc");
  const TorchTensor read = root.at("inner").at("tensor").tensor();
  EXPECT_EQ(read.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read_f32(read, file.path()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_ERROR(root.at("inner").at("absent"), ErrorKind::data, "x.pt: inner.absent is missing");
  EXPECT_ERROR(root.at("text").integer(), ErrorKind::data, "x.pt: text is not a whole number");
  EXPECT_ERROR(root.at("small").tensor(), ErrorKind::data, "x.pt: small is not a tensor");
  EXPECT_ERROR(root.at("small").find("x"), ErrorKind::data, "x.pt: small is not a dictionary");
}

std::unique_ptr<TorchArchive> archive_of(const TemporaryFolder& folder, const std::string& value) {
  write_text(folder / "x.pt", torch_of(pickle_of(pickle_dict({{"x", value}, {"last", "K\x07"}}))));
  return std::make_unique<TorchArchive>(folder / "x.pt");
}

TEST(TorchValue, ObjectsAreOpaqueAndNothingIsCalled) {
  TemporaryFolder folder;
  const std::string marker = folder / "called";
  const std::string values[] = {
      "cos\nsystem\n(" + pickle_text("touch " + marker) + "tR",
      "cbuiltins\neval\n(" + pickle_text("open('" + marker + "', 'w')") + "tR",
      "csubprocess\nPopen\n" + pickle_text("touch " + marker) + "\x85\x81}b",
      pickle_text("os") + pickle_text("system") + "\x93" + pickle_text("touch " + marker) + "\x85R",
      "ca.b\nOwn\n)\x81}(" + pickle_text("size") + "K\x03ub",
      "ca.b\nOwn\n)R(" + pickle_text("k") + "K\x03u",  // a dictionary's class: its items are not kept
      "ca.b\nOwn\n)R(K\x01"
      "K\x02"
      "e",
      "\x8f(K\x01K\x02\x90",
      "\x8a\x09" + std::string(9, '\x7f'),
  };
  for (const std::string& value : values) {
    const auto file = archive_of(folder, value);
    EXPECT_EQ(file->root().at("last").integer(), 7);
    EXPECT_FALSE(fs::exists(marker));
  }
  const auto object = archive_of(folder, values[4]);
  EXPECT_EQ(object->root().at("x").at("size").integer(), 3);
  const auto number = archive_of(folder, "ca.b\nStage\nK\x02\x85R");
  EXPECT_EQ(number->root().at("x").integer(), 2);
  EXPECT_ERROR(archive_of(folder, "ca\nb\n)R")->root().at("x").tensor(), ErrorKind::data, "x is not a tensor");
  EXPECT_ERROR(archive_of(folder, "ctorch._utils\n_rebuild_tensor_v2\n((" + pickle_text("storage") + "ca\nMyStorage\n" +
                                      pickle_text("0") + pickle_text("cpu") + "K\x01tQK\x00)(t\x89)tR"),
               ErrorKind::data, "MyStorage is not a known class of storages");
}

}  // namespace
}  // namespace trireme
