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
    for (const auto& [option, origin] : loaded_.origins)
      require(!option.starts_with("dpo."), ErrorKind::config,
              "{} is about pairs of answers, on which `trireme dpo` trains; remove it, or use that command",
              loaded_.where(option));
  }

 private:
  chat::TrainingRows rows_of(chat::CodedIds ids, size_t sequence) const override {
    return make_rows(std::move(ids), sequence, loaded_.config.chat.packing);
  }
  std::unique_ptr<StepBatches> batches_of(Work& work) override {
    const RunPlan& plan = work.run.plan;
    return std::make_unique<ChatBatches>(train_, plan.batch, static_cast<uint64_t>(plan.config().run.seed));
  }
  std::optional<double> measure(Work& work, NamedValues&) override {
    ChatBatches rows(validation_, work.run.plan.batch, std::nullopt);
    return evaluate(work.session, rows, validation_steps(), epochs_.global, work.run.config().optim.loss_mean);
  }
  RunFacts facts_of(const RunPlan& plan) const override {
    const ChatOptions& chat = plan.config().chat;
    const auto packed = [&] { return fmt::format("packed, {:.1f} % unused", 1e2 * train_.padding()); };
    return {{"loss", fmt::format("on {}", name_of(chat.loss_on))},
            {"rows", fmt::format("{} of at most {} ids, {:.1f} on average; {}", train_.size(), train_.most,
                                 row_length(), chat.packing ? packed() : "one conversation each")}};
  }
};

}  // namespace

std::vector<std::string> chat_tuning_defaults() { return defaults_with_rate("2e-5"); }

std::unique_ptr<Recipe> chat_tuning(LoadedConfig loaded) { return std::make_unique<ChatTuning>(std::move(loaded)); }

}  // namespace trireme
