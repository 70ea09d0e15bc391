#include "cli/cluster/launch_facts.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "cli/command.h"
#include "cli/train/glue_flags.h"
#include "config/load.h"
#include "text/tokenizer.h"
#include "train/start/data_setup.h"
#include "train/start/run_bytes.h"
#include "train/start/runnable.h"

namespace trireme {

namespace {

/// Empty for a path: a path that exists on the launching host is not a name on the hub.
std::string name_of_hub(const std::string& given) { return hub::is_only_a_name(given) ? given : ""; }

std::vector<int64_t> find_steps(const std::string& run_folder) {
  std::error_code unreadable;
  return std::filesystem::is_directory(run_folder, unreadable) ? list_steps(run_folder) : std::vector<int64_t>();
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
    job.named = {.model = name_of_hub(config.model.init),
                 .tokenizer = name_of_hub(config.data.tokenizer),
                 .glue_task = config.data.dir.empty() ? options.rows.task : ""};
    return job;
  }
  if (request.any_program || request.command[0] != "train") return job;
  const ConfigWords words = split_words({request.command.begin() + 1, request.command.end()});
  const LoadedConfig loaded = load_config(words.files, words.flags, words.dialect);
  require_runnable(loaded);
  job.run_folder = loaded.config.run.dir;
  job.has_status = !loaded.config.evaluation.only;
  if (job.has_status) job.stop_folder = job.run_folder;
  job.run_bytes = snapshot_file_bytes(loaded);
  job.start_seconds = loaded.config.run.start_timeout;
  job.inherit_binding = loaded.config.launch.bind == Binding::inherit;
  for (const std::string& file : words.files) job.files.push_back(std::filesystem::absolute(file));
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
