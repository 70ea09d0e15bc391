// Encoders as published: old names of norms, with and without prefix, buffers and heads of pretraining.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/huggingface/huggingface.h"
#include "tests/checkpoint/small_run.h"
#include "tests/checkpoint/tensor_map.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

std::string golden(const std::string& model) { return (fs::path(source_dir()) / "tests" / "golden" / model).string(); }

struct Loaded {
  Spec spec;
  ParameterTable table;
  TrainingState state;
  explicit Loaded(const std::string& folder)
      : spec(read_huggingface_spec(folder)), table(spec), state(table, DType::f32, false) {
    load_huggingface(folder, spec, table, state);
  }
};

/// A golden model's folder with its tensors changed.
class EncoderFiles : public ::testing::Test {
 protected:
  void take(const std::string& model) {
    original_ = golden(model);
    tensors_ = read_tensors(original_ + "/model.safetensors");
  }
  void rename(const std::string& from, const std::string& to) {
    TensorMap renamed;
    for (auto& [name, tensor] : tensors_) {
      std::string now = name;
      if (const size_t at = now.find(from); at != now.npos) now.replace(at, from.size(), to);
      renamed[now] = tensor;
    }
    tensors_ = renamed;
  }
  void add_positions(const std::string& name) {
    tensors_[name] = {"I64", {1, 12}, std::string(12 * sizeof(int64_t), '\0')};
  }
  /// A head with a matrix and its own bias.
  void untie(const std::string& tokens, const std::string& head) {
    tied_ = false;
    tensors_[head + "decoder.weight"] = tensors_[tokens];
    tensors_[head + "decoder.weight"].at<float>(0) += 1;
    tensors_[head + "decoder.bias"] = tensors_[head + "bias"];
  }
  std::string write() const {
    Json config = read_json(original_ + "/config.json");
    if (!tied_) config["tie_word_embeddings"] = false;
    write_text(folder_ / "config.json", config.dump());
    write_tensors(folder_ / "model.safetensors", tensors_);
    return folder_.path();
  }
  void expect_the_same_model() {
    const Loaded changed(write()), want(original_);
    EXPECT_EQ(changed.spec, want.spec);
    EXPECT_TRUE(same_state(changed.state, want.state));
  }
  TensorMap exported() const {
    const Loaded loaded(write());
    const TemporaryFolder out;
    export_huggingface(out / "m", loaded.spec, loaded.table, loaded.state, "", DType::f32);
    return read_tensors(out / "m/model.safetensors");
  }

  std::string original_;
  bool tied_ = true;
  TensorMap tensors_;
  TemporaryFolder folder_;
};

TEST_F(EncoderFiles, NormsMayBeCalledGammaAndBeta) {
  for (const char* model : {"bert-mlm", "bert-classifier"}) {
    take(model);
    rename("LayerNorm.weight", "LayerNorm.gamma");
    rename("LayerNorm.bias", "LayerNorm.beta");
    ASSERT_TRUE(tensors_.contains("bert.embeddings.LayerNorm.gamma"));
    expect_the_same_model();
  }
}

TEST_F(EncoderFiles, BothNamesOfANormAreAnError) {
  take("bert-mlm");
  tensors_["bert.embeddings.LayerNorm.gamma"] = tensors_["bert.embeddings.LayerNorm.weight"];
  EXPECT_ERROR(Loaded{write()}, ErrorKind::data,
               "embeddings.LayerNorm.weight: appears twice, as \"bert.embeddings.LayerNorm.gamma\" and as "
               "\"bert.embeddings.LayerNorm.weight\"");
}

TEST_F(EncoderFiles, BuffersAndTheHeadsOfPretrainingAreLeftOut) {
  take("bert-mlm");
  add_positions("bert.embeddings.position_ids");
  tensors_["cls.seq_relationship.weight"] = {"F32", {2, 16}, std::string(128, '\0')};
  tensors_["cls.seq_relationship.bias"] = {"F32", {2}, std::string(8, '\0')};
  tensors_["bert.pooler.dense.weight"] = {"F32", {16, 16}, std::string(1024, '\0')};
  tensors_["bert.pooler.dense.bias"] = {"F32", {16}, std::string(64, '\0')};
  tensors_["cls.predictions.decoder.weight"] = tensors_["bert.embeddings.word_embeddings.weight"];
  tensors_["cls.predictions.decoder.bias"] = tensors_["cls.predictions.bias"];
  expect_the_same_model();
  take("roberta-mlm");
  add_positions("roberta.embeddings.position_ids");
  expect_the_same_model();
  take("distilbert-mlm");
  add_positions("distilbert.embeddings.position_ids");
  tensors_["vocab_projector.weight"] = tensors_["distilbert.embeddings.word_embeddings.weight"];
  expect_the_same_model();
}

TEST_F(EncoderFiles, APrefixMayBeMissing) {
  for (const auto& [model, prefix] : {std::pair{"bert-mlm", "bert."},
                                      {"distilbert-mlm", "distilbert."},
                                      {"roberta-mlm", "roberta."},
                                      {"opt", "model.decoder."},
                                      {"neox-parallel", "gpt_neox."}}) {
    SCOPED_TRACE(model);
    take(model);
    rename(prefix, "");
    expect_the_same_model();
  }
  take("opt");
  rename("model.decoder.", "decoder.");
  expect_the_same_model();
}

TEST_F(EncoderFiles, NamesMayHavePrefixesOfWrappers) {
  for (const char* model : {"gpt2", "opt", "neox-parallel", "bert-mlm", "distilbert-classifier", "roberta-mlm"}) {
    for (const std::string wrapper : {"_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module."}) {
      SCOPED_TRACE(model + (" " + wrapper));
      take(model);
      rename("", wrapper);
      ASSERT_TRUE(tensors_.begin()->first.starts_with(wrapper));
      expect_the_same_model();
    }
  }
  take("bert-mlm");
  rename("bert.", "module.");
  expect_the_same_model();
}

TEST_F(EncoderFiles, ATiedHeadThatDiffersIsAnError) {
  take("bert-mlm");
  StoredTensor& copy = tensors_["cls.predictions.decoder.weight"] = tensors_["bert.embeddings.word_embeddings.weight"];
  copy.at<float>(0) += 1;
  EXPECT_ERROR(Loaded{write()}, ErrorKind::data,
               "cls.predictions.decoder.weight: differs from embeddings.word_embeddings.weight although the head is "
               "tied");
}

/// Names of parameters that a tied model has once, in the embedding and in the head, or in two places of the head.
struct TiedNames {
  const char* model;
  std::vector<std::pair<std::string, std::string>> names;
};
const TiedNames kTiedNames[] = {
    {"gpt2", {{"transformer.wte.weight", "lm_head.weight"}}},
    {"opt", {{"model.decoder.embed_tokens.weight", "lm_head.weight"}}},
    {"opt-post-norm", {{"model.decoder.embed_tokens.weight", "lm_head.weight"}}},
    {"bert-mlm",
     {{"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
      {"cls.predictions.bias", "cls.predictions.decoder.bias"}}},
    {"roberta-mlm",
     {{"roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"},
      {"lm_head.bias", "lm_head.decoder.bias"}}},
    {"distilbert-mlm", {{"distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"}}},
};

TEST_F(EncoderFiles, ATiedTensorMayBeThereUnderEitherNameAlone) {
  for (const TiedNames& tied : kTiedNames) {
    for (size_t which = 1; which < size_t{1} << tied.names.size(); ++which) {
      SCOPED_TRACE(fmt::format("{} {}", tied.model, which));
      take(tied.model);
      for (size_t i = 0; i < tied.names.size(); ++i) {
        if ((which >> i & 1) == 0) continue;
        const auto& [embedding, head] = tied.names[i];
        tensors_[head] = tensors_.at(embedding);
        tensors_.erase(embedding);
      }
      expect_the_same_model();
    }
    take(tied.model);
    for (const auto& [embedding, head] : tied.names) tensors_[head] = tensors_.at(embedding);  // both
    expect_the_same_model();
    for (const auto& [embedding, head] : tied.names) tensors_[head].at<float>(0) += 1;
    EXPECT_ERROR(Loaded{write()}, ErrorKind::data, "although the head is tied");
  }
}

TEST_F(EncoderFiles, ATiedNeoxModelMayKeepEitherOfItsMatrices) {
  take("neox-parallel");
  const StoredTensor matrix = tensors_.at("gpt_neox.embed_in.weight");
  Json config = read_json(original_ + "/config.json");
  config["tie_word_embeddings"] = true;
  const auto load = [&](const std::vector<std::string>& names) {
    tensors_.erase("gpt_neox.embed_in.weight");
    tensors_.erase("embed_out.weight");
    tensors_.erase("lm_head.weight");
    for (const std::string& name : names) tensors_[name] = matrix;
    write();
    write_text(folder_ / "config.json", config.dump());
    return Loaded(folder_.path());
  };
  const Loaded want = load({"gpt_neox.embed_in.weight"});
  for (const std::vector<std::string>& names : {std::vector<std::string>{"embed_out.weight"},
                                                {"lm_head.weight"},
                                                {"gpt_neox.embed_in.weight", "embed_out.weight"}})
    EXPECT_TRUE(same_state(load(names).state, want.state)) << names.front();
}

TEST_F(EncoderFiles, AnUntiedModelNeedsBothMatrices) {
  for (const TiedNames& tied : kTiedNames) {
    SCOPED_TRACE(tied.model);
    take(tied.model);
    tied_ = false;
    const auto& [embedding, head] = tied.names.front();
    tensors_[head] = tensors_.at(embedding);
    tensors_.erase(embedding);
    EXPECT_ERROR(Loaded{write()}, ErrorKind::data, "missing, expected [37, ");
  }
}

TEST_F(EncoderFiles, AClassifierStartsFromATiedMatrixUnderTheHeadsName) {
  for (const TiedNames& tied : kTiedNames) {
    if (!std::string(tied.model).ends_with("-mlm")) continue;
    SCOPED_TRACE(tied.model);
    take(tied.model);
    const auto& [embedding, head] = tied.names.front();
    const auto classifier = [&](const std::string& folder) {
      const Spec spec = read_huggingface_spec(folder, HeadKind::classifier);
      const ParameterTable table(spec);
      TrainingState state(table, DType::f32, false);
      load_huggingface(folder, spec, table, state, MissingHead::keep);
      std::vector<float> values(static_cast<size_t>(table.find("embedding.token.weight").stored_shape.count()));
      state.read_master(table.find("embedding.token.weight"), values);
      return values;
    };
    const auto want = classifier(original_);
    tensors_[head] = tensors_.at(embedding);
    tensors_.erase(embedding);
    EXPECT_EQ(classifier(write()), want);
    tied_ = false;
    EXPECT_ERROR(classifier(write()), ErrorKind::data, "word_embeddings.weight: missing");
    tied_ = true;
  }
}

TEST_F(EncoderFiles, AnUntiedHeadComputesWithTheBiasOfItsDecoder) {
  for (const auto& [model, tokens, head] :
       {std::tuple{"bert-mlm", "bert.embeddings.word_embeddings.weight", std::string("cls.predictions.")},
        {"roberta-mlm", "roberta.embeddings.word_embeddings.weight", std::string("lm_head.")}}) {
    SCOPED_TRACE(model);
    take(model);
    untie(tokens, head);
    EXPECT_TRUE(exported() == tensors_);
    tensors_[head + "decoder.bias"].at<float>(0) += 1;
    TensorMap want = tensors_;
    want[head + "bias"] = want[head + "decoder.bias"];
    EXPECT_TRUE(exported() == want);
    tensors_ = want;
    tensors_.erase(head + "decoder.bias");  // as older versions of transformers save it
    EXPECT_TRUE(exported() == want);
    tensors_.erase(head + "bias");
    EXPECT_ERROR(Loaded{write()}, ErrorKind::data, head + "bias: missing, expected [37]");
    tensors_[head + "decoder.bias"] = {"F32", {36}, std::string(144, '\0')};
    EXPECT_ERROR(Loaded{write()}, ErrorKind::data, head + "decoder.bias: shape [36], expected [37]");
  }
}

TEST_F(EncoderFiles, ConfigsThatWouldChangeNumbersAreRefused) {
  const auto refused = [&](const std::string& model, const char* field, const Json& value, const std::string& text) {
    Json config = read_json(golden(model) + "/config.json");
    config[field] = value;
    write_text(folder_ / "config.json", config.dump());
    EXPECT_ERROR(read_huggingface_spec(folder_.path()), ErrorKind::data, text);
  };
  refused("bert-mlm", "position_embedding_type", "relative_key", "only \"absolute\" is supported");
  refused("bert-mlm", "is_decoder", true, "\"is_decoder\" is true, but only false is supported");
  refused("bert-mlm", "add_cross_attention", true, "only false is supported");
  refused("bert-mlm", "hidden_act", "mish", "hidden_act \"mish\"");
  refused("bert-mlm", "hidden_size", 0, "\"hidden_size\" is 0");
  refused("bert-mlm", "architectures", Json::array({"BertForTokenClassification"}),
          "architecture \"BertForTokenClassification\" of bert; known: BertForMaskedLM");
  refused("bert-mlm", "architectures", Json::array({"BertModel", "BertForMaskedLM"}), "expected one name");
  refused("bert-classifier", "problem_type", "multi_label_classification",
          "problem_type \"multi_label_classification\" with 3 classes is not supported");
  refused("bert-classifier", "id2label", Json::array({"a"}), "\"id2label\" is array, expected an object");
  refused("roberta-mlm", "pad_token_id", 0, "\"pad_token_id\" is not 1, which would shift all positions");
  refused("opt", "layerdrop", 0.1, "\"layerdrop\" is not 0; dropping whole layers in training is not supported");
  refused("opt", "layer_norm_elementwise_affine", false, "only true is supported");
  refused("neox-parallel", "rope_scaling", Json{{"type", "linear"}},
          "\"type\" is \"linear\", but only \"default\" is supported");
  refused("neox-parallel", "rope_parameters", Json{{"partial_rotary_factor", 0}},
          "the rotary fraction is 0, expected above 0 and at most 1");
  refused("neox-parallel", "rope_parameters", "x", "\"rope_parameters\" is string, expected an object");
}

}  // namespace
}  // namespace trireme
