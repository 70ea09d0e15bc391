#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "config/load.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// The form of axolotl's examples.
constexpr const char* kLora =
    "base_model: m\nload_in_8bit: false\nload_in_4bit: false\ndatasets:\n  - path: data.jsonl\n    type: "
    "chat_template\n"
    "    field_messages: dialog\n    message_property_mappings:\n      role: who\n      content: text\n    roles:\n"
    "      user: [customer]\n      assistant: [assistant, agent]\n  - path: owner/set\n    type: chat_template\n"
    "val_set_size: 0.1\noutput_dir: ./outputs/out\nadapter: lora\nlora_r: 16\nlora_alpha: 32\nlora_dropout: 0.05\n"
    "lora_target_modules:\n  - q_proj\n  - v_proj\nsequence_len: 2048\nsample_packing: true\neval_sample_packing: "
    "false\n"
    "gradient_accumulation_steps: 4\nmicro_batch_size: 2\nnum_epochs: 2\noptimizer: adamw_torch_fused\n"
    "lr_scheduler: cosine\nlearning_rate: 0.0002\nbf16: auto\ntf32: false\ngradient_checkpointing: true\n"
    "resume_from_checkpoint:\nlogging_steps: 1\nflash_attention: true\nwarmup_ratio: 0.1\nevals_per_epoch: 1\n"
    "saves_per_epoch: 1\nweight_decay: 0.0\nwandb_project:\nspecial_tokens:\n  pad_token: <|end|>\n  eos_token: "
    "<|im_end|>\n";

class Axolotl : public testing::Test {
 protected:
  LoadedConfig load(const std::string& text) {
    write_text(folder_ / "x.yml", text);
    return load_config({folder_ / "x.yml"}, {});
  }
  TemporaryFolder folder_;
};

TEST_F(Axolotl, AnExampleFileBecomesARun) {
  const LoadedConfig loaded = load(kLora);
  const Config& config = loaded.config;
  EXPECT_EQ(loaded.dialect, "axolotl");
  EXPECT_EQ(config.model.init, "m");
  EXPECT_EQ(config.data.train, "data.jsonl, owner/set");
  EXPECT_EQ(config.chat.columns, "content=text, messages=dialog, role=who");
  EXPECT_EQ(config.chat.roles, "agent=assistant, customer=user");
  EXPECT_EQ(config.chat.eos_token, "<|im_end|>");
  EXPECT_TRUE(config.chat.packing);
  EXPECT_EQ(config.chat.loss_on, chat::LossOn::assistant);
  EXPECT_EQ(config.chat.epochs, 2);
  EXPECT_EQ(config.lora.rank, 16);
  EXPECT_EQ(config.lora.targets, "q_proj,v_proj");
  EXPECT_EQ(config.batch.per_rank, 8);
  EXPECT_EQ(config.batch.micro, 2);
  EXPECT_EQ(config.optim.schedule, RateCourse::cosine);
  EXPECT_EQ(config.optim.warmup_fraction, 0.1);
  EXPECT_EQ(config.precision.dtype, DType::bf16);
  EXPECT_EQ(config.model.recompute, Recompute::full);
  EXPECT_EQ(config.run.dir, "./outputs/out");
}

TEST_F(Axolotl, SaysAllProblemsOfAFileAtOnce) {
  try {
    load(
        "base_model: m\nsequence_len: 8\nadapter: qlora\nload_in_4bit: true\noptimizer: adamw_bnb_8bit\nchat_template: "
        "chatml\ndeepspeed: z.json\ndatasets:\n  - path: a\n    split: train[:10%]\n");
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    for (const char* part : {":3: adapter is \"qlora\": only lora", ":4: load_in_4bit is true: bases of 8 or 4 bits",
                             ":5: optimizer is \"adamw_bnb_8bit\": the optimizer is AdamW: set adamw_torch",
                             ":6: chat_template is \"chatml\": tokenizer_default takes the model's own",
                             ":7: deepspeed cannot be used here", "a: the split \"train[:10%]\" is not supported"})
      EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

}  // namespace
}  // namespace trireme
