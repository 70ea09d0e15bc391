// A trained model (minGPT's gpt-nano, which sorts letters) gives the activations that PyTorch recorded of it. Its
// Hugging Face file lacks the bias of the QKV linears, which the model itself (model.json) has and the recording used.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/safetensors/safetensors.h"
#include "model/stage.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

std::vector<float> floats_of_base64(const std::string& text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kAlphabet.find(c));
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

double value_at(ConstView view, size_t i) {
  if (view.dtype() == DType::f64) return view.as<double>()[i];
  if (view.dtype() == DType::bf16) return static_cast<double>(to_float(view.as<bf16_t>()[i]));
  return static_cast<double>(view.as<float>()[i]);
}

class TrainedModel : public ::testing::Test {
 protected:
  static constexpr const char* kFolder = "weights/gpt-nano-sort";

  void SetUp() override {
    TRIREME_NEEDS_TEST_DATA(kFolder);
    const fs::path data = fs::absolute(test_data_dir() / kFolder);
    data_ = fs::absolute(test_data_dir() / kFolder);
    fs::copy_file(data_ / "config.json", folder_ / "config.json");
    spec_ = read_huggingface_spec(folder_.path());
    ASSERT_FALSE(spec_.tied_head);
  }

  /// model.safetensors as stored there: without the bias of QKV.
  void use_file_as_it_is() { fs::create_symlink(data_ / "model.hf_gpt2.safetensors", folder_ / "model.safetensors"); }
  /// model.safetensors with the biases that model.json has.
  void use_whole_model() {
    const SafetensorsFile file((data_ / "model.hf_gpt2.safetensors").string());
    const Json model = parse_json(read_text((data_ / "model.json").string()), "model.json");
    std::vector<SafetensorsEntry> entries = file.entries();
    for (int64_t n = 0; n < spec_.layers; ++n)
      entries.push_back(
          {.name = fmt::format("transformer.h.{}.attn.c_attn.bias", n), .dtype = "F32", .shape = {3 * spec_.width}});
    SafetensorsWriter writer(folder_ / "model.safetensors", entries, {});
    for (size_t i = 0; i < entries.size(); ++i) {
      if (const SafetensorsEntry* entry = file.find(entries[i].name)) {
        writer.write(i, file.bytes(*entry));
      } else {
        const auto bias = floats_of_base64(model.at(entries[i].name).at("data").get<std::string>());
        writer.write(i, std::as_bytes(std::span(bias)));
      }
    }
    writer.commit();
    recorded_ = parse_json(read_text((data_ / "t0-partials.json").string()), "t0-partials.json");
  }

  std::vector<float> recorded(const char* name) const {
    return floats_of_base64(recorded_.at(name).at("data").get<std::string>());
  }

  /// Largest difference from the recording, in each block's input and output and in the logits.
  void expect_recorded(Ops& ops, DType dtype, double tolerance) {
    use_whole_model();
    const ParameterTable table(spec_);
    TrainingState state(table, dtype, false);
    load_huggingface(folder_.path(), spec_, table, state);

    constexpr int64_t kSequences = 3, kLength = 11, kRows = kSequences * kLength;
    std::vector<int32_t> tokens, positions, offsets = {0, 11, 22, 33};
    for (const float id : recorded("idx")) {
      positions.push_back(static_cast<int32_t>(tokens.size() % kLength));
      tokens.push_back(static_cast<int32_t>(id));
    }
    Batch batch;
    batch.tokens = View(std::span(tokens), {kRows});
    batch.positions = View(std::span(positions), {kRows});
    batch.offsets = View(std::span(offsets), {kSequences + 1});
    Stage stage(spec_, {&table, state.weights(), {}}, dtype, {.rows = kRows, .head_rows = kRows}, ops, 1);
    Arena memory(static_cast<size_t>(kRows * spec_.vocabulary_rows) * sizeof(double) + 64);
    const View logits = memory.take(dtype, {kRows, spec_.vocabulary_rows});
    stage.logits(batch, logits);

    const std::array names = {"x", "block0", "block1", "block2"};
    for (size_t i = 0; i < names.size(); ++i)
      expect_near(names[i], recorded(names[i]), stage.block_output(static_cast<int64_t>(i)), spec_.width, tolerance);
    expect_near("lm_head", recorded("lm_head"), logits, spec_.vocabulary_rows, tolerance);
  }

  /// row: elements of a row of `got`, of which the recording has the first ones.
  void expect_near(const char* name, const std::vector<float>& expected, ConstView got, int64_t row,
                   double tolerance) const {
    const auto width = static_cast<size_t>(recorded_.at(name).at("shape").back().get<int64_t>());
    ASSERT_EQ(expected.size(), 33 * width) << name;
    double worst = 0, largest = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double want = static_cast<double>(expected[i]);
      worst = std::max(worst, std::abs(value_at(got, i / width * static_cast<size_t>(row) + i % width) - want));
      largest = std::max(largest, std::abs(want));
    }
    EXPECT_LT(worst, tolerance * std::max(largest, 1.0)) << name << ", whose largest value is " << largest;
  }

  TemporaryFolder folder_;
  fs::path data_;
  Json recorded_;
  Spec spec_;
};

TEST_F(TrainedModel, GivesItsRecordedActivationsInTheReference) {
  expect_recorded(*make_reference_ops(), DType::f64, 2e-6);
}

TEST_F(TrainedModel, GivesItsRecordedActivationsInF32) { expect_recorded(*make_cpu_ops(), DType::f32, 2e-6); }

TEST_F(TrainedModel, GivesItsRecordedActivationsInBf16WithinItsRounding) {
  expect_recorded(*make_cpu_ops(), DType::bf16, 0.03);
}

TEST_F(TrainedModel, IsLoadedWithoutABiasOnlyWhenTheSpecSaysSo) {
  use_file_as_it_is();
  const ParameterTable table(spec_);
  TrainingState state(table, DType::f32, false);
  EXPECT_ERROR(load_huggingface(folder_.path(), spec_, table, state), ErrorKind::data, "h.0.attn.c_attn.bias");
  spec_.biases.qkv = false;
  const ParameterTable said(spec_);
  TrainingState without(said, DType::f32, false);
  EXPECT_NO_THROW(load_huggingface(folder_.path(), spec_, said, without));
}

}  // namespace
}  // namespace trireme
