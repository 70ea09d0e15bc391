#include "checkpoint/huggingface/huggingface.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/huggingface/family.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

constexpr int64_t kV = 11, kT = 6, kC = 8, kH = 2, kL = 2, kI = 24;

/// A GPT-2 folder in the making; every value of tensor n is a function of n and its index.
struct Folder {
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
    std::string dtype = "F32";
  };
  TemporaryFolder folder;
  std::map<std::string, Tensor> tensors;
  Json config = {{"model_type", "gpt2"}, {"vocab_size", kV}, {"n_positions", kT}, {"n_embd", kC},
                 {"n_head", kH},         {"n_layer", kL},    {"n_inner", kI}};

  Folder() {
    add("wte.weight", {kV, kC});
    add("wpe.weight", {kT, kC});
    for (int64_t n = 0; n < kL; ++n) {
      const std::string h = fmt::format("h.{}.", n);
      add(h + "ln_1.weight", {kC});
      add(h + "ln_1.bias", {kC});
      add(h + "attn.c_attn.weight", {kC, 3 * kC});
      add(h + "attn.c_attn.bias", {3 * kC});
      add(h + "attn.c_proj.weight", {kC, kC});
      add(h + "attn.c_proj.bias", {kC});
      add(h + "ln_2.weight", {kC});
      add(h + "ln_2.bias", {kC});
      add(h + "mlp.c_fc.weight", {kC, kI});
      add(h + "mlp.c_fc.bias", {kI});
      add(h + "mlp.c_proj.weight", {kI, kC});
      add(h + "mlp.c_proj.bias", {kC});
    }
    add("ln_f.weight", {kC});
    add("ln_f.bias", {kC});
  }
  void add(const std::string& name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>(tensors.size() * 1000) + static_cast<float>(i));
    }
    tensors[name] = {std::move(shape), std::move(values)};
  }
  void rename_all(const std::string& prefix) {
    std::map<std::string, Tensor> renamed;
    for (auto& [name, tensor] : tensors) renamed[prefix + name] = tensor;
    tensors = renamed;
  }
  static void write_file(const std::string& path, const std::map<std::string, Tensor>& tensors) {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor.dtype, tensor.shape});
    SafetensorsWriter writer(path, entries, {{"format", "pt"}});
    size_t i = 0;
    for (const auto& [name, tensor] : tensors) {
      if (tensor.dtype == "BF16") {
        std::vector<bf16_t> rounded;
        for (float v : tensor.values) rounded.push_back(to_bf16(v));
        writer.write(i++, std::as_bytes(std::span(rounded)));
      } else {
        writer.write(i++, std::as_bytes(std::span(tensor.values)));
      }
    }
    writer.commit();
  }
  const std::string& write() {
    write_text(folder / "config.json", config.dump());
    write_file(folder / "model.safetensors", tensors);
    return path_ = folder.path();
  }
  std::string path_;
};

struct Loaded {
  Spec spec;
  ParameterTable table;
  TrainingState state;
  explicit Loaded(
      const std::string& folder, const std::function<void(Spec&)>& change = [](Spec&) {})
      : spec(changed(folder, change)), table(spec), state(table, DType::f32, false) {
    load_huggingface(folder, spec, table, state);
  }
  static Spec changed(const std::string& folder, const std::function<void(Spec&)>& change) {
    Spec spec = read_huggingface_spec(folder);
    change(spec);
    return spec;
  }
  std::vector<float> values(const std::string& name) const {
    const Parameter& p = table.find(name);
    std::vector<float> out(static_cast<size_t>(p.stored_shape.count()));
    state.read_master(p, out);
    return out;
  }
};

std::string spec_error(const Json& change) {
  Folder folder;
  folder.config.update(change);
  folder.write();
  try {
    read_huggingface_spec(folder.path_);
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.kind()), static_cast<int>(ErrorKind::data));
    return e.what();
  }
  return "no error";
}

std::string load_error(
    Folder& folder, const std::function<void(Spec&)>& change = [](Spec&) {}) {
  try {
    const Loaded loaded(folder.write(), change);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(HuggingFace, ConfigBecomesASpec) {
  Folder folder;
  folder.config.update({{"activation_function", "gelu"},
                        {"tie_word_embeddings", false},
                        {"layer_norm_epsilon", 1e-6},
                        {"embd_pdrop", 0.0},
                        {"attn_pdrop", 0.25},
                        {"resid_pdrop", 0.5},
                        {"transformers_version", "4.40.0"}});
  const Spec spec = read_huggingface_spec(folder.write());
  EXPECT_EQ(spec.vocabulary, kV);
  EXPECT_EQ(spec.vocabulary_rows, kV);
  EXPECT_EQ(spec.context, kT);
  EXPECT_EQ(spec.layers, kL);
  EXPECT_EQ(spec.heads, kH);
  EXPECT_EQ(spec.width, kC);
  EXPECT_EQ(spec.inner_width, kI);
  EXPECT_EQ(spec.activation, Activation::gelu_erf);
  EXPECT_FALSE(spec.tied_head);
  EXPECT_EQ(spec.norm_epsilon, 1e-6f);
  EXPECT_EQ(spec.embedding_dropout, 0.0f);
  EXPECT_EQ(spec.attention_dropout, 0.25f);
  EXPECT_EQ(spec.residual_dropout, 0.5f);
}

TEST(HuggingFace, ConfigDefaultsAreTheLibrarys) {
  Folder folder;
  folder.config.update({{"n_inner", nullptr}});
  const Spec spec = read_huggingface_spec(folder.write());
  EXPECT_EQ(spec.inner_width, 4 * kC);
  EXPECT_EQ(spec.activation, Activation::gelu_tanh);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.norm_epsilon, 1e-5f);
  EXPECT_EQ(spec.residual_dropout, 0.1f);
}

TEST(HuggingFace, EveryActivationNameIsKnown) {
  const std::pair<const char*, Activation> names[] = {{"gelu_new", Activation::gelu_tanh},
                                                      {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                      {"gelu_fast", Activation::gelu_tanh},
                                                      {"gelu", Activation::gelu_erf},
                                                      {"relu", Activation::relu}};
  for (const auto& [name, activation] : names) {
    Folder folder;
    folder.config["activation_function"] = name;
    EXPECT_EQ(read_huggingface_spec(folder.write()).activation, activation) << name;
  }
}

TEST(HuggingFace, ConfigsThatWouldChangeNumbersAreRefused) {
  using testing::HasSubstr;
  EXPECT_THAT(spec_error({{"model_type", "mamba"}}), HasSubstr("model_type \"mamba\"; known: gpt2, opt, gpt_neox"));
  EXPECT_THAT(spec_error({{"activation_function", "quick_gelu"}}),
              HasSubstr("activation_function \"quick_gelu\"; known: gelu_new, gelu_pytorch_tanh"));
  EXPECT_THAT(spec_error({{"scale_attn_weights", false}}),
              HasSubstr("\"scale_attn_weights\" is false, but only true is"));
  EXPECT_THAT(spec_error({{"scale_attn_by_inverse_layer_idx", true}}), HasSubstr("only false is supported"));
  EXPECT_THAT(spec_error({{"reorder_and_upcast_attn", true}}), HasSubstr("only false is supported"));
  EXPECT_THAT(spec_error({{"add_cross_attention", true}}), HasSubstr("only false is supported"));
  EXPECT_THAT(spec_error({{"n_head", 3}}), HasSubstr("config.json: model: 3 heads do not divide width 8"));
  EXPECT_THAT(spec_error({{"n_layer", "2"}}), HasSubstr("\"n_layer\" has a wrong type or range: \"2\""));
  EXPECT_THAT(spec_error({{"n_embd", -8}}), HasSubstr("\"n_embd\" is -8"));
  Folder folder;
  folder.config.erase("vocab_size");
  EXPECT_ERROR(read_huggingface_spec(folder.write()), ErrorKind::data, "\"vocab_size\" is missing");
}

TEST(HuggingFace, MatricesAreTransposedAndHeadsRegrouped) {
  Folder folder;
  const Loaded loaded(folder.write());
  EXPECT_EQ(loaded.values("embedding.token.weight"), folder.tensors["wte.weight"].values);
  EXPECT_EQ(loaded.values("norm.bias"), folder.tensors["ln_f.bias"].values);
  const auto& fc = folder.tensors["h.1.mlp.c_fc.weight"].values;
  const auto in = loaded.values("block.1.mlp.in.weight");
  for (int64_t o = 0; o < kI; ++o) {
    for (int64_t i = 0; i < kC; ++i) {
      ASSERT_EQ(in[static_cast<size_t>(o * kC + i)], fc[static_cast<size_t>(i * kI + o)]);
    }
  }
  const auto& attn = folder.tensors["h.0.attn.c_attn.weight"].values;
  const auto& bias = folder.tensors["h.0.attn.c_attn.bias"].values;
  const auto qkv = loaded.values("block.0.attention.qkv.weight");
  const auto qkv_bias = loaded.values("block.0.attention.qkv.bias");
  const int64_t d = kC / kH;
  size_t row = 0;
  for (int64_t head = 0; head < kH; ++head) {
    for (int64_t part = 0; part < 3; ++part) {
      for (int64_t i = 0; i < d; ++i, ++row) {
        const int64_t column = part * kC + head * d + i;
        ASSERT_EQ(qkv_bias[row], bias[static_cast<size_t>(column)]);
        for (int64_t c = 0; c < kC; ++c) {
          ASSERT_EQ(qkv[row * kC + static_cast<size_t>(c)], attn[static_cast<size_t>(c * 3 * kC + column)]);
        }
      }
    }
  }
}

TEST(HuggingFace, PaddingRowsOfTheVocabularyStayZero) {
  Folder folder;
  const Loaded loaded(folder.write(), [](Spec& spec) { spec.vocabulary_rows = 64; });
  EXPECT_EQ(loaded.values("embedding.token.weight"), folder.tensors["wte.weight"].values);
  const Parameter& p = loaded.table.find("embedding.token.weight");
  const float* rows = loaded.state.weights().as<float>() + p.offset;
  for (int64_t i = kV * kC; i < 64 * kC; ++i) ASSERT_EQ(rows[i], 0);
}

TEST(HuggingFace, PrefixBuffersAndTiedHeadAreAccepted) {
  Folder folder;
  const Loaded plain(folder.write());
  folder.rename_all("transformer.");
  folder.add("transformer.h.0.attn.bias", {1, 1, kT, kT});
  folder.add("transformer.h.1.attn.masked_bias", {1});
  folder.tensors["lm_head.weight"] = folder.tensors["transformer.wte.weight"];
  const Loaded prefixed(folder.write());
  EXPECT_TRUE(same_state(plain.state, prefixed.state));
}

TEST(HuggingFace, HalfPrecisionFilesLoad) {
  Folder folder;
  folder.tensors["wpe.weight"].dtype = "BF16";
  const Loaded loaded(folder.write());
  std::vector<float> want;
  for (float v : folder.tensors["wpe.weight"].values) want.push_back(to_float(to_bf16(v)));
  EXPECT_EQ(loaded.values("embedding.position.weight"), want);
  folder.tensors["wpe.weight"].dtype = "I32";
  EXPECT_THAT(load_error(folder), testing::HasSubstr("wpe.weight: type I32, expected F32, F16, BF16 or F64"));
}

TEST(HuggingFace, QuantisedWeightsAreRefusedAndALeftOverMethodIsNot) {
  Folder folder;
  const Loaded plain(folder.write());
  folder.config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}};
  EXPECT_TRUE(same_state(plain.state, Loaded(folder.write()).state)) << "merged into floats before it was saved";
  auto& packed = folder.tensors.at("wpe.weight");
  packed.dtype = "I32";
  EXPECT_ERROR(Loaded(folder.write()), ErrorKind::data,
               "quantised (quantization_config: bitsandbytes; wpe.weight is stored as I32); give the model that was");
}

TEST(HuggingFace, AFileLeftOverBesideAnIndexIsNamed) {
  Folder folder;
  folder.write();
  Json map;
  for (const auto& [name, tensor] : folder.tensors) map[name] = "model-0.safetensors";
  Folder::write_file(folder.folder / "model-0.safetensors", folder.tensors);
  const std::string index = folder.folder / "model.safetensors.index.json";
  write_text(index, Json{{"weight_map", map}}.dump());
  const Loaded both(folder.folder.path());  // the same tensors twice
  map["more"] = "model-0.safetensors";
  write_text(index, Json{{"weight_map", map}}.dump());
  EXPECT_ERROR(Loaded(folder.folder.path()), ErrorKind::data,
               "one of the two is left over from another model; remove it");
}

TEST(HuggingFace, ShardedModelsLoadByTheirIndex) {
  Folder folder;
  const Loaded whole(folder.write());
  fs::remove(folder.folder / "model.safetensors");
  std::map<std::string, Folder::Tensor> parts[2];
  Json map;
  for (const auto& [name, tensor] : folder.tensors) {
    const size_t part = name.starts_with("h.1") ? 1 : 0;
    parts[part][name] = tensor;
    map[name] = fmt::format("model-{}.safetensors", part);
  }
  Folder::write_file(folder.folder / "model-0.safetensors", parts[0]);
  Folder::write_file(folder.folder / "model-1.safetensors", parts[1]);
  const std::string index = folder.folder / "model.safetensors.index.json";
  write_text(index, Json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
  EXPECT_TRUE(same_state(whole.state, Loaded(folder.folder.path()).state));

  Json wrong = map;
  wrong["wte.weight"] = "model-1.safetensors";
  write_text(index, Json{{"weight_map", wrong}}.dump());
  EXPECT_ERROR(Loaded(folder.folder.path()), ErrorKind::data, "contains tensor wte.weight, which model-1");
  wrong = map;
  wrong.erase("wte.weight");
  write_text(index, Json{{"weight_map", wrong}}.dump());
  EXPECT_ERROR(Loaded(folder.folder.path()), ErrorKind::data, "tensor wte.weight is not in");
  wrong = map;
  wrong["more"] = "model-1.safetensors";
  write_text(index, Json{{"weight_map", wrong}}.dump());
  EXPECT_ERROR(Loaded(folder.folder.path()), ErrorKind::data, "lists 29 tensors, but its files contain 28");
  wrong["more"] = "../elsewhere.safetensors";
  write_text(index, Json{{"weight_map", wrong}}.dump());
  EXPECT_ERROR(Loaded(folder.folder.path()), ErrorKind::data, "expected a file in the same folder");
}

TEST(HuggingFace, AllMissingFilesOfAnIndexAreNamedTogether) {
  Folder folder;
  folder.write();
  fs::remove(folder.folder / "model.safetensors");
  std::string index = R"({"weight_map": {"w": "shard-0.safetensors")";
  for (int i = 1; i < 100'000; ++i) index += fmt::format(R"(, "w{}": "shard-{}.safetensors")", i, i);
  write_text(folder.folder / "model.safetensors.index.json", index + "}}");
  EXPECT_ERROR(
      Loaded(folder.folder.path()), ErrorKind::io,
      "model.safetensors.index.json: 100000 of its 100000 files are missing; the first is shard-0.safetensors");
}

TEST(HuggingFace, SizesThatNoModelHasAreRefusedBeforeAnythingIsMade) {
  Folder folder;
  folder.config["n_layer"] = 10'000'000;
  folder.write();
  EXPECT_ERROR(read_huggingface_spec(folder.folder.path()), ErrorKind::data,
               "config.json: model: layers is 10000000, expected 1 to 1000");
}

TEST(HuggingFace, FoldersWithoutWeightsSayWhatIsMissing) {
  Folder folder;
  folder.write();
  fs::remove(folder.folder / "model.safetensors");
  EXPECT_ERROR(Loaded(folder.folder.path()), ErrorKind::io,
               "holds no weights: neither model.safetensors nor pytorch_model.bin, nor an index of either");
}

TEST(HuggingFace, WeightsOfOtherProgramsAreCalledByTheirFormat) {
  Folder folder;
  folder.write();
  fs::remove(folder.folder / "model.safetensors");
  write_text(folder.folder / "training_args.bin", std::string("\x80\x02}q") + std::string(64, '\0'));
  EXPECT_ERROR(Loaded(folder.folder.path()), ErrorKind::io, "holds no weights");
  for (const auto& [name, bytes, format] : {std::tuple{"model.gguf", "GGUF", "GGUF"},
                                            {"tf_model.h5", "\x89HDF\r\n\x1a\n", "HDF5"},
                                            {"model.onnx", "\x08\x07\x12\x07pytorch", "ONNX"}}) {
    write_text(folder.folder / name, bytes + std::string(64, '\0'));
    EXPECT_ERROR(
        Loaded(folder.folder.path()), ErrorKind::data,
        fmt::format("{}: format {} is recognised but not supported; convert it", folder.folder / name, format));
    fs::remove(folder.folder / name);
  }
}

TEST(HuggingFace, AllFaultsAreListedTogether) {
  Folder folder;
  folder.tensors.erase("h.0.mlp.c_fc.bias");
  folder.add("h.1.ln_2.weight", {kC + 1});
  folder.add("h.2.ln_1.weight", {kC});
  folder.add("score.weight", {2, kC});
  folder.add("lm_head.weight", {kV, kC});
  folder.add("transformer.ln_f.bias", {kC});
  const std::string error = load_error(folder);
  EXPECT_THAT(error, testing::HasSubstr("does not fit the model (6 tensors)"));
  EXPECT_THAT(error, testing::HasSubstr("h.0.mlp.c_fc.bias: missing, expected [24]"));
  EXPECT_THAT(error, testing::HasSubstr("h.1.ln_2.weight: shape [9], expected [8]"));
  EXPECT_THAT(error, testing::HasSubstr("h.2.ln_1.weight: unexpected, F32 [8]"));
  EXPECT_THAT(error, testing::HasSubstr("score.weight: unexpected, F32 [2, 8]"));
  EXPECT_THAT(error, testing::HasSubstr("lm_head.weight: differs from wte.weight although the head is tied"));
  EXPECT_THAT(error, testing::HasSubstr("ln_f.bias: appears twice, as \"ln_f.bias\" and as \"transformer.ln_f.bias\""));
}

TEST(HuggingFace, TheSpecDecidesAboutBiases) {
  Folder folder;
  EXPECT_THAT(load_error(folder, [](Spec& spec) { spec.biases.qkv = false; }),
              testing::HasSubstr("h.0.attn.c_attn.bias: unexpected"));
  folder.tensors.erase("h.0.attn.c_attn.bias");
  folder.tensors.erase("h.1.attn.c_attn.bias");
  EXPECT_THAT(load_error(folder), testing::HasSubstr("h.1.attn.c_attn.bias: missing"));
  EXPECT_EQ(load_error(folder, [](Spec& spec) { spec.biases.qkv = false; }), "no error");
}

TEST(HuggingFace, PositionsAreCroppedNeverInvented) {
  Folder folder;
  const Loaded loaded(folder.write(), [](Spec& spec) { spec.context = 4; });
  auto want = folder.tensors["wpe.weight"].values;
  want.resize(4 * kC);
  EXPECT_EQ(loaded.values("embedding.position.weight"), want);
  EXPECT_THAT(load_error(folder, [](Spec& spec) { spec.context = 7; }),
              testing::HasSubstr("wpe.weight: has 6 positions, but the model needs 7; set --model.context 6"));
}

TEST(HuggingFace, ExportAndImportAreInverse) {
  for (const bool tied : {true, false}) {
    TemporaryFolder out;
    Spec spec = small_spec();
    spec.tied_head = tied;
    spec.activation = tied ? Activation::gelu_tanh : Activation::gelu_erf;
    spec.norm_epsilon = 1e-6f;
    spec.attention_dropout = 0.1f;
    const ParameterTable table(spec);
    TrainingState state(table, DType::f32, false);
    fill(state, table, 4);
    const std::string folder = out / "model";
    export_huggingface(folder, spec, table, state, "", DType::f32);
    Spec read = read_huggingface_spec(folder);
    read.vocabulary_rows = spec.vocabulary_rows;
    EXPECT_EQ(read, spec);
    const Loaded back(folder, [&](Spec& s) { s.vocabulary_rows = spec.vocabulary_rows; });
    EXPECT_TRUE(same_state(back.state, state));
    EXPECT_FALSE(fs::exists(folder + "/tokenizer.json"));
    EXPECT_EQ(SafetensorsFile(folder + "/model.safetensors").find("lm_head.weight") != nullptr, !tied);
    EXPECT_ERROR(export_huggingface(folder, spec, table, state, "", DType::f32), ErrorKind::io, "holds a model");
  }
}

TEST(HuggingFace, ImportAndExportGiveTheSameBytes) {
  Folder folder;
  folder.rename_all("transformer.");
  const Loaded loaded(folder.write());
  TemporaryFolder out;
  export_huggingface(out / "m", loaded.spec, loaded.table, loaded.state, "", DType::f32);
  EXPECT_TRUE(read_text(out / "m/model.safetensors") == read_text(folder.folder / "model.safetensors"));
}

TEST(HuggingFace, ExportedConfigSaysWhatTheModelIs) {
  TemporaryFolder out;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  TrainingState state(table, DType::bf16, false);
  fill(state, table, 4);
  const std::string tokenizer = R"({"added_tokens":[{"id":10,"content":"<|endoftext|>","special":true}]})";
  export_huggingface(out / "m", spec, table, state, tokenizer, DType::bf16);
  const Json config = read_json(out / "m/config.json");
  EXPECT_EQ(config["architectures"], Json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(config["eos_token_id"], 10);
  EXPECT_EQ(config["torch_dtype"], "bfloat16");
  EXPECT_EQ(config["dtype"], "bfloat16") << "transformers 5's name";
  EXPECT_EQ(config["layer_norm_epsilon"].dump(), "1e-05");
  EXPECT_EQ(read_text(out / "m/tokenizer.json"), tokenizer);
  EXPECT_EQ(read_json(out / "m/tokenizer_config.json")["eos_token"], "<|endoftext|>");
  EXPECT_EQ(read_json(out / "m/generation_config.json")["eos_token_id"], 10);
  // A bf16 model's weights are exported unchanged.
  const SafetensorsFile file(out / "m/model.safetensors");
  const Parameter& p = table.find("embedding.token.weight");
  const auto bytes = file.bytes(*file.find("transformer.wte.weight"));
  EXPECT_EQ(std::memcmp(bytes.data(), state.weights().as<bf16_t>() + p.offset, bytes.size()), 0);
  EXPECT_EQ(bytes.size(), static_cast<size_t>(2 * kV * kC));
  EXPECT_ERROR(
      export_huggingface(out / "odd", spec, table, state, tokenizer, DType::f32, {},
                         R"({"config": {}, "generation_config": null, "tokenizer_files": {"../x.jinja": ""}})"),
      ErrorKind::data, "the checkpoint holds ../x.jinja among its tokenizer's files, which is not a tokenizer's");
  EXPECT_ERROR(export_huggingface(out / "f16", spec, table, state, "", DType::f16), ErrorKind::config,
               "cannot export weights as f16");
}

TEST(HuggingFace, ExportedTokenizersSayWhatTheirSpecialTokensAreFor) {
  TemporaryFolder out;
  const auto exported = [&](const std::string& name, const Spec& spec, const std::string& added) {
    const ParameterTable table(spec);
    const TrainingState state(table, DType::f32, false);
    export_huggingface(out / name, spec, table, state, R"({"added_tokens":[)" + added + "]}", DType::f32);
    return read_json(out / name + "/tokenizer_config.json");
  };
  Spec encoder = small_spec();
  encoder.activation = Activation::gelu_erf;
  encoder.mask = Mask::full;
  encoder.norm_place = NormPlace::post;
  encoder.final_norm = false;
  encoder.token_types = 2;
  encoder.embedding_norm = true;
  encoder.head = HeadKind::masked_language_model;
  encoder.head_activation = encoder.activation;
  const Json bert = exported("bert", encoder,
                             R"({"id":0,"content":"[PAD]"},{"id":1,"content":"[UNK]"},{"id":2,"content":"[CLS]"},)"
                             R"({"id":3,"content":"[SEP]"},{"id":4,"content":"[MASK]"})");
  EXPECT_EQ(bert["model_input_names"], Json::array({"input_ids", "attention_mask", "token_type_ids"}));
  for (const char* role : {"pad", "unk", "cls", "sep", "mask"}) {
    std::string text = role;
    for (char& c : text) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ(bert[std::string(role) + "_token"], "[" + text + "]");
  }
  EXPECT_FALSE(bert.contains("eos_token"));

  const Json decoder = exported("decoder", small_spec(), R"({"id":1,"content":"<pad>"},{"id":2,"content":"</s>"})");
  EXPECT_EQ(decoder["model_input_names"], Json::array({"input_ids", "attention_mask"}));
  EXPECT_EQ(decoder["pad_token"], "<pad>");
  for (const char* role : {"bos_token", "eos_token", "unk_token"}) EXPECT_EQ(decoder[role], "</s>");
  EXPECT_EQ(read_json(out / "decoder/config.json")["eos_token_id"], 2);
}

TEST(HuggingFace, AStopEndsTheExport) {
  TemporaryFolder out;
  const Spec spec = small_spec();
  const ParameterTable table(spec);
  const TrainingState state(table, DType::f32, false);
  int asked = 0;
  EXPECT_ERROR(export_huggingface(out / "m", spec, table, state, "", DType::f32, [&] { return ++asked == 4; }),
               ErrorKind::stopped, "the export was stopped after 3 of 28 tensors");
  EXPECT_TRUE(fs::is_empty(out / "m"));
}

TEST(HuggingFace, AbsentBiasesAreExportedAsZeros) {
  TemporaryFolder out;
  Spec spec = small_spec();
  spec.biases = {false, false, false, false, false};
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, false);
  fill(state, table, 4);
  export_huggingface(out / "m", spec, table, state, "", DType::f32);
  const Loaded back(out / "m");
  EXPECT_EQ(back.values("block.1.attention.qkv.bias"), std::vector<float>(3 * kC, 0.0f));
  std::vector<float> want(static_cast<size_t>(3 * kC * kC));
  state.read_master(table.find("block.1.attention.qkv.weight"), want);
  EXPECT_EQ(back.values("block.1.attention.qkv.weight"), want);
}

TEST(HuggingFace, TrainedSortingModelLoads) {
  TRIREME_NEEDS_TEST_DATA("weights/gpt-nano-sort/model.hf_gpt2.safetensors");
  TemporaryFolder folder;
  const fs::path source = test_data_dir() / "weights/gpt-nano-sort";
  fs::create_symlink(fs::absolute(source / "config.json"), folder / "config.json");
  fs::create_symlink(fs::absolute(source / "model.hf_gpt2.safetensors"), folder / "model.safetensors");
  EXPECT_ERROR(Loaded(folder.path()), ErrorKind::data, "h.2.attn.c_attn.bias: missing, expected [144]");
  const Loaded loaded(folder.path(), [](Spec& spec) { spec.biases.qkv = false; });
  EXPECT_FALSE(loaded.spec.tied_head);
  EXPECT_EQ(loaded.spec.activation, Activation::gelu_tanh);
  const SafetensorsFile file(folder / "model.safetensors");
  const auto theirs = file.read_f32(*file.find("transformer.h.1.mlp.c_proj.weight"));
  const auto ours = loaded.values("block.1.mlp.out.weight");
  for (size_t o = 0; o < 48; ++o) {
    for (size_t i = 0; i < 192; ++i) ASSERT_EQ(ours[o * 192 + i], theirs[i * 48 + o]);
  }
  EXPECT_EQ(loaded.values("head.weight"), file.read_f32(*file.find("lm_head.weight")));
}

TEST(Family, LayoutsAreInvertible) {
  std::vector<float> ours(3 * 12 * 5), theirs(ours.size()), back(ours.size());
  for (size_t i = 0; i < ours.size(); ++i) ours[i] = static_cast<float>(i);
  for (const FileLayout layout :
       {FileLayout::same, FileLayout::transposed, FileLayout::qkv_blocks, FileLayout::qkv_blocks_transposed}) {
    export_values(layout, {4, 1}, 36, 5, ours, theirs);
    EXPECT_EQ(theirs == ours, layout == FileLayout::same);
    import_values(layout, {4, 1}, 36, 5, theirs, back);
    EXPECT_EQ(ours, back);
  }
}

TEST(GenerationSettings, NumbersOf64BitsAreNotTakenForNegativeOnes) {
  const auto settings = [](const std::string& fields) {
    return generation_settings(R"({"config": {}, "generation_config": {)" + fields + "}}", "M");
  };
  EXPECT_EQ(settings(R"("eos_token_id": [5, -1, 2147483647])").end, (std::vector<TokenId>{5, 2147483647}));
  for (const char* id : {"2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551615"}) {
    const std::string shown = std::string(id) + ", expected a token's id or a list of ids";
    EXPECT_ERROR(settings(R"("eos_token_id": )" + std::string(id)), ErrorKind::data,
                 "M: generation_config.json: \"eos_token_id\" is " + shown);
    EXPECT_ERROR(settings(R"("suppress_tokens": )" + std::string(id)), ErrorKind::data, shown);
  }
  EXPECT_ERROR(settings(R"("max_new_tokens": 18446744073709551615)"), ErrorKind::data,
               "\"max_new_tokens\" is 18446744073709551615, expected a whole number of at least 0");
}

TEST(Family, PatternsFitNumbersOnly) {
  EXPECT_TRUE(fits("h.{}.attn.bias", "h.11.attn.bias"));
  EXPECT_FALSE(fits("h.{}.attn.bias", "h..attn.bias"));
  EXPECT_FALSE(fits("h.{}.attn.bias", "h.x.attn.bias"));
  EXPECT_FALSE(fits("h.{}.attn.bias", "h.1.attn.bias2"));
  EXPECT_TRUE(fits("wte.weight", "wte.weight"));
  EXPECT_EQ(numbered("h.{}.x", 12), "h.12.x");
}

}  // namespace
}  // namespace trireme
