#include "cli/train/tuning_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/flags.h"
#include "config/foreign_options.h"
#include "config/schema.h"
#include "data/glue/task.h"
#include "data/prepare/byte_source.h"
#include "hub/name.h"
#include "train/start/recipe.h"
#include "train/start/resolve.h"

namespace trireme {
namespace {

constexpr double kMostEpochs = 1e6;

/// Native options that the user may set; run_glue's arguments determine the rest.
bool stays_native(std::string_view name) {
  constexpr std::string_view kOptions[] = {"log.peak-tflops",
                                           "model.dropout",
                                           "model.recompute",
                                           "run.device",
                                           "run.hang-timeout",
                                           "run.start-timeout",
                                           "run.hash-every",
                                           "run.max-skips",
                                           "run.take-over",
                                           "precision.max-overflows",
                                           "run.on-difference",
                                           "log.jsonl",
                                           "log.tensorboard",
                                           "log.seconds",
                                           "log.mlflow",
                                           "log.mlflow-experiment",
                                           "log.columns",
                                           "log.time",
                                           "log.json",
                                           "mesh.data",
                                           "mesh.tensor",
                                           "mesh.sequence",
                                           "optim.shard",
                                           "optim.shard-group",
                                           "checkpoint.on-error",
                                           "checkpoint.local",
                                           "checkpoint.copy-mb-per-second"};
  return name.starts_with("comm.") || name.starts_with("launch.") || name.starts_with("train.") ||
         name.starts_with("precision.loss-scale") || std::ranges::find(kOptions, name) != std::end(kOptions);
}

/// transformers' schedules.
struct Schedule {
  const char* name;
  RateCourse course;
  bool warms_up = true;
};
constexpr Schedule kSchedules[] = {{"linear", RateCourse::linear},
                                   {"cosine", RateCourse::cosine},
                                   {"cosine_with_restarts", RateCourse::cosine_with_restarts},
                                   {"polynomial", RateCourse::polynomial},
                                   {"constant", RateCourse::constant, false},
                                   {"constant_with_warmup", RateCourse::constant},
                                   {"inverse_sqrt", RateCourse::inverse_sqrt},
                                   {"cosine_with_min_lr", RateCourse::cosine},
                                   {"warmup_stable_decay", RateCourse::stable_decay}};
constexpr double kPolynomialEnd = 1e-7;

/// The shape of transformers' decay_type.
DecayShape decay_shape(const Json& type) {
  constexpr std::pair<const char*, DecayShape> kShapes[] = {
      {"cosine", DecayShape::cosine}, {"linear", DecayShape::linear}, {"1-sqrt", DecayShape::sqrt}};
  for (const auto& [name, shape] : kShapes) {
    if (type == name) return shape;
  }
  fail(ErrorKind::usage, "--lr-scheduler-kwargs: \"decay_type\" is {}, expected cosine, linear or 1-sqrt",
       dump_valid_json(type));
}

/// run_glue's names of native options, which messages use.
constexpr OptionName kNames[] = {
    {"checkpoint.resume none --run.overwrite", "--overwrite-output-dir"},
    {"checkpoint.resume none", "--overwrite-output-dir"},
    {"checkpoint.resume", "--resume-from-checkpoint"},
    {"checkpoint.every", "--save-steps"},
    {"checkpoint.keep", "--save-total-limit"},
    {"run.overwrite", "--overwrite-output-dir"},
    {"run.dir", "--output-dir"},
    {"run.steps", "--max-steps"},
    {"run.seed", "--seed"},
    {"model.init", "--model-name-or-path"},
    {"data.train", "--train-file"},
    {"data.validation", "--validation-file"},
    {"data.test", "--test-file"},
    {"data.dir", "--data-dir"},
    {"data.tokenizer", "--tokenizer-name"},
    {"batch.micro", "--per-device-train-batch-size"},
    {"batch.accumulation", "--gradient-accumulation-steps"},
    {"batch.sequence", "--max-seq-length"},
    {"evaluation.every", "--eval-steps"},
    {"log.every", "--logging-steps"},
    {"optim.learning-rate", "--learning-rate"},
    {"optim.weight-decay", "--weight-decay"},
    {"optim.warmup-steps", "--warmup-steps"},
    {"optim.clip", "--max-grad-norm"},
    {"optim.epsilon", "--adam-epsilon"},
    {"optim.schedule", "--lr-scheduler-type"},
    {"optim.beta1", "--adam-beta1"},
    {"optim.beta2", "--adam-beta2"},
    {"precision.dtype bf16", "--bf16"},
};

/// Why a native option cannot be given.
std::string why_not_native(const std::string& option) {
  const auto* const own = std::ranges::find(kNames, option, &OptionName::native);
  return fmt::format("cannot be given to glue: run_glue's arguments determine it; {}",
                     own == std::end(kNames) ? "`trireme glue --help` lists them" : fmt::format("use {}", own->own));
}

/// Reads a .json file of arguments as flags.
std::vector<std::string> from_file(const std::string& path) {
  std::vector<std::string> words;
  const Json json = read_json(path);
  require(json.is_object(), ErrorKind::config, "{}: {}, expected an object of arguments", path, json.type_name());
  for (const auto& [name, value] : json.items()) {
    if (value.is_null()) continue;
    require(!value.is_structured(), ErrorKind::config, "{}: \"{}\" is {}, expected text, a number or true or false",
            path, name, value.type_name());
    words.push_back(
        fmt::format("--{}={}", name, value.is_string() ? value.get<std::string>() : dump_valid_json(value)));
  }
  return words;
}

/// The words, with those of a .json file at their end. Words before it, such as those of launch, win.
std::vector<std::string> with_file(std::vector<std::string> arguments) {
  const auto is_whole = [](const std::string& word) {
    return word.starts_with("--") && word.find('=') != std::string::npos;
  };
  if (arguments.empty() || !arguments.back().ends_with(".json") ||
      !std::all_of(arguments.begin(), arguments.end() - 1, is_whole))
    return arguments;
  std::vector<std::string> words = from_file(arguments.back());
  words.insert(words.end(), arguments.begin(), arguments.end() - 1);
  return words;
}

constexpr std::initializer_list<Strategy> kDuringTraining = {Strategy::no, Strategy::steps, Strategy::epoch};

/// The flags of a run and their values.
class GlueFlags {
 public:
  explicit GlueFlags(CommandLine line);
  Flags& flags() { return flags_; }
  GlueOptions read();

 private:
  void add_switch(const std::string& name, bool& target, const std::string& help) {
    flags_.add_truth(
        "--" + name, target, [&target](bool value) { target = value; }, help);
  }
  void add_word(const std::string& name, std::string& target, const std::string& help) {
    flags_.add("--" + name, target, help);
  }
  template <class T>
  Flag add_number(const std::string& name, T& target, const std::string& help) {
    return flags_.add("--" + name, target, help).show_default();
  }
  void add_model_and_data();
  void add_training();
  void add_rhythm();
  void check(const GlueOptions& options) const;
  void take_switches() const;
  void take_revision() const;
  void take_schedule() const;
  void take_kwargs() const;
  void take_origins() const;
  void take_native();
  Config& config() const { return options_.loaded.config; }

  mutable GlueOptions options_;
  Flags flags_;
  std::vector<std::string> native_;  ///< native options and their values
  std::string resume_, revision_, separator_, kwargs_, schedule_ = kSchedules[0].name;
  double warmup_ratio_ = 0, warmup_steps_ = 0;
  bool train_ = false, bf16_ = false, fp16_ = false, use_cpu_ = false;

  TokenizerFlags tokenizer_;
};

GlueFlags::GlueFlags(CommandLine line)
    : flags_(std::move(line), "trireme glue",
             "Fine-tunes BERT, DistilBERT or RoBERTa on a GLUE task or on your own rows, evaluates and predicts. Takes "
             "run_glue's arguments, or a .json file with them. `mpirun -n N trireme glue ...` trains on "
             "N ranks.") {
  config() = glue_configuration();
  config().names = OptionNames({std::begin(kNames), std::end(kNames)});
  flags_.add_options(native_, stays_native, why_not_native);
  add_model_and_data();
  add_training();
  add_rhythm();
  flags_.set_footer(
      "Native options of the groups comm and launch, --model.dropout, --model.recompute, --mesh.tensor, "
      "--mesh.sequence,\n"
      "--optim.shard, --run.take-over and others (docs/glue.md) are also accepted.\n" +
      foreign_options_help("glue"));
}

void GlueFlags::add_model_and_data() {
  GlueOptions& o = options_;
  RowOptions& rows = o.rows;
  DataOptions& data = config().data;
  add_word("model-name-or-path,--model", config().model.init,
           "Hugging Face folder of the pretrained model, or its name on the hub");
  add_word("model-revision", revision_,
           "branch, tag or commit of the model and tokenizer on the hub, as in NAME@REVISION (default: main)");
  add_word("tokenizer-name", data.tokenizer, "tokenizer's file or folder (default: the model's)");
  add_tokenizer_flags(flags_, tokenizer_);
  add_word("task-name,--task", rows.task, "cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb, wnli or ax");
  add_word("data-dir", data.dir,
           "folder of the GLUE files: of all tasks, or of this one (default: fetched from the Hugging Face hub)");
  add_word("train-file", data.train, "your own rows, .csv or .json with a column \"label\"");
  add_word("validation-file", data.validation, "your own rows for --do-eval");
  add_word("test-file", data.test, "your own rows for --do-predict, without labels");
  flags_
      .add("--text-columns", rows.text_columns,
           "your own rows: column of the text, or two columns separated by a comma for a pair (default: sentence1 and "
           "sentence2, otherwise the first one or two columns of text, not numbers or names of rows)")
      .separated_by(',');
  add_number("label-column", rows.label_column, "your own rows: column of the label");
  flags_.add("--csv-separator", separator_, "separator of the fields of a .csv (default: comma; for a .tsv: tab)")
      .one_of({"comma", "semicolon", "tab", "pipe"});
  add_number("encoding", rows.encoding, "your own rows: " + std::string(kEncodingHelp));
  add_word("output-dir", config().run.dir, "results, model and checkpoints");
  add_switch("overwrite-output-dir", config().run.overwrite, "start a new run in a folder that holds another run");
  add_word("resume-from-checkpoint", resume_, "run or step folder; True: the checkpoint in output-dir (the default)");
  add_switch("ignore-mismatched-sizes", o.renew_head,
             "initialise a new head if the number of classes differs, even without training (with --do-train always)");
  add_switch("do-train", train_, "train on the training rows");
  add_switch("do-eval", o.evaluate, "evaluate on the validation rows");
  add_switch("do-predict", o.predict, "predict the test rows");
  add_number("max-seq-length,--max-length", config().batch.sequence, "maximum ids per row").in_range(1, 1 << 20);
  add_switch("pad-to-max-length", rows.pad,
             "pad rows to --max-seq-length; otherwise rows are packed without padding, with the same loss");
  add_number("max-train-samples", rows.most_train, "use only the first N rows (0: all)").not_negative();
  add_number("max-eval-samples,--max-val-samples", rows.most_evaluation, "use only the first N rows (0: all)")
      .not_negative();
  add_number("max-predict-samples,--max-test-samples", rows.most_prediction, "use only the first N rows (0: all)")
      .not_negative();
}

void GlueFlags::add_training() {
  GlueOptions& o = options_;
  OptimOptions& optim = config().optim;
  add_number("per-device-train-batch-size,--per-gpu-train-batch-size", config().batch.micro,
             "rows per rank and micro-batch")
      .in_range(1, 1 << 20);
  add_number("per-device-eval-batch-size,--per-gpu-eval-batch-size", o.evaluation_batch, "rows per rank")
      .in_range(1, 1 << 20);
  add_number("per-device-max-tokens", o.most_tokens,
             "maximum ids per rank and micro-batch: larger batches are split, with the same gradients (0: only rows "
             "are limited)")
      .not_negative();
  add_number("gradient-accumulation-steps", config().batch.accumulation, "micro-batches per step").in_range(1, 1 << 20);
  add_number("num-train-epochs", o.epochs, "epochs").positive();
  add_number("max-steps", o.max_steps, "steps instead of epochs (-1: epochs)");
  add_number("learning-rate", optim.learning_rate, "peak learning rate").between(0, 100);
  add_number("weight-decay", optim.weight_decay, "weight decay of AdamW, for matrices only").between(0, 100);
  add_number("adam-beta1", optim.beta1, "AdamW's").not_negative();
  add_number("adam-beta2", optim.beta2, "AdamW's").not_negative();
  add_number("adam-epsilon", optim.epsilon, "AdamW's").between(1e-30, 1);
  add_number("max-grad-norm", optim.clip, "maximum norm of the gradient (0: off)").between(0, 1e9);
  std::vector<std::string> schedules;
  for (const Schedule& schedule : kSchedules) schedules.emplace_back(schedule.name);
  add_number("lr-scheduler-type", schedule_, "learning rate schedule").one_of(schedules);
  add_word(
      "lr-scheduler-kwargs", kwargs_,
      "JSON object: num_cycles for cosine_with_restarts, power and lr_end for polynomial, timescale for inverse_sqrt, "
      "min_lr or min_lr_rate for cosine_with_min_lr, num_decay_steps, decay_type (cosine, linear or 1-sqrt) and "
      "min_lr_ratio for warmup_stable_decay");
  add_number("warmup-ratio", warmup_ratio_, "fraction of the steps for warm-up").not_negative();
  add_number("warmup-steps", warmup_steps_, "instead: steps of warm-up; below 1: their fraction").not_negative();
  add_number("label-smoothing-factor", o.label_smoothing,
             "part of each label that is distributed over all classes, in training and in the loss of evaluations, "
             "from 0 to 1")
      .not_negative();
  add_number("seed", config().run.seed, "seed of the rows' order, dropout and a new head").not_negative();
  add_switch("bf16", bf16_, "weights and activations in bf16, with f32 master weights");
  add_switch(
      "fp16", fp16_,
      "on GPUs: weights and activations in f16, with f32 master weights and a loss scale (--precision.loss-scale)");
  add_switch("use-cpu", use_cpu_, "compute on the CPU even if there is a GPU, like --run.device cpu");
}

void GlueFlags::add_rhythm() {
  GlueOptions& o = options_;
  flags_.choice("--logging-strategy", o.logging.strategy, "when to log", kDuringTraining);
  add_number("logging-steps", o.logging.steps, "steps between log lines; below 1: this fraction of all steps")
      .positive();
  add_switch("logging-first-step", o.logging_first_step, "also log the first step");
  flags_.choice("--evaluation-strategy,--eval-strategy", o.evaluation.strategy, "when to evaluate during training",
                kDuringTraining);
  add_number("eval-steps", o.evaluation.steps,
             "steps between evaluations; below 1: this fraction of all steps (0: --logging-steps)")
      .not_negative();
  flags_.choice("--save-strategy", o.saving.strategy,
                "when to write a checkpoint; best: after each evaluation that is the best so far");
  add_number("save-steps", o.saving.steps, "steps between checkpoints; below 1: this fraction of all steps").positive();
  add_number("save-total-limit", config().checkpoint.keep,
             "number of newest checkpoints to keep, besides the best one (0: all)")
      .not_negative();
  add_switch(
      "load-best-model-at-end", config().checkpoint.best,
      "write, evaluate and predict with the model of the best evaluation during training instead of the last model");
  add_word("metric-for-best-model", o.best_metric,
           "metric that determines the best evaluation, with or without eval_ (default: loss)");
  flags_.add_truth(
      "--greater-is-better", std::nullopt, [&o](bool value) { o.greater_is_better = value; },
      "a greater value is better (default: unless the metric's name ends in loss)");
  add_number("early-stopping-patience", o.patience,
             "training ends after this number of consecutive evaluations without improvement (0: off)")
      .not_negative();
  add_number("early-stopping-threshold", o.patience_threshold, "minimum improvement that counts for this")
      .not_negative();
}

void GlueFlags::check(const GlueOptions& o) const {
  const DataOptions& files = o.config().data;
  const std::string& task = o.rows.task;
  require(!o.config().model.init.empty(), ErrorKind::usage,
          "--model-name-or-path is missing: the folder of the pretrained model, or its name on the Hugging Face hub");
  require(!o.config().run.dir.empty(), ErrorKind::usage, "--output-dir is missing: the folder for results");
  require(o.trains() || o.evaluate || o.predict, ErrorKind::usage,
          "nothing to do: add --do-train, --do-eval or --do-predict");
  require(!task.empty() || !files.train.empty() || !files.validation.empty(), ErrorKind::usage,
          "--task-name is missing, and --train-file and --validation-file are also missing");
  require(task.empty() || (files.train.empty() && files.validation.empty() && files.test.empty()), ErrorKind::usage,
          "--task-name {} has its own files: remove it, or remove --train-file, --validation-file and --test-file",
          task);
  require(o.config().optim.beta1 < 1 && o.config().optim.beta2 < 1, ErrorKind::usage,
          "--adam-beta1 and --adam-beta2 must be below 1");
  require(o.most_tokens == 0 || !o.rows.pad, ErrorKind::usage,
          "--per-device-max-tokens counts ids without padding; remove --pad-to-max-length");
  require(o.epochs <= kMostEpochs, ErrorKind::usage, "--num-train-epochs is {}, expected at most {}", o.epochs,
          kMostEpochs);
  require(warmup_ratio_ <= 1, ErrorKind::usage, "--warmup-ratio is {}, expected a fraction of the steps from 0 to 1",
          warmup_ratio_);
  require(o.label_smoothing <= 1, ErrorKind::usage, "--label-smoothing-factor is {}, expected 0 to 1",
          o.label_smoothing);
  require(o.rows.text_columns.size() <= 2, ErrorKind::usage, "--text-columns names {}, expected one or two",
          count_text(o.rows.text_columns.size(), "column"));
  require(task.empty() || (o.rows.text_columns.empty() && o.rows.label_column == "label" && separator_.empty()),
          ErrorKind::usage,
          "--text-columns, --label-column and --csv-separator are for your own files, but --task-name {} has its own; "
          "remove them",
          task);
  for (const auto& [name, steps] :
       {std::pair{"logging-steps", o.logging.steps}, std::pair{"save-steps", o.saving.steps},
        std::pair{"eval-steps", o.evaluation.steps}})
    require(steps < 1 || steps == std::floor(steps), ErrorKind::usage,
            "--{} is {}, expected a whole number of steps, or a fraction of all steps below 1", name, steps);
  const bool evaluates = o.evaluation.strategy != Strategy::no && o.trains();
  require(!o.config().checkpoint.best || evaluates, ErrorKind::usage,
          "--load-best-model-at-end needs evaluations during training: add --eval-strategy epoch or steps");
  require(o.saving.strategy != Strategy::best || evaluates, ErrorKind::usage,
          "--save-strategy best needs evaluations during training: add --eval-strategy epoch or steps");
  require(o.patience == 0 || (o.config().checkpoint.best && evaluates), ErrorKind::usage,
          "--early-stopping-patience needs --load-best-model-at-end and --eval-strategy epoch or steps");
  require(o.patience_threshold == 0 || o.patience > 0, ErrorKind::usage,
          "--early-stopping-threshold needs --early-stopping-patience");
  require(o.max_steps != 0, ErrorKind::usage, "--max-steps is 0; give a number of steps, or -1 for epochs");
}

/// Where the native options come from that arguments of run_glue set.
void GlueFlags::take_origins() const {
  OptionOrigins& origins = options_.loaded.origins;
  const Config defaults = glue_configuration();
  for (const Option& option : schema().options()) {
    if (option.group == "optim" && get(defaults, option) != option.default_value)
      origins[option.name] = {"default of trireme glue", 0, kDefaultLayer};
  }
  for (const OptionName& name : kNames) {
    const std::string own(name.own), native(name.native);
    if (schema().find(native) && flags_.count(own) > 0) origins[native] = {"flag " + own, 0, kFlagLayer};
  }
  if (bf16_ || fp16_) origins["precision.dtype"] = {bf16_ ? "flag --bf16" : "flag --fp16", 0, kFlagLayer};
}

GlueOptions GlueFlags::read() {
  flags_.parse(with_file(flags_.words()));
  take_switches();
  if (!resume_.empty() && lower_case(resume_) != "true" && lower_case(resume_) != "none")
    config().checkpoint.resume = resume_;
  require(lower_case(config().checkpoint.resume) != "false", ErrorKind::config,
          "--resume-from-checkpoint False: to start a new run use --overwrite-output-dir");
  if (!options_.rows.task.empty()) options_.rows.task = glue_task(options_.rows.task).name;
  options_.tokenizer_load = load_options(tokenizer_);
  constexpr std::pair<const char*, char> kSeparators[] = {
      {"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"pipe", '|'}};
  for (const auto& [name, character] : kSeparators) {
    if (separator_ == name) options_.rows.csv_separator = character;
  }
  take_schedule();
  take_kwargs();
  check(options_);
  take_revision();
  take_origins();
  take_native();
  require_runnable(options_.loaded);
  return options_;
}

void GlueFlags::take_native() {
  LoadedConfig& loaded = options_.loaded;
  LoadedConfig given = load_config({}, native_, {}, config().names);
  for (const auto& [name, origin] : given.origins) {
    const Option& option = *schema().find(name);
    set(loaded.config, option, get(given.config, option));
  }
  given.origins.merge(loaded.origins);
  loaded.origins = std::move(given.origins);
}

void GlueFlags::take_switches() const {
  config().evaluation.only = !train_;
  require(!bf16_ || !fp16_, ErrorKind::usage, "--bf16 and --fp16 are both given; remove one");
  config().precision.dtype = bf16_ ? DType::bf16 : fp16_ ? DType::f16 : DType::f32;
  config().run.device = use_cpu_ ? DeviceChoice::cpu : DeviceChoice::automatic;
}

void GlueFlags::take_schedule() const {
  const Schedule& schedule = *std::ranges::find(kSchedules, schedule_, &Schedule::name);
  OptimOptions& optim = config().optim;
  options_.schedule_name = schedule.name;
  optim.schedule = schedule.course;
  if (schedule.course == RateCourse::polynomial) optim.min_learning_rate = kPolynomialEnd;
  if (!schedule.warms_up) return;
  if (warmup_steps_ >= 1)
    optim.warmup_steps = static_cast<int64_t>(warmup_steps_);
  else
    options_.warmup_share = warmup_steps_ > 0 ? warmup_steps_ : warmup_ratio_;
}

/// Settings of the chosen schedule; those of other schedules are refused.
void GlueFlags::take_kwargs() const {
  OptimOptions& optim = config().optim;
  Json values = Json::object();
  if (!kwargs_.empty() && lower_case(kwargs_) != "none") values = parse_json(kwargs_, "--lr-scheduler-kwargs");
  require(values.is_object(), ErrorKind::usage, "--lr-scheduler-kwargs is {}, expected a JSON object", kwargs_);
  double least_share = 0;  // of the peak
  const auto steps = [&](double value) { optim.decay_length = static_cast<int64_t>(value); };
  const auto into = [](double& target) { return [&target](double value) { target = value; }; };
  struct Known {
    const char *schedule, *name;
    double least;
    std::function<void(double)> take;
  };
  const Known known[] = {{"cosine_with_restarts", "num_cycles", 1, into(optim.restarts)},
                         {"polynomial", "power", 0, into(optim.decay_power)},
                         {"polynomial", "lr_end", 0, into(optim.min_learning_rate)},
                         {"inverse_sqrt", "timescale", 0, into(optim.timescale)},
                         {"cosine_with_min_lr", "min_lr", 0, into(optim.min_learning_rate)},
                         {"cosine_with_min_lr", "min_lr_rate", 0, into(least_share)},
                         {"warmup_stable_decay", "num_decay_steps", 1, steps},
                         {"warmup_stable_decay", "min_lr_ratio", 0, into(least_share)}};
  for (const auto& [name, value] : values.items()) {
    if (schedule_ == "warmup_stable_decay" && name == "decay_type") {
      optim.decay_shape = decay_shape(value);
      continue;
    }
    const auto* found = std::ranges::find_if(
        known, [&, &word = name](const Known& k) { return schedule_ == k.schedule && word == k.name; });
    require(found != std::end(known), ErrorKind::usage, "--lr-scheduler-kwargs: the schedule {} has no \"{}\" here",
            schedule_, name);
    require(value.is_number() && value.get<double>() >= found->least, ErrorKind::usage,
            "--lr-scheduler-kwargs: \"{}\" is {}, expected a number of at least {}", name, dump_valid_json(value),
            found->least);
    require(name != "num_decay_steps" || value.is_number_integer(), ErrorKind::usage,
            "--lr-scheduler-kwargs: \"{}\" is {}, expected a whole number of steps", name, dump_valid_json(value));
    found->take(value.get<double>());
  }
  if (least_share > 0) optim.min_learning_rate = least_share * optim.learning_rate;
  require(
      schedule_ != "cosine_with_min_lr" || values.contains("min_lr") != values.contains("min_lr_rate"),
      ErrorKind::usage,
      "--lr-scheduler-type cosine_with_min_lr needs its smallest rate: --lr-scheduler-kwargs '{{\"min_lr\": 1e-6}}' "
      "or '{{\"min_lr_rate\": 0.1}}', one of the two");
  require(schedule_ != "warmup_stable_decay" || values.contains("num_decay_steps"), ErrorKind::usage,
          "--lr-scheduler-type warmup_stable_decay needs the length of its decay: --lr-scheduler-kwargs "
          "'{{\"num_decay_steps\": 100}}'");
  require(optim.min_learning_rate == 0 || optim.min_learning_rate < optim.learning_rate, ErrorKind::usage,
          "--lr-scheduler-kwargs: the smallest rate is {}, expected less than --learning-rate {}",
          optim.min_learning_rate, optim.learning_rate);
}

/// As run_glue does: for the model and for a separately named tokenizer. "main" is the default of a name.
void GlueFlags::take_revision() const {
  if (revision_.empty() || revision_ == hub::kMainRevision) return;
  hub::require_revision(revision_);
  const auto is_name = [](const std::string& text) {
    return !std::filesystem::exists(text) && hub::looks_like_name(text);
  };
  require(is_name(config().model.init), ErrorKind::usage,
          "--model-revision {} is a revision on the Hugging Face hub, but --model-name-or-path {} is not a name on the "
          "hub; remove it",
          revision_, config().model.init);
  for (std::string* name : {&config().model.init, &config().data.tokenizer}) {
    if (!is_name(*name)) continue;
    require(name->find('@') == std::string::npos, ErrorKind::usage,
            "{} and --model-revision {} both name a revision; remove one of them", *name, revision_);
    *name += "@" + revision_;
  }
}

}  // namespace

GlueOptions read_glue_flags(std::vector<std::string> arguments) { return GlueFlags(std::move(arguments)).read(); }

int run_glue(CommandLine line) {
  GlueFlags flags(std::move(line));
  if (const auto code = flags.flags().answer()) return *code;
  return run_recipe([&] { return fine_tuning(flags.read()); });
}

}  // namespace trireme
