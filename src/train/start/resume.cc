#include "train/start/resume.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_steps.h"
#include "checkpoint/snapshot/spec_json.h"
#include "comm/agreement.h"
#include "config/document.h"
#include "config/schema.h"
#include "hub/place.h"
#include "model/model_options.h"
#include "model/presets.h"
#include "text/tokenizer.h"
#include "train/local_resume.h"
#include "train/plan.h"

namespace trireme {
namespace {

/// A difference between a start and its checkpoint.
struct Difference {
  std::string what, then, now;
  const char* allow;  ///< the flag that accepts it; nullptr: the run cannot be resumed
  bool allowed = false;
  const char* never = "another model";  ///< without a flag: why not
};

using Differences = std::vector<Difference>;

/// "batch.per-rank (intel.yaml:12)": a dialect's user knows the option by where it was set.
std::string option_of(const LoadedConfig& loaded, const char* name) {
  return loaded.dialect != "native" && loaded.given(name) ? loaded.where(name) : name;
}

bool names_a_model(const std::string& init) { return !init.empty() && init != "scratch"; }

/// Nullopt if the model is gone: a resume does not need it.
std::optional<Spec> spec_of_named_model(const std::string& init) {
  const bool here =
      hub::still_to_fetch({.model = init}).empty() && std::filesystem::exists(hub::place_of_model(init).path);
  if (here) return open_model(init).spec;
  log::write_once(log::Level::warning, fmt::format("model.init is {}, which does not exist: cannot compare the model "
                                                   "with it; the weights come from the checkpoint",
                                                   init));
  return {};
}

/// The checkpoint's model with everything that this start's options change: a preset, another folder than that of the
/// run's first start, single options.
Spec wanted_model(const RunPlan& plan) {
  const Spec& found = plan.resume->facts.spec;
  const ModelOptions& m = plan.config().model;
  Spec wanted = found;
  if (!m.preset.empty()) {
    wanted = preset(m.preset).spec;
    wanted.vocabulary = found.vocabulary;
  } else if (names_a_model(m.init) && m.init != plan.resumed.model.init) {
    if (const std::optional<Spec> named = spec_of_named_model(m.init)) wanted = *named;
  }
  wanted = with_given_options(wanted, plan.loaded);
  if (plan.loaded.origins.contains("model.vocabulary") && m.vocabulary > 0) wanted.vocabulary = m.vocabulary;
  wanted.vocabulary_rows = found.vocabulary_rows;
  wanted.embedding_dropout = found.embedding_dropout;
  wanted.attention_dropout = found.attention_dropout;
  wanted.residual_dropout = found.residual_dropout;
  wanted.adapters = found.adapters;  // compared by their options
  wanted.adapter_dropout = found.adapter_dropout;
  return wanted;
}

/// Each by the option that it comes from.
void compare_biases(const RunPlan& plan, const Biases& found, const Biases& wanted, Differences& out) {
  const struct {
    const char* option;
    bool found, wanted;
  } all[] = {{"model.qkv-bias", found.qkv, wanted.qkv},
             {"model.attention-out-bias", found.attention_out, wanted.attention_out},
             {"model.mlp-in-bias", found.mlp_in, wanted.mlp_in},
             {"model.mlp-out-bias", found.mlp_out, wanted.mlp_out},
             {"model.norm-bias", found.norm, wanted.norm}};
  bool reported = false;
  for (const auto& bias : all) {
    if (bias.found == bias.wanted) continue;
    const bool single = plan.loaded.origins.contains(bias.option);
    if (!single && std::exchange(reported, true)) continue;
    out.push_back({option_of(plan.loaded, single ? bias.option : "model.bias"), fmt::format("{}", bias.found),
                   fmt::format("{}", bias.wanted), nullptr});
  }
}

/// The option that sets a field of the model, or the field's name if there is none.
std::string option_of_field(const LoadedConfig& loaded, const std::string& field) {
  if (field == "rotary_dims") return option_of(loaded, "model.rotary-fraction");
  std::string name = field;
  std::ranges::replace(name, '_', '-');
  static const Json options = to_json(Config());
  return options["model"].contains(name) ? option_of(loaded, ("model." + name).c_str()) : field;
}

void compare_adapters(const RunPlan& plan, Differences& out) {
  const LoraOptions &then = plan.resumed.lora, &now = plan.config().lora;
  const auto compare = [&](const char* option, const auto& before, const auto& after) {
    if (before != after)
      out.push_back({option_of(plan.loaded, option), fmt::format("{}", before), fmt::format("{}", after), nullptr});
  };
  compare("lora.rank", then.rank, now.rank);
  compare("lora.alpha", then.alpha, now.alpha);
  compare("lora.rslora", then.rank_stabilized, now.rank_stabilized);
  compare("lora.dora", then.dora, now.dora);
  compare("lora.targets", then.targets, now.targets);
  compare("lora.rank-pattern", then.rank_pattern, now.rank_pattern);
  compare("lora.alpha-pattern", then.alpha_pattern, now.alpha_pattern);
  compare("lora.modules-to-save", then.modules_to_save, now.modules_to_save);
  compare("lora.adapter", then.adapter, now.adapter);
}

void compare_models(const RunPlan& plan, Differences& out) {
  const Spec& found = plan.resume->facts.spec;
  const Spec wanted = wanted_model(plan);
  const bool same_head_width = found.heads == wanted.heads && found.width == wanted.width;
  for (auto& [field, before, now] : spec_differences(found, wanted)) {
    if (field.ends_with("_bias")) continue;
    if (field == "rotary_dims") {
      if (!same_head_width) continue;  // follows from the head width
      before += fmt::format(" of {} values", found.head_dim());
      now += fmt::format(" of {} values", wanted.head_dim());
    }
    out.push_back({option_of_field(plan.loaded, field), before, now, nullptr});
  }
  const std::string &init = plan.config().model.init, &init_then = plan.resumed.model.init;
  compare_biases(plan, found.biases, wanted.biases, out);
  compare_adapters(plan, out);
  if (out.empty() && names_a_model(init) && init != init_then)
    log::info("model.init is {} now and was \"{}\": ignored, because the weights come from the checkpoint", init,
              init_then);
}

/// The same tokenizer can be written in several ways.
bool same_tokenizer(const std::string& a, const std::string& b) {
  if (a == b || a.empty() || b.empty()) return true;
  return tokenizer_from_json(a, "the checkpoint's tokenizer.json")->json() ==
         tokenizer_from_json(b, "the data's tokenizer.json")->json();
}

std::string digest(const std::string& text) { return hex64(xxh3(std::as_bytes(std::span(text)))); }

void compare_tokenizers(const RunPlan& plan, Differences& out) {
  const std::string& then = plan.resume->facts.tokenizer_json;
  if (same_tokenizer(then, plan.tokenizer_json)) return;
  out.push_back({"tokenizer.json", "XXH3 " + digest(then), "XXH3 " + digest(plan.tokenizer_json),
                 "checkpoint.allow-other-tokenizer", plan.config().checkpoint.allow_other_tokenizer});
}

void compare_batches(const RunPlan& plan, Differences& out) {
  const BatchOptions &then = plan.resumed.batch, &now = plan.config().batch;
  const auto compare = [&](const char* name, int64_t before, int64_t after) {
    if (before != after)
      out.push_back({option_of(plan.loaded, name), fmt::format("{}", before), fmt::format("{}", after),
                     "checkpoint.allow-other-batch", plan.config().checkpoint.allow_other_batch});
  };
  // With another number of ranks another batch.per-rank may give the same global batch.
  if (then.global != plan.batch.global && then.per_rank > 0 && now.per_rank > 0)
    compare("batch.per-rank", then.per_rank, now.per_rank);
  const int64_t sequence = then.sequence > 0 ? then.sequence : plan.resume->facts.spec.context;
  compare("batch.global", then.global, plan.batch.global);
  compare("batch.sequence", sequence, plan.batch.sequence);
}

std::string describe(const std::vector<DataFileFact>& files, size_t i) {
  if (i >= files.size()) return "none";
  return fmt::format("{} ({} bytes, XXH3 {})", files[i].path, files[i].bytes, files[i].hash);
}

/// Options of conversations by which their ids differ from those before; their hashes would not say which.
Differences conversation_differences(const RunPlan& plan) {
  const Config &then = plan.resumed, &now = plan.config();
  Differences out;
  const auto compare = [&](const char* name, const auto& before, const auto& after) {
    const auto shown = [](const auto& value) {
      const std::string text = fmt::format("{}", value);
      return text.empty() ? std::string("none") : text;
    };
    if (before != after)
      out.push_back({now.names(name), shown(before), shown(after), "checkpoint.allow-other-data",
                     now.checkpoint.allow_other_data});
  };
  compare("data.train", then.data.train, now.data.train);
  compare("data.validation", then.data.validation, now.data.validation);
  compare("chat.loss-on", std::string_view(name_of(then.chat.loss_on)), std::string_view(name_of(now.chat.loss_on)));
  compare("chat.template", then.chat.chat_template, now.chat.chat_template);
  compare("chat.template-options", then.chat.template_options, now.chat.template_options);
  compare("chat.columns", then.chat.columns, now.chat.columns);
  compare("chat.roles", then.chat.roles, now.chat.roles);
  compare("chat.skip-bad-rows", then.chat.skip_bad_rows, now.chat.skip_bad_rows);
  compare("chat.packing", then.chat.packing, now.chat.packing);
  compare("chat.validation-share", then.chat.validation_share, now.chat.validation_share);
  compare("chat.date", then.chat.date, now.chat.date);
  return out;
}

/// Files may move, but their bytes must not change.
void compare_data(const RunPlan& plan, Differences& out) {
  const Config& then = plan.resumed;
  const auto& before = plan.resume->facts.data_files;
  const auto& now = plan.data_files;
  const bool allowed = plan.config().checkpoint.allow_other_data;
  constexpr const char* kFlag = "checkpoint.allow-other-data";
  const bool known = plan.resume->origin == CheckpointOrigin::trireme;
  if (!known)
    log::info("{} does not record its training data: the next sample is number {} of data.train", plan.resume->path,
              plan.resume->facts.progress.samples);
  const auto same = [&](size_t i) {
    return i < before.size() && i < now.size() && before[i].bytes == now[i].bytes && before[i].hash == now[i].hash;
  };
  const size_t files = known ? std::max(before.size(), now.size()) : 0;
  bool differs = false;
  for (size_t i = 0; i < files; ++i) differs = differs || !same(i);
  Differences options;
  if (differs && plan.of_conversations) options = conversation_differences(plan);
  out.insert(out.end(), options.begin(), options.end());
  for (size_t i = 0; options.empty() && i < files; ++i) {
    if (!same(i))
      out.push_back({fmt::format("data file {}", i + 1), describe(before, i), describe(now, i), kFlag, allowed});
  }
  const auto compare = [&](const char* option, const auto& was, const auto& is) {
    if (was != is) out.push_back({option, fmt::format("{}", was), fmt::format("{}", is), kFlag, allowed});
  };
  const DataOptions &masks = then.data, &masks_now = plan.config().data;
  compare("data.mask-rate", masks.mask_rate, masks_now.mask_rate);
  compare("data.whole-words", masks.whole_words, masks_now.whole_words);
  compare("data.mask-end-of-text", masks.mask_end_of_text, masks_now.mask_end_of_text);
  if (known || plan.loaded.origins.contains("run.seed")) compare("run.seed", then.run.seed, plan.config().run.seed);
}

/// What is learned from pairs.
void compare_pairs(const RunPlan& plan, Differences& out) {
  const PairOptions &before = plan.resumed.dpo, &now = plan.config().dpo;
  const auto compare = [&](const char* option, const auto& was, const auto& is) {
    if (was != is)
      out.push_back({option_of(plan.loaded, option), fmt::format("{}", was), fmt::format("{}", is), nullptr, false,
                     "another loss"});
  };
  compare("dpo.loss", name_of(before.loss), name_of(now.loss));
  compare("dpo.beta", before.beta, now.beta);
  compare("dpo.label-smoothing", before.label_smoothing, now.label_smoothing);
}

std::string table(const Differences& differences) {
  std::vector<std::string> lines;
  size_t what = 0, then = std::string_view("in the checkpoint").size(), now = std::string_view("now").size();
  for (const Difference& d : differences) {
    what = std::max(what, d.what.size());
    then = std::max(then, d.then.size());
    now = std::max(now, d.now.size());
  }
  lines.push_back(
      fmt::format("  {:<{}}  {:<{}}  {:<{}}  to resume anyway", "", what, "in the checkpoint", then, "now", now));
  for (const Difference& d : differences) {
    const std::string fix = d.allow ? fmt::format("--{}", d.allow) : fmt::format("impossible: {}", d.never);
    lines.push_back(fmt::format("  {:<{}}  {:<{}}  {:<{}}  {}", d.what, what, d.then, then, d.now, now, fix));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// Rank 0: the folder to resume from. Deletes the steps of a folder that is to be overwritten.
std::string look_for_resume(const Config& config, const std::optional<LocalNote>& note) {
  if (config.checkpoint.resume == "auto") {
    const auto folder = find_resumable(config.run.dir, config.names);
    return folder ? folder->path : std::string();
  }
  if (config.checkpoint.resume != "none") return open_checkpoint(config.checkpoint.resume, config.names).path;
  const std::vector<int64_t> steps = list_steps(config.run.dir);
  require((steps.empty() && (!note || note->step < 0)) || config.run.overwrite, ErrorKind::config,
          "{} already holds checkpoints; to resume from them leave checkpoint.resume at auto, to delete them and start "
          "from scratch add --run.overwrite",
          config.run.dir);
  for (const int64_t step : steps) remove_folder(config.run.dir, step_name(step));
  forget_steps(config.run.dir);
  return {};
}

}  // namespace

ResumePlace find_resume(const LoadedConfig& loaded, Scalars& scalars) {
  const Config& config = loaded.config;
  const std::optional<LocalNote> note = agree_on_local_note(config.run.dir, scalars);
  if (note && config.checkpoint.resume == "auto") {
    if (const auto found = find_newest_complete(config, *note, scalars)) return *found;
  }
  std::string found;
  together(scalars, [&] {
    if (scalars.rank() == 0) found = look_for_resume(config, note);
  });
  if (note && config.checkpoint.resume == "none") {
    remove_local_folder(note->folder);
    if (scalars.rank() == 0) forget_local_note(config.run.dir);
  }
  return {scalars.broadcast(found), {}};
}

Config resumed_config(const CheckpointFolder& folder) {
  return config_from_json(parse_json(folder.facts.config_json, folder.path), folder.path);
}

void check_same_trained(const RunPlan& plan, const char* model_option) {
  if (!plan.part.trains) return;
  const Config& then = plan.resumed;
  const Trained before = trained_of(then, plan.part.spec);
  const ParameterTable whole(plan.part.spec);
  const auto differs = std::ranges::find_if(
      whole.all(), [&](const Parameter& p) { return before.includes(p.name) != plan.part.trained.includes(p.name); });
  if (differs == whole.all().end()) return;
  const bool trained = before.includes(differs->name);
  fail(ErrorKind::config,
       "{} was trained with other frozen parameters: {} was {} there and is {} now (train.only \"{}\" and train.freeze "
       "\"{}\" there, \"{}\" and \"{}\" now); use the same patterns, or start a new run from its weights with {} {}",
       plan.resume->path, differs->name, trained ? "trained" : "frozen", trained ? "frozen" : "trained",
       then.train.only, then.train.freeze, plan.config().train.only, plan.config().train.freeze, model_option,
       plan.resume->path);
}

void check_resume(const RunPlan& plan) {
  const RunCounters& p = plan.resume->facts.progress;
  log::info("RESUMING from {}: {} and {} are done{}", plan.resume->path, count_text(p.step, "step"),
            count_text(p.samples, "sample"),
            std::isfinite(p.best_loss) ? fmt::format(", best validation loss {:.4f}", p.best_loss) : std::string());
  Differences differences;
  compare_models(plan, differences);
  compare_tokenizers(plan, differences);
  compare_batches(plan, differences);
  compare_data(plan, differences);
  compare_pairs(plan, differences);
  for (const Difference& d : differences) {
    if (d.allowed)
      log::write_once(log::Level::warning,
                      fmt::format("{} changes with this start from {} to {}", d.what, d.then, d.now));
  }
  std::erase_if(differences, [](const Difference& d) { return d.allowed; });
  require(differences.empty(), ErrorKind::config,
          "{} was trained with other settings than those of this start:\n{}\nuse the same settings, or start a new run "
          "in another run.dir",
          plan.resume->path, table(differences));
  check_same_trained(plan, "--model.init");
}

namespace {

/// Whether a resume compares it and refuses a difference, or has its own warning.
bool is_compared(const Option& option) {
  constexpr std::string_view kGroups[] = {"data", "dpo", "batch", "train"};
  if (option.group == "model") return option.name.find("dropout") == std::string::npos;
  if (option.group == "lora") return option.name != "lora.dropout";
  return option.name == "run.seed" || std::ranges::find(kGroups, option.group) != std::end(kGroups);
}

/// -1 of one of the two dropouts that follow model.dropout: the value that they have then, as snapshots record it.
Value followed(const Config& config, const Option& option) {
  const Value value = get(config, option);
  const bool follows = option.name == "model.embedding-dropout" || option.name == "model.attention-dropout";
  return follows && value == Value(config.model.dropout) ? Value(-1.0) : value;
}

std::string shown(const Value& value) {
  const std::string text = to_text(value);
  return text.empty() ? "nothing" : text;
}

/// Steps at whose end the rate has fallen; 0: it does not fall.
int64_t end_of_decay(const Config& config) {
  return config.optim.schedule == RateCourse::constant || config.optim.schedule == RateCourse::inverse_sqrt
             ? 0
             : schedule_of(config).decay_steps;
}

}  // namespace

std::vector<std::string> changed_options(const LoadedConfig& now, const Config& then) {
  std::vector<std::string> changes;
  for (const Option& option : schema().options()) {
    if (!changes_results(option) || is_compared(option)) continue;
    const Value before = followed(then, option), after = followed(now.config, option);
    if (before == after) continue;
    // What follows from run.steps is said of run.steps.
    const bool follows = option.name == "optim.decay-steps" && then.optim.decay_steps == then.run.steps &&
                         now.config.optim.decay_steps == now.config.run.steps;
    if (follows) continue;
    const auto origin = now.origins.find(option.name);
    changes.push_back(fmt::format("{} changes with this start from {} to {} ({})", now.config.names(option.name),
                                  shown(before), shown(after),
                                  origin == now.origins.end() ? "default" : origin->second.text()));
  }
  return changes;
}

std::optional<std::string> changed_decay(const Config& now, const Config& then, int64_t step) {
  const int64_t end = end_of_decay(now), end_then = end_of_decay(then);
  if (end == 0 || end_then == 0 || end == end_then) return {};
  Config kept = now;
  kept.optim.decay_steps = end_then;
  const double rate = learning_rate(schedule_of(now), step), rate_kept = learning_rate(schedule_of(kept), step);
  std::string text =
      fmt::format("the decay of the learning rate ends at step {} instead of {}, so step {} trains with {:.3g}", end,
                  end_then, step + 1, rate);
  text += rate == rate_kept ? "; the rates of later steps change" : fmt::format(" instead of {:.3g}", rate_kept);
  if (rate > rate_kept && step >= end_then) text += ": a rate that had fallen rises again";
  if (now.optim.decay_steps == 0)  // it follows run.steps
    text += fmt::format("; {} {} keeps the snapshot's schedule", now.names("--optim.decay-steps"), end_then);
  return text;
}

void warn_of_changes(const RunPlan& plan) {
  if (!plan.resume || !plan.part.trains || plan.resume->origin != CheckpointOrigin::trireme) return;
  for (const std::string& change : changed_options(plan.loaded, plan.resumed))
    log::write_once(log::Level::warning, change);
  const RunCounters& progress = plan.resume->facts.progress;
  const bool updates = schedule_of(plan.config()).counts_updates();
  const int64_t step = updates ? progress.updates : progress.scheduled_steps();
  if (const auto decay = changed_decay(plan.config(), plan.resumed, step)) log::write_once(log::Level::warning, *decay);
}

}  // namespace trireme
