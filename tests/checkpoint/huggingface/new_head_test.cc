// A pretrained model under another head than its own.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/huggingface/huggingface.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {

std::string golden(const std::string& name) {
  return (std::filesystem::path(source_dir()) / "tests" / "golden" / name).string();
}

std::vector<float> values(const TrainingState& state, const Parameter& parameter) {
  std::vector<float> out(static_cast<size_t>(parameter.stored_shape.count()));
  state.read_master(parameter, out);
  return out;
}

/// The folder as a classifier of three classes; its body must be the folder's own.
void expect_new_classifier(const std::string& folder, const std::vector<std::string>& loaded_head) {
  Spec spec = read_huggingface_spec(folder, HeadKind::classifier);
  spec.classes = 3;
  const ParameterTable table(spec);
  TrainingState start(table, DType::f32, false), state(table, DType::f32, false);
  initialize(start, table, 7);
  initialize(state, table, 7);
  EXPECT_ERROR(load_huggingface(folder, spec, table, start), ErrorKind::data, "classifier");
  load_huggingface(folder, spec, table, state, MissingHead::keep);
  for (const Parameter& parameter : table.all()) {
    const bool of_head = parameter.name.starts_with("head.");
    const bool from_file = std::find(loaded_head.begin(), loaded_head.end(), parameter.name) != loaded_head.end();
    if (parameter.init != Init::normal) continue;
    EXPECT_EQ(values(state, parameter) != values(start, parameter), !of_head || from_file) << parameter.name;
  }
}

TEST(NewHead, MaskedLanguageModelsBecomeClassifiers) {
  expect_new_classifier(golden("bert-mlm"), {});
  expect_new_classifier(golden("distilbert-mlm"), {});
  expect_new_classifier(golden("roberta-mlm"), {});
}

TEST(NewHead, APublishedPoolerIsTakenOver) {
  TRIREME_NEEDS_TEST_DATA("weights/bert-xsmall-dummy/pytorch_model.bin");
  expect_new_classifier((test_data_dir() / "weights/bert-xsmall-dummy").string(),
                        {"head.hidden.weight", "head.hidden.bias"});
}

TEST(NewHead, WhatTheBodyLacksIsStillAnError) {
  Spec spec = read_huggingface_spec(golden("bert-mlm"), HeadKind::classifier);
  spec.layers = 3;
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, false);
  EXPECT_ERROR(load_huggingface(golden("bert-mlm"), spec, table, state, MissingHead::keep), ErrorKind::data,
               "encoder.layer.2.attention.self.query.weight: missing");
}

TEST(NewHead, FamiliesWithoutThatHeadSaySo) {
  EXPECT_ERROR(
      read_huggingface_spec(golden("gpt2"), HeadKind::classifier), ErrorKind::data,
      "a classifier is required, but the family gpt2 has none; families that have one: bert, distilbert, roberta");
  EXPECT_ERROR(
      read_huggingface_spec(golden("bert-mlm"), HeadKind::language_model), ErrorKind::data,
      "a language-model is required, but the family bert has none; families that have one: gpt2, opt, gpt_neox");
}

}  // namespace
}  // namespace trireme
