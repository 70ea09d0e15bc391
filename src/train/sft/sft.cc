#include "train/sft/sft.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "train/sft/batches.h"
#include "train/sft/chat_recipe.h"
#include "train/step.h"

namespace trireme {
namespace {

class ChatTuning final : public ChatRecipe {
 public:
  explicit ChatTuning(LoadedConfig loaded) : ChatRecipe(std::move(loaded), false) {
    for (const auto& [option, origin] : setup_.loaded.origins)
      require(!option.starts_with("dpo."), ErrorKind::config,
              "{} is about pairs of answers, on which `trireme dpo` trains; remove it, or use that command",
              setup_.loaded.where(option));
  }

  void begin(Work&) override { batches_.emplace(train_, setup_.batch, static_cast<uint64_t>(config().run.seed)); }
  StepBatches& batches() override { return *batches_; }
  RunFacts facts(const Work& work, const PeakRate& peak) const override {
    const auto packed = [&] { return fmt::format("packed, {:.1f} % unused", 1e2 * train_.padding()); };
    return chat_facts(
        work, peak,
        {{"loss", fmt::format("on {}", name_of(config().chat.loss_on))},
         {"rows", fmt::format("{} of at most {} ids, {:.1f} on average; {}", train_.size(), train_.most, row_length(),
                              config().chat.packing ? packed() : "one conversation each")}});
  }

 private:
  chat::TrainingRows rows_of(chat::CodedIds ids) const override {
    return make_rows(std::move(ids), static_cast<size_t>(setup_.batch.sequence), config().chat.packing);
  }
  std::optional<double> measure(Work& work, NamedValues&) override {
    ChatBatches rows(validation_, setup_.batch, std::nullopt);
    return trireme::evaluate(work.session, rows, validation_steps(), epochs_.global, config().optim.loss_mean);
  }

  std::optional<ChatBatches> batches_;
};

}  // namespace

std::vector<std::string> chat_tuning_defaults() {
  std::vector<std::string> flags;
  for (const char* value : {"batch.global=8", "optim.learning-rate=2e-5", "optim.min-learning-rate=0",
                            "optim.beta2=0.999", "optim.weight-decay=0"}) {
    flags.emplace_back("--default");
    flags.emplace_back(value);
  }
  return flags;
}

std::unique_ptr<Recipe> chat_tuning(LoadedConfig loaded) { return std::make_unique<ChatTuning>(std::move(loaded)); }

}  // namespace trireme
