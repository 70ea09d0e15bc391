#include "config/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "base/numbers.h"
#include "base/web_address.h"
#include "config/schema.h"

namespace trireme {
namespace {

/// The items of a list with commas, without blanks.
std::vector<std::string> items_of(std::string_view list) {
  std::vector<std::string> items;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::erase(items.emplace_back(list.substr(0, comma)), ' ');
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return items;
}

void check_overridden(const LoadedConfig& loaded) {
  for (const Option& option : schema().options()) {
    const std::string_view by = overridden_by(loaded.config, option);
    require(by.empty() || !loaded.given(option.name), ErrorKind::config,
            "{} and {} are both set, but the first one determines the second; remove one of them", loaded.where(by),
            loaded.where(option.name));
  }
}

void check_model(const LoadedConfig& loaded) {
  const ModelOptions& model = loaded.config.model;
  if (!model.preset.empty()) {
    require(
        model.init.empty() || model.init == "scratch", ErrorKind::config,
        "{} and {} both determine the model: a preset is for a new model, and {} has its own sizes; remove one of them",
        loaded.where("model.preset"), loaded.where("model.init"), model.init);
    return;
  }
  require(model.head_size > 0 || model.width % model.heads == 0, ErrorKind::config,
          "{} is {}, which does not divide {} = {}; numbers of heads that do: {}", loaded.where("model.heads"),
          model.heads, loaded.where("model.width"), model.width, near_divisors(model.width, model.heads));
}

void check_evaluation(const LoadedConfig& loaded) {
  const EvaluationOptions& evaluation = loaded.config.evaluation;
  require(evaluation.patience == 0 || evaluation.every > 0, ErrorKind::config,
          "{} counts evaluations during the training, but {} is 0; set it to a number of steps",
          loaded.where("evaluation.patience"), loaded.where("evaluation.every"));
}

void check_schedule(const LoadedConfig& loaded) {
  const OptimOptions& optim = loaded.config.optim;
  require(optim.schedule != RateCourse::exponential || optim.schedule_form == ScheduleForm::neox, ErrorKind::config,
          "{} is exponential, which only NeoX has; set --optim.schedule-form neox", loaded.where("optim.schedule"));
  const bool of_transformers = optim.schedule == RateCourse::polynomial ||
                               optim.schedule == RateCourse::cosine_with_restarts ||
                               optim.schedule == RateCourse::inverse_sqrt || optim.schedule == RateCourse::stable_decay;
  require(!of_transformers || optim.schedule_form == ScheduleForm::nanogpt, ErrorKind::config,
          "{} is a schedule that NeoX does not have; set --optim.schedule-form nanogpt",
          loaded.where("optim.schedule"));
  const OptimOptions usual;
  const auto of_course = [&](const char* name, auto OptimOptions::*value, RateCourse course) {
    require(optim.schedule == course || optim.*value == usual.*value, ErrorKind::config,
            "{} has an effect only with --optim.schedule {}; remove it", loaded.where(name), name_of(course));
  };
  of_course("optim.decay-power", &OptimOptions::decay_power, RateCourse::polynomial);
  of_course("optim.restarts", &OptimOptions::restarts, RateCourse::cosine_with_restarts);
  of_course("optim.timescale", &OptimOptions::timescale, RateCourse::inverse_sqrt);
  of_course("optim.decay-length", &OptimOptions::decay_length, RateCourse::stable_decay);
  of_course("optim.decay-shape", &OptimOptions::decay_shape, RateCourse::stable_decay);
  if (optim.schedule != RateCourse::cosine && optim.schedule != RateCourse::cosine_with_restarts) return;
  require(optim.min_learning_rate <= optim.learning_rate, ErrorKind::config,
          "{} is {}, which is above {} = {}, where the cosine starts; set --optim.min-learning-rate {} or lower",
          loaded.where("optim.min-learning-rate"), optim.min_learning_rate, loaded.where("optim.learning-rate"),
          optim.learning_rate, optim.learning_rate);
}

void check_sequence(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  const bool own_context = config.model.preset.empty() && (config.model.init.empty() || config.model.init == "scratch");
  if (!own_context || config.batch.sequence == 0) return;
  require(config.batch.sequence <= config.model.context, ErrorKind::config,
          "{} is {}, more than the {} positions of {}; set --batch.sequence {} or --model.context {}",
          loaded.where("batch.sequence"), config.batch.sequence, config.model.context, loaded.where("model.context"),
          config.model.context, config.batch.sequence);
}

void check_data(const LoadedConfig& loaded) {
  const DataOptions& data = loaded.config.data;
  require(data.merges.empty() || !data.tokenizer.empty(), ErrorKind::config,
          "{} is {}, but the vocabulary is missing; set --data.tokenizer VOCABULARY.json", loaded.where("data.merges"),
          data.merges);
}

void check_run(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  require(!config.run.overwrite || config.checkpoint.resume == "none", ErrorKind::config,
          "{} empties the run folder, but {} is \"{}\"; set --checkpoint.resume none, or remove run.overwrite",
          loaded.where("run.overwrite"), loaded.where("checkpoint.resume"), config.checkpoint.resume);
  require(!config.run.dir.empty(), ErrorKind::config, "{} is empty; name the folder of this run",
          loaded.where("run.dir"));
  require(!config.checkpoint.local.empty() || config.checkpoint.copy_mb_per_second == 0, ErrorKind::config,
          "{} limits copying from local disks, but no snapshots are written to local disks; set --checkpoint.local "
          "DIR, or remove it",
          loaded.where("checkpoint.copy-mb-per-second"));
}

void check_log(const LoadedConfig& loaded) {
  const LogOptions& log = loaded.config.log;
  require(!log.metrics.empty() || log.metrics_token.empty(), ErrorKind::config,
          "{} is {}, but nothing is served; set --log.metrics PORT, or remove it", loaded.where("log.metrics-token"),
          log.metrics_token);
  require(log.mlflow.empty() || parse_http_address(log.mlflow).has_value(), ErrorKind::config,
          "{} is \"{}\", expected a URL like http://node1:5000 or https://host/path; a name and a password are read "
          "from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
          loaded.where("log.mlflow"), log.mlflow);
  require(!log.mlflow.empty() || log.mlflow_experiment == LogOptions().mlflow_experiment, ErrorKind::config,
          "{} is {}, but no server is set; set --log.mlflow URL, or remove it", loaded.where("log.mlflow-experiment"),
          log.mlflow_experiment);
  require(!log.mlflow_experiment.empty(), ErrorKind::config, "{} is empty; name the experiment",
          loaded.where("log.mlflow-experiment"));
  if (log.metrics.empty()) return;
  const std::optional<ListenAddress> address = parse_listen_address(log.metrics);
  require(address.has_value(), ErrorKind::config,
          "{} is \"{}\", expected a port like 9464, or ADDRESS:PORT like 0.0.0.0:9464 or [::]:9464",
          loaded.where("log.metrics"), log.metrics);
  require(address->is_loopback() || !log.metrics_token.empty(), ErrorKind::config,
          "{} is {}, which other hosts can reach; name a file with a token that they have to send by "
          "--log.metrics-token, or set --log.metrics {} for this host only",
          loaded.where("log.metrics"), log.metrics, address->port);
}

int64_t global_batch(const LoadedConfig& loaded, int ranks, int64_t started_global) {
  const BatchOptions& batch = loaded.config.batch;
  if (batch.per_rank == 0) return batch.global;
  return started_global > 0 ? started_global : batch.per_rank * ranks;
}

// Per step: at a tenth of a second each, they take half an hour.
constexpr int64_t kMostMicroBatches = 1 << 14;

int64_t largest_micro(int64_t per_rank) {
  constexpr int64_t kLargest = 8;  // as --help says
  int64_t best = 1;
  for (int64_t d = 2; d <= kLargest; ++d) {
    if (per_rank % d == 0) best = d;
  }
  return best;
}

}  // namespace

namespace {

/// Options of adapters that have no effect, or that an existing adapter determines.
void check_lora(const LoadedConfig& loaded) {
  constexpr const char* kOfNewOnes[] = {"lora.alpha",        "lora.targets",       "lora.rslora",         "lora.dora",
                                        "lora.rank-pattern", "lora.alpha-pattern", "lora.modules-to-save"};
  const LoraOptions& lora = loaded.config.lora;
  const bool starts = !lora.adapter.empty();
  // `config show` writes defaults, too.
  const auto is_set = [&](const char* name) {
    const Option& option = *schema().find(name);
    return loaded.given(name) && get(loaded.config, option) != option.default_value;
  };
  require(!starts || lora.rank == 0, ErrorKind::config,
          "{} and {} are both set; the adapter has its ranks, so remove lora.rank", loaded.where("lora.adapter"),
          loaded.where("lora.rank"));
  for (const char* option : kOfNewOnes)
    require(!is_set(option) || (lora.rank > 0 && !starts), ErrorKind::config, "{} has no effect {}; remove it{}",
            loaded.where(option), starts ? "beside lora.adapter, which has its own" : "without lora.rank",
            starts ? "" : ", or set --lora.rank 16");
  require(lora.on() || !is_set("lora.dropout"), ErrorKind::config,
          "{} has no effect without lora.rank; remove it, or set --lora.rank 16", loaded.where("lora.dropout"));
}

}  // namespace

void validate(const LoadedConfig& loaded) {
  check_overridden(loaded);
  check_lora(loaded);
  check_model(loaded);
  check_evaluation(loaded);
  check_schedule(loaded);
  check_sequence(loaded);
  check_data(loaded);
  check_run(loaded);
  check_log(loaded);
  extra_snapshots(loaded);
  log_columns(loaded);
  const BatchOptions& batch = loaded.config.batch;
  const int64_t least = batch.per_rank > 0 ? batch.per_rank : batch.global;
  require(batch.micro <= least, ErrorKind::config, "{} is {}, more than the {} of {}; micro-batches that fit: {}",
          loaded.where("batch.micro"), batch.micro, count_text(least, "sequence"),
          loaded.where(batch.per_rank > 0 ? "batch.per-rank" : "batch.global"), near_divisors(least, batch.micro));
}

BatchPlan plan_batch(const LoadedConfig& loaded, int ranks, int64_t started_global) {
  const BatchOptions& batch = loaded.config.batch;
  BatchPlan plan;
  plan.global = global_batch(loaded, ranks, started_global);
  const std::string source = loaded.where(batch.per_rank > 0 ? "batch.per-rank" : "batch.global");
  require(plan.global % ranks == 0, ErrorKind::config,
          "the global batch of {} from {} cannot be divided evenly among {}; start {}, or set --batch.global {}",
          count_text(plan.global, "sequence"), source, count_text(ranks, "data-parallel rank"),
          count_text(near_divisors(plan.global, ranks), "rank"), (plan.global / ranks + 1) * ranks);
  plan.per_rank = plan.global / ranks;
  require(batch.micro > 0 || batch.accumulation == 0 || plan.per_rank % batch.accumulation == 0, ErrorKind::config,
          "{} is {}, but each of {} has {} of the {} of a step; set --batch.accumulation to one of {}",
          loaded.where("batch.accumulation"), batch.accumulation, count_text(ranks, "rank"), plan.per_rank,
          count_text(plan.global, "sequence"), near_divisors(plan.per_rank, std::max<int64_t>(1, batch.accumulation)));
  plan.micro = batch.micro > 0          ? batch.micro
               : batch.accumulation > 0 ? plan.per_rank / batch.accumulation
                                        : largest_micro(plan.per_rank);
  require(plan.per_rank % plan.micro == 0, ErrorKind::config,
          "{} is {}, but each of {} has {} of the {} of a step; set --batch.micro to one of {}",
          loaded.where("batch.micro"), plan.micro, count_text(ranks, "rank"), plan.per_rank,
          count_text(plan.global, "sequence"), near_divisors(plan.per_rank, plan.micro));
  plan.accumulation = plan.per_rank / plan.micro;
  require(batch.accumulation == 0 || batch.accumulation == plan.accumulation, ErrorKind::config,
          "{} is {} and {} is {}: on {} this gives {} per step, not the {} of {}; remove one of the three",
          loaded.where("batch.micro"), plan.micro, loaded.where("batch.accumulation"), batch.accumulation,
          count_text(ranks, "data-parallel rank"), count_text(plan.micro * batch.accumulation * ranks, "sequence"),
          plan.global, source);
  require(plan.accumulation <= kMostMicroBatches, ErrorKind::config,
          "the global batch of {} from {} needs {} of {} on each of {} per step, but at most {} are supported; set a "
          "larger --batch.micro, start more ranks, or lower the batch",
          count_text(plan.global, "sequence"), source, count_text(plan.accumulation, "micro-batch"), plan.micro,
          count_text(ranks, "rank"), kMostMicroBatches);
  return plan;
}

std::vector<LogColumn> log_columns(const LoadedConfig& loaded) {
  const std::string& given = loaded.config.log.columns;
  std::vector<LogColumn> columns;
  for (const std::string& item : items_of(given)) {
    if (item == "all" && columns.empty() && given == item) {
      for (const Named<LogColumn>& known : Names<LogColumn>::kAll) columns.push_back(known.value);
      return columns;
    }
    const std::optional<LogColumn> column = value_named<LogColumn>(item);
    if (!column) {
      std::vector<std::string_view> names;
      for (const Named<LogColumn>& known : Names<LogColumn>::kAll) names.push_back(known.name);
      fail(ErrorKind::config, "{} is \"{}\": unknown column \"{}\"; expected all, or some of {} with commas",
           loaded.where("log.columns"), given, item, fmt::join(names, ", "));
    }
    require(std::ranges::find(columns, *column) == columns.end(), ErrorKind::config,
            "{} is \"{}\", which has {} twice; remove one", loaded.where("log.columns"), given, item);
    columns.push_back(*column);
  }
  return columns;
}

std::set<int64_t> extra_snapshots(const LoadedConfig& loaded) {
  std::set<int64_t> steps;
  for (const std::string& item : items_of(loaded.config.checkpoint.also)) {
    const Value value = resolve_plain(item);
    const auto* step = std::get_if<int64_t>(&value);
    require(step && *step >= 0, ErrorKind::config, "{} is \"{}\", expected steps separated by commas, like 0,1,2,4",
            loaded.where("checkpoint.also"), loaded.config.checkpoint.also);
    steps.insert(*step);
  }
  return steps;
}

}  // namespace trireme
