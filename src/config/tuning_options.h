#pragma once
// The options of fine-tuning: conversations, pairs of answers, what is trained, adapters. As config/config.h, which
// holds them.

#include <cstdint>
#include <string>

#include "config/choices.h"
#include "text/chat/loss_on.h"

namespace trireme {

struct ChatOptions {
  chat::LossOn loss_on = chat::LossOn::assistant;
  std::string chat_template, template_options, eos_token, columns, roles, date, cache_dir;
  bool skip_bad_rows = false, packing = true;
  double validation_share = 0.05, epochs = 3;

  template <class V>
  void visit(V& v) {
    v.choice("loss-on", loss_on,
             "whose words count in the loss: all: everybody's; assistant: every turn of the assistant, with the token "
             "that ends it; last: its last turn");
    v.text("template", chat_template,
           "chat template: a file, or the name of one of the model's templates (empty: the model's usual one)");
    v.text("template-options", template_options,
           "variables of the template as a JSON object, like {\"enable_thinking\": false} (empty: none)");
    v.text(
        "eos-token", eos_token,
        "token of the tokenizer that becomes its eos_token, as <|im_end|>: templates write it, texts of the model end "
        "at it (empty: the tokenizer's own)");
    v.text("columns", columns,
           "names of columns in the files, like messages=dialog, content=text (empty: the usual ones)");
    v.text("roles", roles, "the files' words for roles, like customer=user, agent=assistant (empty: the usual ones)");
    v.flag("skip-bad-rows", skip_bad_rows,
           "skip and count rows without a usable conversation (default: the first one ends the run)");
    v.number("validation-share", validation_share,
             "share of the conversations that is kept for validation, if data.validation names no file", 0, 0.9);
    v.number("epochs", epochs, "passes over the conversations, if run.steps is not set", 0.001, 10000);
    v.flag(
        "packing", packing,
        "several conversations share a row of batch.sequence ids, each with its own positions and attention; without "
        "it every row is one conversation. No padding is computed either way");
    v.text("date", date,
           "date that templates see, like 2026-11-26, which a resumed run keeps (empty: the day of the first start)");
    v.text("cache-dir", cache_dir, "folder for the ids of the conversations, by their hash (empty: RUN/conversations)");
  }
};

struct PairOptions {
  PairLoss loss = PairLoss::sigmoid;
  double beta = 0.1, label_smoothing = 0;

  template <class V>
  void visit(V& v) {
    v.choice(
        "loss", loss,
        "what is minimised. With d, how much more than the reference the model prefers the chosen answer, in nats, "
        "and s, the sigmoid: sigmoid: -log s(beta d); robust: the same, if some labels are wrong; hinge: max(0, 1 - "
        "beta d); ipo: (d - 1 / (2 beta))^2; sigmoid-norm: -log s(beta d), the last two with means per id");
    v.number("beta", beta,
             "strength of the KL penalty towards the reference model: higher values keep the model closer; for ipo it "
             "is tau",
             1e-6, 1000);
    v.number("label-smoothing", label_smoothing,
             "share of the pairs whose answers may be swapped, for the losses sigmoid and robust", 0, 0.499);
  }
};

struct TrainOptions {
  std::string only, freeze;
  template <class V>
  void visit(V& v) {
    v.text("only", only,
           "parameters to train, as patterns separated by commas; the others are frozen: no gradient, no optimizer "
           "state, no exchange (empty: all). A pattern is a name (docs/training.md lists them) or the part of one "
           "before a dot: block.3, embedding; * is any text, 0-5 any number from 0 to 5: *.bias, block.0-5");
    v.text("freeze", freeze, "parameters to freeze, as patterns like those of only; they win over only (empty: none)");
  }
};

/// Low-rank adapters that are trained in place of the model's weights.
struct LoraOptions {
  int64_t rank = 0;
  double alpha = 16, dropout = 0;
  bool rank_stabilized = false, dora = false;
  std::string targets, rank_pattern, alpha_pattern, modules_to_save, adapter;
  bool on() const { return rank > 0 || !adapter.empty(); }
  bool operator==(const LoraOptions&) const = default;

  template <class V>
  void visit(V& v) {
    v.integer("rank", rank,
              "train low-rank adapters of this rank (LoRA) instead of the weights, which are frozen (0: no adapters)",
              0, 1 << 16);
    v.number("alpha", alpha, "an adapter is multiplied by alpha / rank", 1e-6, 1e6);
    v.number("dropout", dropout, "dropout of the inputs of adapters", 0, 0.99);
    v.text(
        "targets", targets,
        "linears with adapters, by their names in the model's Hugging Face files: names separated by commas, such as "
        "q_proj,v_proj; a regular expression of whole paths; all-linear: every one of the blocks (empty: those that "
        "PEFT adapts in a model of this family, mostly queries and values)");
    v.flag("rslora", rank_stabilized, "multiply by alpha / sqrt(rank) instead (rank-stabilized LoRA)");
    v.flag("dora", dora, "train the magnitude of every output beside its adapter (DoRA)");
    v.text("rank-pattern", rank_pattern,
           "ranks of some linears, like down_proj=4, layers.0.self_attn.q_proj=32: a name is a regular expression of "
           "the end of a path (empty: all have lora.rank)");
    v.text("alpha-pattern", alpha_pattern, "alphas of some linears, in the form of lora.rank-pattern");
    v.text("modules-to-save", modules_to_save,
           "modules that are trained in full beside the adapters, by their names in the Hugging Face files, such as "
           "lm_head,norm (empty: none)");
    v.text("adapter", adapter,
           "start from the adapter in this folder, which PEFT or `trireme export` wrote; it has the ranks, the alphas, "
           "the linears and the modules, so only lora.dropout may be set beside it (empty: a new adapter)");
  }
};

}  // namespace trireme
