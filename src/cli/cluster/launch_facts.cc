#include "cli/cluster/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "cli/command.h"
#include "cli/train/tuning_flags.h"
#include "config/load.h"
#include "data/glue/reader.h"
#include "hub/place.h"
#include "ops/gpu_library.h"
#include "text/tokenizer.h"
#include "train/glue/data.h"
#include "train/glue/job.h"
#include "train/sft/data_parts.h"
#include "train/start/data_setup.h"
#include "train/start/rank_table.h"
#include "train/start/resolve.h"
#include "train/start/run_forecast.h"
#include "train/step_batches.h"

namespace trireme {

namespace {

/// Empty for a path: a path that exists on the launching host is not a name on the hub.
std::string name_of_hub(const std::string& given) { return hub::is_only_a_name(given) ? given : ""; }

std::vector<int64_t> find_steps(const std::string& run_folder) {
  std::error_code unreadable;
  return std::filesystem::is_directory(run_folder, unreadable) ? list_steps(run_folder) : std::vector<int64_t>();
}

/// Options of a layout that differ from the configuration's.
std::string options_text(const Config& config, const RunForecast& forecast) {
  const StepLayout& layout = forecast.layout;
  const LoadedConfig other = with_layout({config, {}, {}, {}, "native"}, layout);
  std::string text = fmt::format("--mesh.tensor {} --mesh.pipeline {} --batch.micro {}", layout.tensor, layout.pipeline,
                                 layout.micro_batch);
  if (layout.chunks > 1) text += fmt::format(" --mesh.chunks {}", layout.chunks);
  if (layout.sequence_parallel) text += " --mesh.sequence true";
  return text + fmt::format(" --optim.shard {} --model.recompute {}, {:.2f} GB per rank", name_of(layout.shard),
                            name_of(other.config.model.recompute), forecast.memory() / 1e9);
}

/// Nodes with `each` ranks, for plans of memory only.
NodeType any_nodes(int64_t each, bool gpus) {
  NodeType type;
  type.name = "these hosts";
  type.cores = each;
  type.tflops = 1;
  type.memory_gb_per_s = 100;
  type.network_gbit_per_s = 10;
  if (!gpus) return type;
  type.gpus = each;
  type.link_gb_per_s = 100;
  return type;
}

/// What the trainer would plan for these ranks.
std::optional<launch::RankMemory> planned_memory(LoadedConfig loaded, int ranks, int hosts, uint64_t limit,
                                                 bool on_gpus) {
  const int64_t each = ranks / hosts;
  const PlannedNodes unlimited{any_nodes(each, on_gpus), hosts, each};
  try {
    LoadedConfig resolved = loaded;
    resolve_for_ranks(resolved, ranks, "launch");
  } catch (const Error& e) {
    launch::RankMemory refused;
    refused.refusal = e.what();
    return refused;
  }
  try {
    resolve_model(loaded);
    const RunForecast forecast = forecast_run(loaded, unlimited);
    launch::RankMemory memory{static_cast<uint64_t>(forecast.memory()), ""};
    if (memory.bytes <= limit) return memory;
    PlannedNodes limited = unlimited;
    limited.type.memory_gb = static_cast<double>(limit) * static_cast<double>(on_gpus ? 1 : each) / 1e9;
    const std::vector<RunForecast> best = best_layouts(loaded, limited, PlanGoal::time, 1);
    if (!best.empty()) memory.fits = options_text(loaded.config, best[0]);
    return memory;
  } catch (const Error&) {  // of files that are not here; the ranks will name it
    return {};
  }
}

/// The same of a run of glue, whose longest rows decide: some of them are read.
std::optional<launch::RankMemory> planned_memory_of_glue(GlueOptions options, int ranks, int hosts, uint64_t,
                                                         bool on_gpus) {
  constexpr int64_t kRead = 4096;
  RowOptions& rows = options.rows;
  for (int64_t* most : {&rows.most_train, &rows.most_evaluation, &rows.most_prediction})
    *most = *most == 0 ? kRead : std::min(*most, kRead);
  const log::ThreadIdentity silent({.rank = 1, .name = ""});  // the ranks say it again
  try {
    const MeshShape mesh = mesh_of(options.config().mesh, ranks, "--np");
    const PlannedDevices devices = on_gpus ? PlannedDevices::gpus : PlannedDevices::cpus;
    const GlueJob job = make_job(options, "", mesh, planned_rank(ranks, hosts, devices));
    const MemoryPlan memory = memory_of(job.plan.part, *planned_ops(devices));
    launch::RankMemory planned{on_gpus ? memory.on_device() : memory.total(), ""};
    planned.advice = "lower --per-device-train-batch-size or --max-seq-length, or use fewer ranks per host";
    return planned;
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::io) return {};  // of files that are not here
    launch::RankMemory refused;
    refused.refusal = e.what();
    return refused;
  }
}

/// Whether what only this host can tell of the files is an error: not where only commands are wanted.
bool checks_hosts(const LaunchRequest& request) {
  return !request.skip_preflight && (!request.dry_run || request.preflight_only);
}

/// Rows of a training; nullopt: not known here.
std::optional<int64_t> training_rows(const GlueOptions& options) {
  std::optional<int64_t> rows;
  if (!options.rows.task.empty()) rows = published_rows(options.rows.task, GlueSplit::train);
  if (options.rows.task.empty() || !options.config().data.dir.empty()) {
    const log::ThreadIdentity silent({.rank = 1, .name = ""});
    GlueOptions training = options;
    training.evaluate = training.predict = false;
    training.evaluation.strategy = Strategy::no;
    const GlueData data = read_data(training);
    rows = data.train.empty() ? 0 : static_cast<int64_t>(data.train[0].rows.size());
  }
  const int64_t most = options.rows.most_train;
  return rows && most > 0 ? std::min(*rows, most) : rows;
}

/// The files of a Hugging Face folder, which all hosts must have; none of other folders.
void add_model_files(const std::string& folder, JobFacts& job) {
  if (!std::filesystem::exists(std::filesystem::path(folder) / "config.json")) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string ending = entry.path().extension();
    if (entry.is_regular_file() &&
        (ending == ".json" || ending == ".safetensors" || ending == ".bin" || ending == ".txt" || ending == ".model"))
      job.files.push_back(std::filesystem::absolute(entry.path()));
  }
}

/// Adds the model that a new run begins with. Throws Error::io, Error::data, Error::config for one that no start can
/// use, unless checks are not wanted.
void take_model(const LoadedConfig& loaded, bool checks, JobFacts& job) {
  const std::string& init = loaded.config.model.init;
  if (init.empty() || init == "scratch") return;
  job.named.model = name_of_hub(init);
  if (!job.named.model.empty() || !checks) return;
  (void)spec_of_folder(open_model(init), loaded);
  add_model_files(init, job);
}

/// A run of conversations as one of rows: what it plans before it has read them.
LoadedConfig chat_batches(LoadedConfig loaded, bool pairs) {
  resolve_model(loaded);
  Config& config = loaded.config;
  constexpr int64_t kUsualSequence = 1024;
  if (!loaded.given("batch.sequence")) config.batch.sequence = std::min(kUsualSequence, config.model.context);
  if (config.chat.packing && !loaded.given("batch.micro") && !loaded.given("batch.accumulation"))
    config.batch.micro = 1;
  if (pairs) {  // two answers
    config.batch.global *= 2;
    config.batch.micro *= 2;
  }
  return loaded;
}

/// auto: only a build that could use GPUs looks at them.
launch::GpuWish gpu_wish(DeviceChoice device) {
  if (device == DeviceChoice::cuda) return launch::GpuWish::required;
  return device == DeviceChoice::cpu || gpu_library_path().empty() ? launch::GpuWish::none : launch::GpuWish::automatic;
}

/// What every training from a configuration has.
void take_run(const Config& config, const std::vector<std::string>& files, JobFacts& job) {
  job.run_folder = config.run.dir;
  job.has_status = !config.evaluation.only;
  if (job.has_status) job.stop_folder = job.run_folder;
  job.start_seconds = config.run.start_timeout;
  job.inherit_binding = config.launch.bind == Binding::inherit;
  job.gpus = gpu_wish(config.run.device);
  job.on_cpus = config.run.device == DeviceChoice::cpu;
  for (const std::string& file : files) job.files.push_back(std::filesystem::absolute(file));
}

JobFacts facts_of_tuning(const TuningCommand& tuning, const LaunchRequest& request) {
  const TuningWords words = read_tuning_words(tuning, {request.command.begin() + 1, request.command.end()});
  const Config& config = words.loaded.config;
  JobFacts job;
  take_run(config, words.files, job);
  for (const char* option : {"data.train", "data.validation"}) {
    const std::string& file = option == std::string_view("data.train") ? config.data.train : config.data.validation;
    if (!words.loaded.given(option)) continue;
    for (const DataPart& part : data_parts(option, file))
      if (!hub::is_only_a_name(part.name)) job.files.push_back(std::filesystem::absolute(part.name));
  }
  const bool resumes = config.checkpoint.resume != "none" && !find_steps(job.run_folder).empty();
  if (resumes) return job;
  take_model(words.loaded, checks_hosts(request), job);
  job.run_bytes = snapshot_file_bytes(words.loaded);
  job.rank_memory = [loaded = words.loaded, pairs = tuning.name == std::string_view("dpo")](
                        int ranks, int hosts, uint64_t limit, bool on_gpus) -> std::optional<launch::RankMemory> {
    if (hub::is_only_a_name(loaded.config.model.init)) return {};
    return planned_memory(chat_batches(loaded, pairs), ranks, hosts, limit, on_gpus);
  };
  return job;
}

JobFacts facts_of_glue(const LaunchRequest& request) {
  const GlueOptions options = read_glue_flags({request.command.begin() + 1, request.command.end()});
  const Config& config = options.config();
  JobFacts job;
  take_run(config, {}, job);
  job.has_status = false;  // another host may keep the folder
  if (!options.trains()) job.stop_folder.clear();
  const DataOptions& data = config.data;
  job.named = {.model = name_of_hub(config.model.init),
               .tokenizer = name_of_hub(data.tokenizer),
               .glue_task = data.dir.empty() ? options.rows.task : ""};
  for (const std::string& file : {data.train, data.validation, data.test})
    if (!file.empty()) job.files.push_back(std::filesystem::absolute(file));
  const bool here = checks_hosts(request);
  const std::optional<int64_t> rows = options.trains() && here ? training_rows(options) : std::nullopt;
  const bool resumes = options.trains() && !config.run.overwrite && !find_steps(job.run_folder).empty();
  if (options.trains())
    job.shares_run_folder = [options, rows, resumes](int ranks) {
      if (resumes || !rows) return resumes || keeps_snapshots(options, 1);
      const BatchOptions& batch = options.config().batch;
      const int64_t replicas = std::max<int64_t>(1, ranks / options.config().mesh.tensor);
      const EpochPlan epochs{*rows, batch.micro * batch.accumulation * replicas};
      return keeps_snapshots(options, epochs.total_steps(options.epochs, options.max_steps));
    };
  if (resumes || !here || !job.named.model.empty()) return job;
  (void)open_model(config.model.init);
  add_model_files(config.model.init, job);
  if (hub::still_to_fetch(job.named).empty())
    job.rank_memory = [options](int ranks, int hosts, uint64_t limit, bool on_gpus) {
      return planned_memory_of_glue(options, ranks, hosts, limit, on_gpus);
    };
  return job;
}

}  // namespace

void require_command(const std::vector<std::string>& command) {
  std::vector<std::string> names;
  for (const Command& known : commands()) names.emplace_back(known.name);
  const std::string& word = command.at(0);
  if (word.starts_with("-") || std::ranges::find(names, word) != names.end()) return;
  fail(ErrorKind::usage, "\"{}\" is not a command of trireme{}; to start another program, give --program to launch",
       word, meant_command(word));
}

JobFacts describe_job(const LaunchRequest& request) {
  JobFacts job;
  if (!request.any_program && request.command[0] == "glue") return facts_of_glue(request);
  for (const TuningCommand* tuning : {&kSftCommand, &kDpoCommand}) {
    if (!request.any_program && request.command[0] == tuning->name) return facts_of_tuning(*tuning, request);
  }
  if (request.any_program || request.command[0] != "train") return job;
  const ConfigWords words = split_words({request.command.begin() + 1, request.command.end()});
  const LoadedConfig loaded = load_config(words.files, words.flags, words.dialect);
  require_runnable(loaded);
  take_run(loaded.config, words.files, job);
  job.run_bytes = snapshot_file_bytes(loaded);
  job.rank_memory = [loaded](int ranks, int hosts, uint64_t limit, bool on_gpus) {
    return planned_memory(loaded, ranks, hosts, limit, on_gpus);
  };
  job.layout_warning = [mesh = loaded.config.mesh](const HostMap& hosts) -> std::string {
    try {
      return split_tensor_groups(mesh_of(mesh, hosts.ranks(), "launch"), hosts);
    } catch (const Error&) {  // the ranks will name it
      return "";
    }
  };
  const std::vector<std::string> data = token_files(loaded.config.data);
  for (const std::string& file : data) {
    // The validation file's default name is one that need not exist.
    const bool usual = !loaded.given("data.validation") && file.ends_with("/" + loaded.config.data.validation);
    if (!usual || std::filesystem::exists(file)) job.files.push_back(file);
  }
  const std::string& tokenizer = loaded.config.data.tokenizer;
  const bool resumes = loaded.config.checkpoint.resume != "none" && !find_steps(job.run_folder).empty();
  if (resumes) return job;  // only from the run folder itself
  take_model(loaded, checks_hosts(request), job);
  job.named.tokenizer = tokenizer == kCharLevelTokenizer ? "" : name_of_hub(tokenizer);
  return job;
}

}  // namespace trireme
