#include "cli/cluster/launch_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "cli/command.h"
#include "cli/train/glue_flags.h"
#include "cli/train/tuning_flags.h"
#include "config/load.h"
#include "hub/place.h"
#include "model/model_options.h"
#include "ops/gpu_library.h"
#include "text/tokenizer.h"
#include "train/start/data_setup.h"
#include "train/start/rank_table.h"
#include "train/start/resolve_ranks.h"
#include "train/start/run_bytes.h"
#include "train/start/run_forecast.h"
#include "train/start/runnable.h"

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
    resolve_model_options(loaded);
    const RunForecast forecast = forecast_run(loaded, unlimited);
    launch::RankMemory memory{static_cast<uint64_t>(forecast.memory()), ""};
    if (memory.bytes <= limit) return memory;
    PlannedNodes limited = unlimited;
    limited.type.memory_gb = static_cast<double>(limit) * static_cast<double>(on_gpus ? 1 : each) / 1e9;
    const std::vector<RunForecast> best = best_layouts(loaded, limited, PlanGoal::time, 1);
    if (!best.empty()) memory.fits = options_text(loaded.config, best[0]);
    return memory;
  } catch (const Error&) {  // the ranks will name it
    return {};
  }
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

JobFacts facts_of_tuning(const TuningCommand& tuning, const std::vector<std::string>& command) {
  const TuningWords words = read_tuning_words(tuning, {command.begin() + 1, command.end()});
  const Config& config = words.loaded.config;
  JobFacts job;
  take_run(config, words.files, job);
  for (const char* option : {"data.train", "data.validation"}) {
    const std::string& file = option == std::string_view("data.train") ? config.data.train : config.data.validation;
    if (words.loaded.given(option) && !hub::is_only_a_name(file)) job.files.push_back(std::filesystem::absolute(file));
  }
  const bool resumes = config.checkpoint.resume != "none" && !find_steps(job.run_folder).empty();
  if (!resumes) job.named.model = name_of_hub(config.model.init);
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
  if (!request.any_program && request.command[0] == "glue") {
    const GlueOptions options = read_glue_flags({request.command.begin() + 1, request.command.end()});
    const Config& config = options.config();
    if (options.trains()) job.stop_folder = config.run.dir;
    job.gpus = gpu_wish(config.run.device);
    job.on_cpus = config.run.device == DeviceChoice::cpu;
    job.named = {.model = name_of_hub(config.model.init),
                 .tokenizer = name_of_hub(config.data.tokenizer),
                 .glue_task = config.data.dir.empty() ? options.rows.task : ""};
    return job;
  }
  for (const TuningCommand* tuning : {&kSftCommand, &kDpoCommand}) {
    if (!request.any_program && request.command[0] == tuning->name) return facts_of_tuning(*tuning, request.command);
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
  for (std::string& file : token_files(loaded.config.data)) job.files.push_back(std::move(file));
  const std::string &init = loaded.config.model.init, &tokenizer = loaded.config.data.tokenizer;
  const bool resumes = loaded.config.checkpoint.resume != "none" && !find_steps(job.run_folder).empty();
  if (resumes) return job;  // only from the run folder itself
  job.named = {.model = init == "scratch" ? "" : name_of_hub(init),
               .tokenizer = tokenizer == kCharLevelTokenizer ? "" : name_of_hub(tokenizer),
               .glue_task = ""};
  return job;
}

}  // namespace trireme
