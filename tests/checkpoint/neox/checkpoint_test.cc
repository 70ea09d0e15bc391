// Checkpoints of GPT-NeoX: tests/golden/neox (scripts/make_neox_samples.py) and, if the test data is present, files
// written by NeoX itself.
#include "checkpoint/neox/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parity/parity.h"
#include "checkpoint/torch/zip_archive.h"
#include "config/document.h"
#include "ops/backend.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

const char* const kSamples[] = {"zero", "bf16", "plain", "fused"};

std::string sample(const std::string& name) {
  return (fs::path(source_dir()) / "tests" / "golden" / "neox" / name).string();
}

/// A parameter's part of the expected complete tensor.
std::vector<float> part_of(const std::vector<float>& whole, const Parameter& own) {
  std::vector<float> part(static_cast<size_t>(own.stored().elements()));
  for_each_run(own.stored(), whole_box(own.global_shape), own.stored(), [&](int64_t from, int64_t to, int64_t count) {
    std::copy_n(whole.begin() + from, count, part.begin() + to);
  });
  return part;
}

std::vector<float> floats_of(ConstView view) { return {view.as<float>(), view.as<float>() + view.count()}; }

/// Every parameter of the table has the expected values of `prefix` in `got`.
void expect_values(const SafetensorsFile& want, const std::string& prefix, const ParameterTable& table,
                   ConstView flat) {
  for (const Parameter& own : table.all()) {
    const SafetensorsEntry* entry = want.find(prefix + own.name);
    ASSERT_TRUE(entry) << own.name;
    EXPECT_EQ(floats_of(view_of(flat, own)), part_of(want.read_f32(*entry), own)) << prefix << own.name;
  }
}

class EverySample : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Neox, EverySample, ::testing::ValuesIn(kSamples));

TEST_P(EverySample, GivesWeightsMomentsAndProgress) {
  const SafetensorsFile want(sample(GetParam()) + "/expected.safetensors");
  const CheckpointFolder folder = open_checkpoint(sample(GetParam()));
  EXPECT_EQ(folder.origin, CheckpointOrigin::neox);
  EXPECT_EQ(folder.path, sample(GetParam()) + "/global_step5");
  const RunCounters& progress = folder.facts.progress;
  EXPECT_EQ(progress.step, 5);
  EXPECT_EQ(progress.samples, 30);
  EXPECT_EQ(progress.updates, 4);
  EXPECT_EQ(progress.skipped, 1);
  const ParameterTable table(folder.facts.spec);
  TrainingState state(table, DType::f32, true);
  load_checkpoint(folder, table, state);
  expect_values(want, "weight.", table, state.weights());
  expect_values(want, "m.", table, state.state(kAdamM));
  expect_values(want, "v.", table, state.state(kAdamV));
}

TEST_P(EverySample, ARankReadsItsBoxesOnly) {
  const SafetensorsFile want(sample(GetParam()) + "/expected.safetensors");
  const CheckpointFolder folder = open_checkpoint(sample(GetParam()));
  const ParameterTable whole(folder.facts.spec);
  TrainingState all(whole, DType::f32, true);
  const uint64_t bytes = load_checkpoint(folder, whole, all);
  for (int rank = 0; rank < 2; ++rank) {
    ModelPart part;
    (rank == 0 ? part.last_layer : part.first_layer) = 1;
    (rank == 0 ? part.head : part.embedding) = false;
    const ParameterTable table(folder.facts.spec, InitScheme::gpt2,
                               {.part = part, .tensor_rank = rank, .tensor_size = 2});
    TrainingState state(table, DType::f32, true);
    const uint64_t own = load_checkpoint(folder, table, state);
    // Half of the layers and half of most tensors: a quarter, and norms and biases of all tensor ranks.
    EXPECT_LT(static_cast<double>(own), 0.36 * static_cast<double>(bytes));
    expect_values(want, "weight.", table, state.weights());
    expect_values(want, "m.", table, state.state(kAdamM));
    expect_values(want, "v.", table, state.state(kAdamV));
  }
}

TEST_P(EverySample, IsAModelToStartFrom) {
  const ModelFolder folder = open_model(sample(GetParam()));
  const ParameterTable table(folder.spec);
  TrainingState state(table, DType::bf16, true);
  load_model(folder, folder.spec, table, state);
  const SafetensorsFile want(sample(GetParam()) + "/expected.safetensors");
  for (const Parameter& own : table.all()) {
    std::vector<float> got(static_cast<size_t>(own.stored_shape.count()));
    state.read_master(own, got);
    EXPECT_EQ(got, want.read_f32(*want.find("weight." + own.name))) << own.name;
  }
  for (const float moment : floats_of(state.state(kAdamM))) ASSERT_EQ(moment, 0) << "only weights are taken";
}

TEST(NeoxCheckpoint, TheModelIsThatOfItsYaml) {
  const Spec zero = open_checkpoint(sample("zero")).facts.spec;
  EXPECT_EQ(zero.residual, Residual::parallel);
  EXPECT_EQ(zero.activation, Activation::gelu_tanh);
  EXPECT_EQ(zero.position, Position::rotary);
  EXPECT_EQ(zero.rotary_dims, 2);
  EXPECT_FALSE(zero.tied_head);
  EXPECT_EQ(zero.vocabulary, 12);
  EXPECT_EQ(zero.inner_width, 16);
  const Spec plain = open_checkpoint(sample("plain")).facts.spec;
  EXPECT_EQ(plain.residual, Residual::sequential);
  EXPECT_EQ(plain.activation, Activation::gelu_erf);
  EXPECT_EQ(plain.position, Position::learned);
  EXPECT_TRUE(open_checkpoint(sample("bf16")).facts.spec.tied_head);
}

TEST(NeoxCheckpoint, HasTheLossScaleOfFp16) {
  const CheckpointFolder zero = open_checkpoint(sample("zero"));
  EXPECT_THAT(zero.notes, testing::ElementsAre("its loss scale of 4096 is used only with precision.dtype f16"));
  EXPECT_EQ(zero.facts.progress.loss_scale->scale, 4096);
  EXPECT_THAT(open_checkpoint(sample("fused")).notes, testing::ElementsAre(HasSubstr("loss scale of 1024")));
  EXPECT_TRUE(open_checkpoint(sample("bf16")).notes.empty());
}

// ---- files written by NeoX itself

TEST(NeoxCheckpoint, ComputesWhatNeoxComputes) {
  TRIREME_NEEDS_TEST_DATA("neox_ckpt");
  const auto ops = make_cpu_ops();
  for (const char* name : {"par_tp2", "zero_dp2_tp1"}) {
    const std::string folder = (test_data_dir() / "neox_ckpt" / name).string();
    const auto compared = compare_with_case(folder + "/ckpt", folder + "/case.safetensors", DType::f32, *ops, 2);
    ASSERT_EQ(compared.size(), 2) << name;
    for (const ParityTensor& tensor : compared) EXPECT_LT(tensor.error, 2e-6) << name << " " << tensor.name;
  }
}

TEST(NeoxCheckpoint, TakesNeoxsMastersAndMoments) {
  TRIREME_NEEDS_TEST_DATA("neox_ckpt");
  const std::string path = (test_data_dir() / "neox_ckpt/zero_dp2_tp1").string();
  const SafetensorsFile want(path + "/expected.safetensors");
  const CheckpointFolder folder = open_checkpoint(path + "/ckpt");
  const ParameterTable table(folder.facts.spec);
  TrainingState state(table, DType::f32, true);
  load_checkpoint(folder, table, state);
  const Family& family = gpt_neox_family();
  const auto rules = numbered_rules(family.names, folder.facts.spec.layers);
  const std::pair<const char*, ConstView> parts[] = {
      {"master.", state.weights()}, {"exp_avg.", state.state(kAdamM)}, {"exp_avg_sq.", state.state(kAdamV)}};
  for (const auto& [prefix, flat] : parts) {
    for (const NamedRule& rule : rules) {
      const std::string name = prefix + std::string(rule.outside ? "" : "gpt_neox.") + rule.theirs;
      ASSERT_TRUE(want.find(name)) << name;
      EXPECT_EQ(floats_of(view_of(flat, table.find(rule.ours))), want.read_f32(*want.find(name))) << name;
    }
  }
  EXPECT_EQ(folder.facts.progress.step, 3);
  EXPECT_EQ(folder.facts.progress.updates, 3);
  EXPECT_EQ(folder.facts.progress.samples, 12);
  const Config config = config_from_json(parse_json(folder.facts.config_json, path), path);
  EXPECT_EQ(config.batch.global, 4);
  EXPECT_EQ(config.run.seed, 1234);
}

// ---- unreadable files

/// As torch writes with set_crc32_options(False).
std::string without_checksums(std::string file) {
  for (size_t at = 0; (at = file.find("PK\x01\x02", at)) != file.npos; ++at) file.replace(at + 16, 4, 4, '\0');
  return file;
}

struct Copy {
  TemporaryFolder folder;
  std::string path = folder / "ckpt", step = path + "/global_step5";
  explicit Copy(const char* name = "zero") { fs::copy(sample(name), path, fs::copy_options::recursive); }
  /// Puts two other bytes in the place of the small number that a key has.
  void patch(const std::string& file, const std::string& key, const std::string& to) const {
    std::string bytes = read_text(step + "/" + file);
    const size_t at = bytes.find(key), value = bytes.find('K', at + key.size());
    ASSERT_NE(at, bytes.npos) << key;
    ASSERT_LT(value, at + key.size() + 10) << key;
    write_text(step + "/" + file, without_checksums(bytes.replace(value, 2, to)));
  }
  void remove(const std::string& file) const { fs::remove_all(step + "/" + file); }
  void copy(const std::string& from, const std::string& to) const {
    fs::copy_file(step + "/" + from, step + "/" + to, fs::copy_options::overwrite_existing);
  }
};

#define EXPECT_UNREADABLE(copy_, text_) EXPECT_ERROR(open_checkpoint((copy_).path), ErrorKind::data, text_)

/// Whoever reads a part of a state checks that of which it reads the beginning, so that together all is checked.
TEST(NeoxCheckpoint, DamagedBytesAreNamedByARankThatLoadsThem) {
  const CheckpointFacts facts = open_checkpoint(sample("zero")).facts;
  const auto damaged_by = [&](const Copy& copy) {
    std::string said;
    for (int rank = 0; rank < 2; ++rank) {
      const ParameterTable table(facts.spec, InitScheme::gpt2, {.part = {}, .tensor_rank = rank, .tensor_size = 2});
      TrainingState state(table, DType::f32, true);
      try {
        load_checkpoint(open_checkpoint(copy.path), table, state);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::data);
        said += error.what();
      }
    }
    return said;
  };
  int storages = 0, found = 0;
  for (const auto& entry : fs::directory_iterator(sample("zero") + "/global_step5")) {
    const std::string file = entry.path().filename().string();
    const bool has_state = file.ends_with("optim_states.pt");  // of the weights the masters are taken instead
    if (!has_state) continue;
    const std::string good = read_text(entry.path().string());
    for (const ZipMember& member : read_zip(std::as_bytes(std::span(good)), file)) {
      if (member.name.find("/data/") == member.name.npos || member.data.empty()) continue;
      if (found++ % 4 > 0) continue;  // each takes two loads
      const Copy copy;
      std::string bad = good;
      bad[static_cast<size_t>(reinterpret_cast<const char*>(member.data.data()) - good.data()) +
          member.data.size() / 2] ^= 1;
      write_text(copy.step + "/" + file, bad);
      const std::string said = damaged_by(copy);
      EXPECT_THAT(said, HasSubstr(fmt::format("{}: the {} bytes of {} are damaged: their CRC-32 is ", file,
                                              member.data.size(), member.name)));
      ++storages;
    }
  }
  EXPECT_GT(storages, 5);
  EXPECT_EQ(damaged_by(Copy()), "");
}

TEST(NeoxCheckpoint, MissingAndTruncatedFilesAreNamed) {
  const Copy layer, states, optimizer, cut, part, configs, pointer;
  layer.remove("layer_03-model_01-model_states.pt");
  EXPECT_UNREADABLE(layer, "layer_03-model_01-model_states.pt: the file is missing");
  states.remove("mp_rank_02_model_states.pt");
  EXPECT_UNREADABLE(states, "/mp_rank_02_model_states.pt is missing; the folder has files of 3 ranks");
  optimizer.remove("zero_pp_rank_1_mp_rank_03_optim_states.pt");
  EXPECT_UNREADABLE(optimizer,
                    "zero_pp_rank_1_mp_rank_03_optim_states.pt is missing; dp_world_size is 2 in mp_rank_00");
  fs::resize_file(cut.step + "/layer_02-model_00-model_states.pt", 3000);
  EXPECT_UNREADABLE(cut, "layer_02-model_00-model_states.pt: truncated: a ZIP file ends with its directory");
  fs::resize_file(part.step + "/mp_rank_01_model_states.pt", 0);
  EXPECT_UNREADABLE(part, "mp_rank_01_model_states.pt: is not a file of torch.save()");
  configs.remove("configs");
  EXPECT_UNREADABLE(configs, "has no configs/*.yml, which describe what the tensors do not");
  write_text(pointer.path + "/latest", "global_step6\n");
  EXPECT_UNREADABLE(pointer, "latest names global_step6, but this folder does not exist beside it");
}

TEST(NeoxCheckpoint, FilesTooManyAreNamed) {
  const Copy layer, optimizer, states;
  layer.copy("layer_06-model_00-model_states.pt", "layer_07-model_00-model_states.pt");
  layer.copy("layer_06-model_01-model_states.pt", "layer_07-model_01-model_states.pt");
  EXPECT_UNREADABLE(layer,
                    "layer_07-model_00-model_states.pt: unexpected layer; a model of 2 layers ends with layer 6");
  EXPECT_UNREADABLE(layer, "layer_07-model_01-model_states.pt: 7.final_linear.weight is unexpected, F16 [6, 8]");
  optimizer.copy("zero_pp_rank_1_mp_rank_00_optim_states.pt", "zero_pp_rank_2_mp_rank_00_optim_states.pt");
  EXPECT_UNREADABLE(optimizer, "zero_pp_rank_2_mp_rank_00_optim_states.pt: unexpected file; dp_world_size is 2 in");
  states.copy("mp_rank_03_model_states.pt", "mp_rank_04_model_states.pt");
  EXPECT_UNREADABLE(states, "mp_rank_00_model_states.pt: mp_world_size is 4, but the folder has 5 mp_rank files");
}

TEST(NeoxCheckpoint, WhatZeroStage3HasCutIsRefused) {
  const Copy copy;
  const std::string file = "zero_pp_rank_0_mp_rank_00_model_states.pt",
                    text = file +
                           ": weights sharded by ZeRO stage 3 are not supported; merge them with DeepSpeed's "
                           "zero_to_fp32.py";
  fs::rename(copy.step + "/mp_rank_00_model_states.pt", copy.step + "/" + file);
  EXPECT_UNREADABLE(copy, text);
  const TemporaryFolder alone;  // all that stage 3 writes, without `latest`
  fs::copy_file(copy.step + "/" + file, alone.path() + "/" + file);
  EXPECT_ERROR(open_checkpoint(alone.path()), ErrorKind::data, text);
}

TEST(NeoxCheckpoint, FilesOfAnotherCheckpointAreNamed) {
  const Copy bf16, other, step;
  fs::copy_file(sample("bf16") + "/global_step5/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
                bf16.step + "/zero_pp_rank_1_mp_rank_00_optim_states.pt", fs::copy_options::overwrite_existing);
  EXPECT_UNREADABLE(bf16,
                    "zero_pp_rank_1_mp_rank_00_optim_states.pt: optimizer_state_dict.partition_count.0 is 3, but the "
                    "checkpoint has 2 data ranks: the file belongs to another checkpoint");
  fs::rename(other.step, other.path + "/global_step6");
  write_text(other.path + "/latest", "global_step6");
  EXPECT_UNREADABLE(other, "mp_rank_00_model_states.pt: iteration is 5, but the folder belongs to step 6");
  step.patch("zero_pp_rank_1_mp_rank_02_optim_states.pt", "step", "K\x03");
  EXPECT_UNREADABLE(step,
                    "zero_pp_rank_1_mp_rank_02_optim_states.pt: optimizer_state_dict.base_optimizer_state.state.0"
                    ".step is 3, but for other parameters it is 4");
}

TEST(NeoxCheckpoint, TensorRanksOfDifferentStepsAreNamed) {
  const Copy copy;
  copy.patch("mp_rank_01_model_states.pt", "iteration", "K\x06");
  EXPECT_UNREADABLE(copy,
                    "mp_rank_01_model_states.pt: iteration is 6, but in mp_rank_00_model_states.pt it is 5: the files "
                    "belong to different checkpoints");
}

TEST(NeoxCheckpoint, ConfigsThatDoNotFitAreNamed) {
  const auto with = [](const std::string& from, const std::string& to) {
    const Copy copy;
    const std::string file = copy.step + "/configs/zero.yml";
    std::string text = read_text(file);
    text.replace(text.find(from), from.size(), to);
    write_text(file, text);
    try {
      open_checkpoint(copy.path);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(with("\"num-layers\": 2", "\"num-layers\": 3"),
              HasSubstr("mp_rank_00_model_states.pt: args.num_layers is 2, but in "));
  EXPECT_THAT(with("\"intermediate-size\": 16", "\"intermediate-size\": 32"),
              HasSubstr("layer_02-model_00-model_states.pt: mlp.linear1.weight has shape [8, 8], expected [16, 8]"));
  EXPECT_THAT(with("\"no-weight-tying\": true", "\"no-weight-tying\": false"),
              HasSubstr("layer_06-model_00-model_states.pt: unexpected layer; a model of 2 layers ends with layer 5"));
  EXPECT_THAT(with("\"norm\": \"layernorm\"", "\"norm\": \"rmsnorm\""),
              HasSubstr("zero.yml: checkpoints of NeoX with rmsnorm, gated activations"));
  EXPECT_THAT(with("\"num-layers\": 2", "\"num-layers\": [2]"),
              HasSubstr("zero.yml:5: num-layers is a list, expected a whole number"));
  EXPECT_THAT(with("\"num-layers\": 2", "\"num-layers\": &a 2, \"x\": *a"), HasSubstr("alias"));
}

TEST(NeoxCheckpoint, WrongTypesAreNamedByFileAndKey) {
  const std::string root("h\0", 2);  // what was remembered first: the dictionary of everything
  const Copy progress, world, part, sizes;
  progress.patch("mp_rank_00_model_states.pt", "iteration", root);
  EXPECT_UNREADABLE(progress, "mp_rank_00_model_states.pt: iteration is not a whole number");
  world.patch("mp_rank_00_model_states.pt", "mp_world_size", root);
  EXPECT_UNREADABLE(world, "mp_rank_00_model_states.pt: mp_world_size is not a whole number");
  part.patch("zero_pp_rank_0_mp_rank_00_optim_states.pt", "zero_stage", "K\x03");
  EXPECT_UNREADABLE(part,
                    "zero_pp_rank_0_mp_rank_00_optim_states.pt: optimizer_state_dict.zero_stage is 3: only the state "
                    "of ZeRO stages 0 to 2 is supported");
  sizes.patch("zero_pp_rank_0_mp_rank_00_optim_states.pt", "numel", "K\x07");
  EXPECT_UNREADABLE(sizes,
                    "param_slice_mappings.0.0.word_embeddings.weight has 7 elements from 0 on, expected "
                    "48 from 0 on (param_shapes)");
}

}  // namespace
}  // namespace trireme
