// Cases that do not fit their model are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/parity/parity.h"
#include "tests/checkpoint/tensor_map.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

std::string golden(const std::string& model) { return (fs::path(source_dir()) / "tests" / "golden" / model).string(); }

StoredTensor of_ids(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {"I64", std::move(shape), std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
}

/// The model's golden case, changed, against the model.
std::vector<ParityTensor> compare(const std::string& model, const std::function<void(TensorMap&)>& change) {
  TensorMap tensors = read_tensors(golden(model) + "/case.safetensors");
  change(tensors);
  TemporaryFolder folder;
  write_tensors(folder / "case", tensors);
  const auto ops = make_cpu_ops();
  return compare_with_case(golden(model), folder / "case", DType::f32, *ops, 1);
}

void expect_refused(const std::string& model, const std::function<void(TensorMap&)>& change, const std::string& text) {
  SCOPED_TRACE(text);
  EXPECT_ERROR(compare(model, change), ErrorKind::data, text);
}

TEST(ParityCase, InputsThatDoNotFitAreNamed) {
  expect_refused(
      "gpt2", [](TensorMap& c) { c.erase("input_ids"); }, "input_ids is missing or has no rows");
  expect_refused(
      "gpt2", [](TensorMap& c) { c["input_ids"].shape = {27}; }, "expected shape [sequences, length]");
  expect_refused(
      "gpt2", [](TensorMap& c) { c["input_ids"].at<int64_t>(1) = 37; },
      "input_ids[0, 1] is 37, expected a whole number below 37");
  expect_refused(
      "gpt2", [](TensorMap& c) { c["input_ids"].at<int64_t>(9) = -1; }, "input_ids[1, 0] is -1");
  expect_refused(
      "gpt2",
      [](TensorMap& c) {
        c["attention_mask"].shape = {9, 3};
      },
      "attention_mask has shape [9, 3], expected that of input_ids, [3, 9]");
  expect_refused(
      "gpt2",
      [](TensorMap& c) {
        for (size_t i = 18; i < 27; ++i) c["attention_mask"].at<int64_t>(i) = 0;
        for (size_t i = 18; i < 27; ++i) c["labels"].at<int64_t>(i) = -100;
      },
      "attention_mask is 0 for all of sequence 2");
  expect_refused(
      "gpt2",
      [](TensorMap& c) {
        c["input_ids"] = of_ids({1, 13}, std::vector<int64_t>(13, 3));
      },
      "input_ids has 13 columns, but the model has 12 positions");
  expect_refused(
      "bert-mlm", [](TensorMap& c) { c["token_type_ids"].at<int64_t>(0) = 2; },
      "token_type_ids[0, 0] is 2, expected a whole number below 2");
  expect_refused(
      "distilbert-classifier", [](TensorMap& c) { c["token_type_ids"] = c["attention_mask"]; },
      "has token_type_ids, but the model has no token types");
  expect_refused(
      "roberta-mlm",
      [](TensorMap& c) {
        c["input_ids"] = of_ids({1, 13}, std::vector<int64_t>(13, 3));
      },
      "input_ids has 13 columns, but the model has 12 positions");
}

TEST(ParityCase, AClassifiersRowsPaddedOnTheLeftAreRefused) {
  const auto pad_left = [](TensorMap& c) { c["attention_mask"].at<int64_t>(9) = 0; };
  for (const char* model : {"bert-classifier", "bert-regression", "distilbert-classifier", "roberta-classifier"}) {
    expect_refused(model, pad_left,
                   "attention_mask[1, 0] is 0, but the classifier reads the first column; pad on the right");
  }
}

TEST(ParityCase, LabelsThatDoNotFitAreNamed) {
  expect_refused(
      "gpt2", [](TensorMap& c) { c.erase("labels"); }, "labels are missing");
  expect_refused(
      "gpt2", [](TensorMap& c) { c["labels"].at<int64_t>(4) = 37; },
      "labels[0, 4] is 37, outside the vocabulary of 37");
  expect_refused(
      "gpt2", [](TensorMap& c) { c["labels"].at<int64_t>(26) = 5; },
      "labels[2, 8] is not -100, but attention_mask is 0 where it is predicted; set it to -100");
  expect_refused(
      "bert-mlm",
      [](TensorMap& c) {
        c["labels"] = of_ids({3, 9}, std::vector<int64_t>(27, -100));
      },
      "all labels are ignored (-100)");
  expect_refused(
      "bert-classifier", [](TensorMap& c) { c["labels"].at<int64_t>(1) = 3; },
      "labels has 3, expected a class below 3");
  expect_refused(
      "bert-classifier",
      [](TensorMap& c) {
        c["labels"] = of_ids({2}, {0, 1});
      },
      "labels has shape [2], expected one per sequence, [3]");
}

TEST(ParityCase, ExpectedValuesMustExistAndFit) {
  expect_refused(
      "gpt2", [](TensorMap& c) { c.erase("logits"); }, "logits is missing");
  expect_refused(
      "gpt2", [](TensorMap& c) { c.erase("loss"); }, "loss is missing");
  expect_refused(
      "gpt2", [](TensorMap& c) { c["logits"] = c["loss"]; }, "logits has shape [1], expected 999 values");
  expect_refused(
      "gpt2", [](TensorMap& c) { c.erase("grad.transformer.ln_f.bias"); }, "grad.transformer.ln_f.bias is missing");
  expect_refused(
      "gpt2", [](TensorMap& c) { c["grad.transformer.h.2.ln_1.bias"] = c["grad.transformer.ln_f.bias"]; },
      "the model has no such parameters: grad.transformer.h.2.ln_1.bias");
}

TEST(ParityCase, ExpectedValuesMustBeFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  expect_refused(
      "gpt2", [&](TensorMap& c) { c["loss"].at<float>(0) = std::numeric_limits<float>::quiet_NaN(); },
      "the case is not finite");
  expect_refused(
      "gpt2", [&](TensorMap& c) { c["logits"].at<double>(3) = infinity; }, "the case is not finite");
  expect_refused(
      "gpt2", [&](TensorMap& c) { c["grad.transformer.ln_f.bias"].at<double>(2) = nan; },
      "grad.transformer.ln_f.bias of the case is not finite");
  const auto tensors = compare("gpt2", [&](TensorMap& c) { c["logits"].at<double>(26 * 37) = nan; });
  EXPECT_LT(tensors.front().error, 1e-4) << "logits where attention_mask is 0 are not compared";
}

TEST(ParityCase, LabelsOfMinusHundredAreNotCounted) {
  // One row less changes the mean: the recorded loss is another.
  for (const ParityTensor& tensor :
       compare("bert-classifier", [](TensorMap& c) { c["labels"].at<int64_t>(1) = -100; })) {
    if (tensor.name == "logits") {
      EXPECT_LT(tensor.error, 1e-4);
    } else if (tensor.name == "loss") {
      EXPECT_GT(tensor.error, 1e-2);
    }
  }
}

TEST(ParityCase, AttentionMaskAndTypesHaveDefaults) {
  // Without a mask every column is attended, so the logits of the padded sequences are others.
  const auto tensors = compare("bert-mlm", [](TensorMap& c) { c.erase("attention_mask"); });
  EXPECT_GT(tensors.front().error, 1e-2) << tensors.front().name;
  const auto types = compare("bert-mlm", [](TensorMap& c) { c.erase("token_type_ids"); });
  EXPECT_GT(types.front().error, 1e-2) << types.front().name;
}

TEST(ParityCase, AnUntiedHeadHasAGradientInTheBiasOfItsDecoderAlone) {
  const TemporaryFolder folder;
  Json config = read_json(golden("bert-mlm") + "/config.json");
  config["tie_word_embeddings"] = false;
  write_text(folder / "config.json", config.dump());
  TensorMap model = read_tensors(golden("bert-mlm") + "/model.safetensors");
  TensorMap tensors = read_tensors(golden("bert-mlm") + "/case.safetensors");
  const std::string tokens = "bert.embeddings.word_embeddings.weight", head = "cls.predictions.";
  model[head + "decoder.weight"] = model[tokens];
  model[head + "decoder.bias"] = model[head + "bias"];
  write_tensors(folder / "model.safetensors", model);
  tensors["grad." + head + "decoder.weight"] = tensors["grad." + tokens];
  StoredTensor& unused = tensors["grad." + head + "bias"];
  tensors["grad." + head + "decoder.bias"] = unused;
  std::ranges::fill(unused.bytes, '\0');
  write_tensors(folder / "case", tensors);
  const auto ops = make_cpu_ops();
  size_t biases = 0;
  for (const ParityTensor& tensor : compare_with_case(folder.path(), folder / "case", DType::f32, *ops, 1)) {
    if (tensor.name.ends_with("word_embeddings.weight") || tensor.name.ends_with("decoder.weight"))
      continue;  // the tied matrix' gradient is the sum of theirs
    EXPECT_LT(tensor.error, 1e-3) << tensor.name;
    biases += tensor.name == "grad.cls.predictions.bias" || tensor.name == "grad.cls.predictions.decoder.bias";
  }
  EXPECT_EQ(biases, 2u);
}

}  // namespace
}  // namespace trireme
