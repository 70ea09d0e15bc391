// Every family against golden cases that scripts/make_parity_case.py made from small random models of transformers.
#include "checkpoint/parity/parity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "checkpoint/huggingface/huggingface.h"
#include "checkpoint/safetensors/safetensors.h"
#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {
namespace fs = std::filesystem;

const char* const kModels[] = {"gpt2",
                               "opt",
                               "opt-post-norm",
                               "neox-parallel",
                               "neox-sequential",
                               "bert-mlm",
                               "bert-classifier",
                               "bert-regression",
                               "distilbert-classifier",
                               "distilbert-mlm",
                               "roberta-classifier",
                               "roberta-mlm",
                               "llama",
                               "llama-biases",
                               "llama-llama3",
                               "llama-dynamic",
                               "mistral",
                               "qwen2",
                               "qwen2-window",
                               "qwen3",
                               "qwen3.5",  // of seed 7, as olmo2's
                               "qwen3.5-interval",
                               "gemma",
                               "gemma2",
                               "gemma3",
                               "phi3",
                               "phi3-partial",
                               "smollm3",
                               "olmo2",  // of seed 1, as olmo3: in bf16 others lose more than is allowed below
                               "olmo3",
                               "granite"};

std::string golden(const std::string& model) { return (fs::path(source_dir()) / "tests" / "golden" / model).string(); }

class EveryFamily : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Parity, EveryFamily, ::testing::ValuesIn(kModels), [](const auto& model) {
  std::string name = model.param;
  for (const char other : {'-', '.'}) std::replace(name.begin(), name.end(), other, '_');
  return name;
});

/// All results and gradients of the case were compared, and are near.
void expect_near(const std::vector<ParityTensor>& tensors, const std::string& case_file) {
  size_t expected = 0;
  const SafetensorsFile file(case_file);
  for (const SafetensorsEntry& entry : file.entries())
    expected += entry.name.starts_with("grad.") || entry.name == "logits" || entry.name == "loss";
  EXPECT_EQ(tensors.size(), expected);
  EXPECT_GT(expected, 1u);
  for (const ParityTensor& tensor : tensors)
    EXPECT_LT(tensor.error, tensor.name.starts_with("grad.") ? 1e-3 : 1e-4) << tensor.name;
}

TEST_P(EveryFamily, GivesTheirLogitsLossAndGradients) {
  const auto ops = make_cpu_ops();
  const std::string folder = golden(GetParam()), expected = folder + "/case.safetensors";
  expect_near(compare_with_case(folder, expected, DType::f32, *ops, 2), expected);
}

TEST_P(EveryFamily, GivesThemOnTensorAndPipelineRanks) {
  const std::string folder = golden(GetParam()), expected = folder + "/case.safetensors";
  const auto ops = make_cpu_ops();
  const size_t all = compare_with_case(folder, expected, DType::f32, *ops, 1).size();
  for (const MeshShape& shape : {MeshShape{1, 2, 2}, MeshShape{1, 2, 1}, MeshShape{1, 1, 2}}) {
    run_local(static_cast<int>(shape.tensor * shape.pipeline), [&](RankContext& rank) {
      Mesh mesh(rank.world, shape);
      const auto own_ops = make_cpu_ops();
      const auto tensors = compare_with_case(folder, expected, DType::f32, *own_ops, 1, &mesh);
      EXPECT_EQ(tensors.size(), all);
      for (const ParityTensor& tensor : tensors)
        EXPECT_LT(tensor.error, tensor.name.starts_with("grad.") ? 1e-3 : 1e-4)
            << tensor.name << " on tensor " << shape.tensor << ", pipeline " << shape.pipeline;
    });
  }
}

TEST(ParityOfPadding, ItsRowHasTheGradientOfTheHeadAlone) {
  const auto ops = make_cpu_ops();
  for (const char* model : {"llama", "qwen2"}) {  // an own and a tied head
    SCOPED_TRACE(model);
    const std::string folder = golden(model), expected = folder + "/padding.safetensors";
    expect_near(compare_with_case(folder, expected, DType::f32, *ops, 1), expected);
  }
}

TEST_P(EveryFamily, IsNearInBfloat) {
  const auto ops = make_cpu_ops();
  const std::string folder = golden(GetParam());
  const auto tensors = compare_with_case(folder, folder + "/case.safetensors", DType::bf16, *ops, 1);
  double largest = 0;
  for (const ParityTensor& tensor : tensors)
    if (tensor.name.starts_with("grad.")) largest = std::max(largest, tensor.want);
  size_t gradients = 0;
  for (const ParityTensor& tensor : tensors) {
    if (!tensor.name.starts_with("grad.")) {
      EXPECT_LT(tensor.error, 0.05) << tensor.name;
    } else if (tensor.want > 1e-3 * largest) {  // smaller ones are zero except for rounding: key biases
      EXPECT_LT(tensor.error, 0.1) << tensor.name;
      ++gradients;
    }
  }
  EXPECT_GT(gradients, tensors.size() * 3 / 4);
}

TEST_P(EveryFamily, ComesBackWithTheSameBytes) {
  const std::string folder = golden(GetParam());
  const Spec spec = read_huggingface_spec(folder);
  const ParameterTable table(spec);
  TrainingState state(table, DType::f32, false);
  load_huggingface(folder, spec, table, state);
  TemporaryFolder out;
  export_huggingface(out / "m", spec, table, state, "", DType::f32);
  EXPECT_EQ(read_huggingface_spec(out / "m"), spec);
  const SafetensorsFile theirs(folder + "/model.safetensors"), ours(out / "m/model.safetensors");
  ASSERT_EQ(ours.entries().size(), theirs.entries().size());
  for (const SafetensorsEntry& entry : theirs.entries()) {
    const SafetensorsEntry* back = ours.find(entry.name);
    ASSERT_TRUE(back) << entry.name;
    EXPECT_EQ(back->shape, entry.shape) << entry.name;
    EXPECT_TRUE(std::ranges::equal(ours.bytes(*back), theirs.bytes(entry))) << entry.name;
  }
}

TEST(Parity, OfARunIgnoresThePaddingOfTheVocabulary) {
  for (const char* model : {"gpt2", "opt", "neox-parallel", "bert-mlm", "distilbert-mlm", "roberta-mlm"}) {
    for (const int64_t rows : {37, 40, 64, 512}) {
      SCOPED_TRACE(fmt::format("{} with {} rows", model, rows));
      const std::string folder = golden(model), expected = folder + "/case.safetensors";
      Spec spec = read_huggingface_spec(folder);
      spec.vocabulary_rows = rows;
      const ParameterTable table(spec);
      TrainingState state(table, DType::f32, true);
      load_huggingface(folder, spec, table, state);
      const TemporaryFolder run;
      save(run / "run", table, state, facts_of(spec, 1));
      const auto compare = [&](Mesh* mesh) {
        const auto ops = make_cpu_ops();
        expect_near(compare_with_case(run / "run", expected, DType::f32, *ops, 1, mesh), expected);
      };
      compare(nullptr);
      if (rows != 64) continue;
      run_local(2, [&](RankContext& rank) {
        Mesh mesh(rank.world, {1, 2, 1});
        compare(&mesh);
      });
    }
  }
}

std::string peft_sample(const std::string& name, const std::string& part) {
  return golden("peft") + "/" + name + "/" + part;
}
std::vector<ParityTensor> compare_adapter(const std::string& name, DType dtype = DType::f32, Mesh* mesh = nullptr) {
  const auto ops = make_cpu_ops();
  return compare_with_case(peft_sample(name, "base"), peft_sample(name, "case.safetensors"), dtype, *ops, 1, mesh,
                           peft_sample(name, "adapter"));
}

/// Adapters of scripts/make_peft_samples.py, with cases by make_parity_case.py --adapter.
class EveryAdapter : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Parity, EveryAdapter,
                         ::testing::Values("llama", "llama_all_rslora", "llama_dora", "gpt2_dora", "phi3", "gpt_neox",
                                           "bert"),
                         [](const auto& sample) { return std::string(sample.param); });

TEST_P(EveryAdapter, GivesTheLogitsLossAndGradientsOfPeft) {
  const std::string sample = GetParam();
  const std::vector<ParityTensor> tensors = compare_adapter(sample);
  for (const ParityTensor& tensor : tensors)
    EXPECT_LT(tensor.error, tensor.name.starts_with("grad.") ? 1e-3 : 1e-4) << tensor.name;
  const SafetensorsFile trained(peft_sample(sample, "adapter/adapter_model.safetensors"));
  ASSERT_EQ(tensors.size(), 2 + trained.entries().size());
  for (const SafetensorsEntry& entry : trained.entries())
    EXPECT_TRUE(std::ranges::any_of(tensors, [&](const auto& t) { return t.name == "grad." + entry.name; }))
        << entry.name;
}

TEST_P(EveryAdapter, GivesThemOnTensorAndPipelineRanks) {
  const std::string sample = GetParam();
  const bool saves = sample == "bert";  // a module that was trained in full needs one rank
  const size_t all = compare_adapter(sample).size();
  for (const MeshShape& shape : {MeshShape{1, 2, 2}, MeshShape{1, 2, 1}, MeshShape{1, 1, 2}}) {
    if (saves && shape.tensor > 1) continue;
    run_local(static_cast<int>(shape.tensor * shape.pipeline), [&](RankContext& rank) {
      Mesh mesh(rank.world, shape);
      const auto tensors = compare_adapter(sample, DType::f32, &mesh);
      EXPECT_EQ(tensors.size(), all);
      for (const ParityTensor& tensor : tensors)
        EXPECT_LT(tensor.error, tensor.name.starts_with("grad.") ? 1e-3 : 1e-4)
            << tensor.name << " on tensor " << shape.tensor << ", pipeline " << shape.pipeline;
    });
  }
}

TEST(Parity, OfAnAdapterNamesWhatDoesNotFit) {
  const auto ops = make_cpu_ops();
  const std::string base = peft_sample("llama", "base"), expected = peft_sample("llama", "case.safetensors");
  EXPECT_ERROR(compare_with_case(base, expected, DType::f32, *ops, 1), ErrorKind::data,
               "grad.model.embed_tokens.weight is missing");
  EXPECT_ERROR(compare_with_case(peft_sample("gpt2", "base"), expected, DType::f32, *ops, 1, nullptr,
                                 peft_sample("llama", "adapter")),
               ErrorKind::data, "does not fit the model");
  EXPECT_ERROR(compare_with_case(peft_sample("gpt2", "base"), expected, DType::f32, *ops, 1, nullptr,
                                 peft_sample("gpt2", "adapter")),
               ErrorKind::config, "was trained without its weight");
  EXPECT_ERROR(compare_with_case(peft_sample("gpt_neox", "base"), expected, DType::f32, *ops, 1, nullptr,
                                 peft_sample("gpt_neox", "adapter")),
               ErrorKind::data,
               "grad.base_model.model.gpt_neox.layers.0.attention.query_key_value.lora_A.weight is missing");
}

TEST(Parity, SeesAWrongWeight) {
  TemporaryFolder folder;
  fs::copy(golden("bert-mlm"), folder / "m");
  std::string bytes = read_text(folder / "m/model.safetensors");
  const SafetensorsFile file(folder / "m/model.safetensors");
  const SafetensorsEntry& entry = *file.find("bert.encoder.layer.1.output.dense.weight");
  const float wrong = 3;
  std::memcpy(bytes.data() + file.header_bytes() + entry.begin, &wrong, sizeof wrong);
  write_text(folder / "m/model.safetensors", bytes);
  const auto ops = make_cpu_ops();
  const auto tensors = compare_with_case(folder / "m", folder / "m/case.safetensors", DType::f32, *ops, 1);
  EXPECT_GT(tensors.front().error, 1e-2) << tensors.front().name;
}

TEST(Parity, AFileInsteadOfAFolderIsCalledByItsFormat) {
  TemporaryFolder folder;
  write_text(folder / "model.h5", "\x89HDF\r\n\x1a\n" + std::string(64, '\0'));
  const auto ops = make_cpu_ops();
  EXPECT_ERROR(compare_with_case(folder / "model.h5", "case", DType::f32, *ops, 1), ErrorKind::data,
               "format HDF5 is recognised but not supported; convert it to a Hugging Face folder");
}

TEST(Parity, ACaseOfAnotherModelIsRefused) {
  const auto ops = make_cpu_ops();
  EXPECT_ERROR(compare_with_case(golden("opt"), golden("gpt2") + "/case.safetensors", DType::f32, *ops, 1),
               ErrorKind::data, "grad.model.decoder.embed_tokens.weight is missing");
}

}  // namespace
}  // namespace trireme
