// trireme sft: fine-tunes a language model on conversations.

#include "train/sft/sft.h"

#include "cli/command.h"
#include "cli/train/tuning_flags.h"

namespace trireme {
namespace {

constexpr OptionFlag kFlags[] = {
    {"--model", "model.init", "MODEL", "the model to train: a folder, a name of the Hugging Face hub, or a run"},
    {"--data", "data.train", "DATA",
     "conversations: a file, a folder, or a data set of the hub; may be repeated. FILE=1000 takes so many of its rows, "
     "FILE=0.5 or FILE=2.0 each so many times",
     Collects::values},
    {"--validation", "data.validation", "DATA", "conversations for validation, which are not trained on",
     Collects::values},
    {"--validation-share", "chat.validation-share", "X",
     "without --validation: this share of the conversations (0.05)"},
    {"--output", "run.dir", "RUN", "run folder with snapshots and logs; the same command resumes it (run)"},
    {"--loss-on", "chat.loss-on", "WHO",
     "which turns the loss counts: assistant, last (its last turn) or all (assistant)"},
    {"--epochs", "chat.epochs", "X", "passes over the conversations (3)"},
    {"--sequence", "batch.sequence", "N", "ids of a row, which conversations share (1024, or the model's context)"},
    {"--batch", "batch.global", "N", "rows per step over all ranks (8)"},
    {"--learning-rate", "optim.learning-rate", "X", "peak, after a warm-up of 3 % of the steps (2e-5)"},
    {"--lora-rank", "lora.rank", "N", "train adapters of this rank instead of the weights (docs/lora.md)"},
    {"--adapter", "lora.adapter", "DIR", "continue training this LoRA adapter instead of the weights"},
    {"--chat-template", "chat.template", "FILE|NAME", "instead of the model's usual template"},
    {"--eos-token", "chat.eos-token", "TOKEN",
     "token of the tokenizer that ends texts from now on, such as <|im_end|>"},
    {"--skip-bad-rows", "chat.skip-bad-rows", "", "skip and count rows without a usable conversation"},
};

constexpr const char* kNotes =
    "The loss of a step is the mean over all ids that count in it, for any number of ranks. Then:\n"
    "  trireme sample --model RUN --chat --interactive     talks with the result\n"
    "  trireme export --model RUN --output FOLDER          writes it for transformers, with tokenizer and template\n"
    "  trireme tokenizer chat --tokenizer MODEL DATA       shows beforehand what the loss will count\n";

constexpr const char* kDefaults =
    "batch.global 8, optim.learning-rate 2e-5 (to 0), optim.warmup-steps 3 % of the steps, optim.beta2 0.999,\n"
    "optim.weight-decay 0; run.steps follows from chat.epochs, and evaluation.every and checkpoint.every are an "
    "epoch.";

}  // namespace

const TuningCommand kSftCommand{
    .name = "sft",
    .purpose =
        "Fine-tunes a language model on conversations: messages, ShareGPT, Alpaca, or prompt and completion. The "
        "model's own chat template makes text of them, and the model is trained on what the assistant says. The same "
        "command resumes a run.",
    .dialect = "trl-sft",
    .notes = kNotes,
    .defaults = kDefaults,
    .flags = kFlags,
    .default_flags = chat_tuning_defaults,
    .recipe = chat_tuning};

int run_sft(CommandLine line) { return run_tuning(kSftCommand, std::move(line)); }

}  // namespace trireme
