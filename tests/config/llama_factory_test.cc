#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "config/load.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// The form of LLaMA-Factory's examples.
constexpr const char* kLora =
    "model_name_or_path: m\ntrust_remote_code: true\nstage: sft\ndo_train: true\nfinetuning_type: lora\nlora_rank: 16\n"
    "lora_target: all\ndataset: own,shared\ndataset_dir: FOLDER\ntemplate: qwen3\ncutoff_len: 512\nmax_samples: 1000\n"
    "overwrite_cache: true\npreprocessing_num_workers: 16\noutput_dir: saves/m\nlogging_steps: 10\nsave_steps: 500\n"
    "plot_loss: true\noverwrite_output_dir: true\nreport_to: none\nper_device_train_batch_size: 1\n"
    "gradient_accumulation_steps: 8\nlearning_rate: 1.0e-4\nnum_train_epochs: 3.0\nlr_scheduler_type: cosine\n"
    "warmup_ratio: 0.1\nbf16: true\nddp_timeout: 180000000\nresume_from_checkpoint: null\nval_size: 0.1\n"
    "eval_strategy: steps\neval_steps: 20\n";

class LlamaFactory : public testing::Test {
 protected:
  LlamaFactory() {
    write_text(folder_ / "dataset_info.json",
               R"({"own": {"file_name": "own.json"}, "shared": {"hf_hub_url": "owner/set", "formatting": "sharegpt",
               "columns": {"messages": "dialog"}, "tags": {"role_tag": "who", "user_tag": "customer"}}})");
  }
  LoadedConfig load(std::string text, const std::vector<std::string>& flags = {}) {
    if (const size_t at = text.find("FOLDER"); at != std::string::npos) text.replace(at, 6, folder_.path());
    write_text(folder_ / "x.yaml", text);
    return load_config({folder_ / "x.yaml"}, flags);
  }
  TemporaryFolder folder_;
};

TEST_F(LlamaFactory, AnExampleFileBecomesARun) {
  const LoadedConfig loaded = load(kLora);
  const Config& config = loaded.config;
  EXPECT_EQ(loaded.dialect, "llama-factory");
  EXPECT_EQ(config.model.init, "m");
  EXPECT_EQ(config.lora.rank, 16);
  EXPECT_EQ(config.lora.alpha, 32);
  EXPECT_EQ(config.lora.targets, "all-linear");
  EXPECT_EQ(config.data.train, folder_ / "own.json" + "=1000, owner/set=1000");
  EXPECT_EQ(config.chat.columns, "messages=dialog, role=who");
  EXPECT_EQ(config.chat.roles, "customer=user");
  EXPECT_EQ(config.chat.loss_on, chat::LossOn::assistant);
  EXPECT_FALSE(config.chat.packing);
  EXPECT_EQ(config.chat.validation_share, 0.1);
  EXPECT_EQ(config.batch.sequence, 512);
  EXPECT_EQ(config.batch.per_rank, 8);
  EXPECT_EQ(config.optim.learning_rate, 1e-4);
  EXPECT_EQ(config.optim.warmup_fraction, 0.1);
  EXPECT_EQ(config.evaluation.every, 20);
  EXPECT_EQ(config.precision.dtype, DType::bf16);
  EXPECT_EQ(config.model.recompute, Recompute::full);
  EXPECT_EQ(load(kLora, {"--optim.learning-rate", "3e-4"}).config.optim.learning_rate, 3e-4);
}

TEST_F(LlamaFactory, SaysAllProblemsOfAFileAtOnce) {
  const std::string text =
      "model_name_or_path: m\nstage: sft\nfinetuning_type: oft\nquantization_bit: 4\nuse_galore: true\n"
      "deepspeed: z.json\ndataset: none\ndataset_dir: FOLDER\n";
  try {
    load(text);
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    for (const char* part : {":3: finetuning_type is \"oft\": expected lora or full",
                             ":4: quantization_bit cannot be used here: bases of 8 or 4 bits", ":5: use_galore is true",
                             ":6: deepspeed cannot be used here", "has no data set \"none\""})
      EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

TEST_F(LlamaFactory, PairsHaveTheirLoss) {
  const Config config =
      load(
          "model_name_or_path: m\nstage: dpo\nfinetuning_type: full\ndataset: p.json\ndataset_dir: none\n"
          "pref_loss: ipo\npref_beta: 0.2\n")
          .config;
  EXPECT_EQ(config.dpo.loss, PairLoss::ipo);
  EXPECT_EQ(config.dpo.beta, 0.2);
  EXPECT_EQ(config.lora.rank, 0);
  EXPECT_EQ(config.data.train, "p.json");
}

}  // namespace
}  // namespace trireme
