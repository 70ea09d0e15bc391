// trireme dpo: trains a language model on pairs of answers, of which one is preferred.

#include "train/start/recipe.h"

#include "cli/command.h"
#include "cli/train/tuning_flags.h"

namespace trireme {
namespace {

constexpr OptionFlag kFlags[] = {
    {"--model", "model.init", "MODEL", "the model to train, also the reference: a folder, a name of the hub, or a run"},
    {"--data", "data.train", "DATA",
     "pairs of answers: a file, a folder, or a data set of the hub; may be repeated. FILE=1000 takes so many of its "
     "rows, FILE=0.5 or FILE=2.0 each so many times",
     Collects::values},
    {"--validation", "data.validation", "DATA", "pairs for validation, which are not trained on", Collects::values},
    {"--validation-share", "chat.validation-share", "X", "without --validation: this share of the pairs (0.05)"},
    {"--output", "run.dir", "RUN", "run folder with snapshots and logs; the same command resumes it (run)"},
    {"--loss", "dpo.loss", "LOSS", "sigmoid, robust, ipo, hinge or sigmoid-norm (sigmoid)"},
    {"--beta", "dpo.beta", "X", "strength of the KL penalty towards the reference model (0.1)"},
    {"--label-smoothing", "dpo.label-smoothing", "X", "share of pairs whose answers may be swapped (0)"},
    {"--loss-on", "chat.loss-on", "WHO",
     "which part of an answer counts: assistant, last (its last turn) or all (assistant)"},
    {"--epochs", "chat.epochs", "X", "passes over the pairs (3)"},
    {"--sequence", "batch.sequence", "N",
     "maximum number of ids of an answer with its prompt (1024, or the model's context)"},
    {"--batch", "batch.global", "N", "pairs per step over all ranks (8)"},
    {"--learning-rate", "optim.learning-rate", "X", "peak, after a warm-up of 3 % of the steps (1e-6)"},
    {"--lora-rank", "lora.rank", "N", "train adapters of this rank instead of the weights (docs/lora.md)"},
    {"--adapter", "lora.adapter", "DIR", "continue training this LoRA adapter; the model with it is the reference"},
    {"--chat-template", "chat.template", "FILE|NAME", "instead of the model's usual template"},
    {"--skip-bad-rows", "chat.skip-bad-rows", "", "skip and count rows without a usable pair"},
};

constexpr const char* kNotes =
    "A row has \"chosen\" and \"rejected\", as texts after a \"prompt\", or as messages; --beta is the strength of "
    "the\n"
    "KL penalty towards the start. Train on conversations first (`trireme sft`) if the model does not answer yet. The\n"
    "log shows per report:\n"
    "  rewards/margins      mean of beta x (how much more than the start the model prefers the chosen answer): rises\n"
    "  rewards/accuracies   share of pairs with a positive margin: 0.5 is chance\n"
    "  logps/chosen         if it falls much, the chosen answers themselves become unlikely: raise --beta\n"
    "Then:\n"
    "  trireme sample --model RUN --chat --interactive     talks with the result\n"
    "  trireme export --model RUN --output FOLDER          writes it for transformers, with tokenizer and template\n";

constexpr const char* kDefaults =
    "batch.global 8, optim.learning-rate 1e-6 (to 0), optim.warmup-steps 3 % of the steps, optim.beta2 0.999,\n"
    "optim.weight-decay 0; run.steps follows from chat.epochs, and evaluation.every and checkpoint.every are an "
    "epoch.";

}  // namespace

const TuningCommand kDpoCommand{
    .name = "dpo",
    .purpose =
        "Trains a language model on pairs of answers, of which one is preferred (DPO): the chosen answer becomes more "
        "likely than the rejected one, compared with the model that the training starts from. The same command resumes "
        "a run.",
    .dialect = "trl-dpo",
    .notes = kNotes,
    .defaults = kDefaults,
    .flags = kFlags,
    .default_flags = preference_tuning_defaults,
    .recipe = preference_tuning};

int run_dpo(CommandLine line) { return run_tuning(kDpoCommand, std::move(line)); }

}  // namespace trireme
