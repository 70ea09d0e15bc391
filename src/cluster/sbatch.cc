#include "cluster/sbatch.h"

#include <fmt/format.h>
#include <regex.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "checkpoint/run_folder/run_status.h"
#include "cluster/subprocess.h"

namespace trireme {
namespace {

bool matches(const std::string& text, const char* pattern) {
  regex_t regex;
  if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0) return false;
  const bool found = regexec(&regex, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&regex);
  return found;
}

void check_time(const BatchJob& job) {
  // Slurm checks the time once a minute, and so may warn up to a minute early.
  constexpr int64_t kEarly = 60;
  if (job.time.empty()) return;
  const int64_t seconds = slurm_seconds(job.time);
  require(seconds == 0 || seconds > job.warning_seconds + kEarly, ErrorKind::usage,
          "--time {} is {} s, but Slurm asks the ranks to stop {} s (--warn) plus up to {} s before its end: the job "
          "would be requeued again and again without training; raise --time or lower --warn",
          job.time, seconds, job.warning_seconds, kEarly);
}

void check(const BatchJob& job) {
  for (const std::string* value : {&job.name, &job.partition, &job.account, &job.reservation, &job.constraint,
                                   &job.output, &job.container, &job.container_mounts, &job.folder, &job.nodelist,
                                   &job.exclude, &job.qos, &job.dependency, &job.mail_type, &job.mail_user}) {
    require(value->find_first_of("\n\r") == std::string::npos, ErrorKind::usage,
            "\"{}\" contains a line break; remove it", *value);
  }
  check_time(job);
  gpus_of(job);
  require(job.memory.empty() || matches(job.memory, "^[0-9]+[KMGT]?$"), ErrorKind::usage,
          "--mem \"{}\": expected 0 (all) or a size such as 64G", job.memory);
  require(job.cpu_bind.empty() ||
              matches(job.cpu_bind,
                      "^(none|cores|sockets|threads|rank|mask_cpu:(0x)?[0-9a-fA-F]+(,(0x)?[0-9a-fA-F]+)*|"
                      "map_cpu:[0-9]+(,[0-9]+)*)$"),
          ErrorKind::usage, "--cpu-bind \"{}\": expected none, cores, sockets, mask_cpu:MASK,... or map_cpu:ID,...",
          job.cpu_bind);
  require(job.starter == "srun" || job.starter == "mpirun", ErrorKind::usage,
          "--starter \"{}\": expected srun or mpirun", job.starter);
  require(job.starter == "srun" || (job.container.empty() && job.cpu_bind.empty()), ErrorKind::usage,
          "--container and --cpu-bind need srun; remove them or use --starter srun");
  require(!job.container.empty() || job.container_mounts.empty(), ErrorKind::usage,
          "--container-mounts needs --container; add the image, or remove it");
  require(job.container.empty() || !job.container_mounts.empty() || job.folder.find_first_of(":,") == std::string::npos,
          ErrorKind::usage,
          "the current folder {} has ':' or ',', which separate mounts of a container; start in another one, or name "
          "the mounts by --container-mounts",
          job.folder);
  for (const std::string& line : job.lines) {
    require(line.starts_with("-") && line.find_first_of("\n\r") == std::string::npos, ErrorKind::usage,
            "--sbatch \"{}\": expected an option of sbatch in one line, such as --comment=text", line);
  }
  require(!job.command.empty(), ErrorKind::usage,
          "the command is missing; write `-- train config.yaml` after the options");
}

/// Quotes a word of a directive for sbatch, where a blank ends a word and "#" begins a comment.
std::string directive_word(const std::string& value) {
  if (value.find_first_of(" \t#'\"\\") == std::string::npos) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

/// An option of sbatch as given; an already quoted value and a short option stay unchanged.
std::string directive(const std::string& option) {
  const size_t equals = option.find('=');
  if (!option.starts_with("--") || equals == std::string::npos || option.find_first_of(" '\"\\") < equals)
    return option;
  const std::string value = option.substr(equals + 1);
  return option.substr(0, equals + 1) +
         (value.find_first_of("'\"\\") == std::string::npos ? directive_word(value) : value);
}

void add_directives(std::string& text, const BatchJob& job) {
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) text += fmt::format("#SBATCH --{}={}\n", option, directive_word(value));
  };
  add("job-name", job.name);
  add("partition", job.partition);
  add("account", job.account);
  add("reservation", job.reservation);
  add("constraint", job.constraint);
  add("qos", job.qos);
  add("nodelist", job.nodelist);
  add("exclude", job.exclude);
  add("dependency", job.dependency);
  add("mail-type", job.mail_type);
  add("mail-user", job.mail_user);
  add("nodes", std::to_string(job.nodes));
  add("ntasks-per-node", std::to_string(job.tasks_per_node));
  if (job.cpus_per_task > 0) add("cpus-per-task", std::to_string(job.cpus_per_task));
  add("gpus-per-node", job.gpus_per_node);
  add("gres", job.gres);
  add("time", job.time);
  add("mem", job.memory);
  if (job.exclusive) text += "#SBATCH --exclusive\n";
  add("output", job.output);
  add("open-mode", "append");  // a requeued job appends to the same file
  add("signal", fmt::format("{}USR1@{}", job.starter == "srun" ? "" : "B:", job.warning_seconds));
  text += job.requeue ? "#SBATCH --requeue\n" : "#SBATCH --no-requeue\n";
  for (const std::string& line : job.lines) text += fmt::format("#SBATCH {}\n", directive(line));
}

/// For launch, which checks them. The number of ranks is that of the job's tasks.
void add_gpus(std::vector<std::string>& words, const BatchJob& job) {
  if (const int gpus = gpus_of(job); gpus > 0)
    words.insert(words.end(), {"--gpus-per-node", std::to_string(gpus), "--ppn", std::to_string(job.tasks_per_node)});
}

/// Failing nodes are listed in the job's output, and nothing is started.
std::string preflight_part(const BatchJob& job) {
  if (!job.preflight && job.health.empty()) return "";
  std::vector<std::string> words = {job.program, "launch", "--slurm", "--starter", "srun", "--preflight-only"};
  add_gpus(words, job);
  if (!job.health.empty()) words.insert(words.end(), {"--health", job.health});
  words.push_back("--");
  words.insert(words.end(), job.command.begin(), job.command.end());
  return shell_join(words) + " || exit\n";
}

/// Tests for a stop by `trireme stop`, after which the job must not be requeued.
std::string stays_stopped_test(const BatchJob& job) {
  if (job.run_folder.empty()) return "";
  return fmt::format(" && ! grep -qs '{}' {}", kStaysStopped, shell_quote(job.run_folder + "/status.json"));
}

bool may_restart(const BatchJob& job) { return job.requeue && !job.run_folder.empty(); }

/// Counts requeues by Slurm itself, and ends a job that lost nodes or ranks too often.
std::string restarts_part(const BatchJob& job) {
  if (!may_restart(job)) return "";
  const std::string folder = shell_quote(job.run_folder);
  return fmt::format(
      "# Why this job was requeued, one line each time: 75 after a stop, 76 after a lost rank, node after a node that "
      "Slurm lost.\n"
      "restarts={0}/slurm-\"$SLURM_JOB_ID\".restarts\n"
      "if [ \"${{SLURM_RESTART_COUNT:-0}}\" != 0 ]; then\n"
      "  mkdir -p {0}\n"
      "  while [ \"$(cat \"$restarts\" 2>/dev/null | wc -l)\" -lt \"$SLURM_RESTART_COUNT\" ]; do echo node "
      ">>\"$restarts\" || "
      "break; done\n"
      "fi\n"
      "losses=$(grep -cvx 75 \"$restarts\" 2>/dev/null)\n"
      "losses=${{losses:-0}}\n"
      "if [ \"$losses\" -gt {1} ]; then\n"
      "  echo \"trireme: job $SLURM_JOB_ID lost ranks or nodes $losses times, more than the {1} of --max-restarts; "
      "nothing is started\" >&2\n"
      "  exit 76\n"
      "elif [ \"$losses\" -gt 0 ]; then\n"
      "  echo \"trireme: restart $losses of {1} after a lost rank or node, on $SLURM_JOB_NODELIST\" >&2\n"
      "  sinfo -h -R -o 'trireme: Slurm leaves out %N (%t): %E' >&2\n"
      "fi\n",
      folder, job.max_restarts);
}

std::string after_a_loss(const BatchJob& job) {
  if (!may_restart(job)) return "";
  return fmt::format(
      "[ \"$code\" != 75 ] || echo 75 >>\"$restarts\"\n"
      "if {{ [ \"$code\" = 76 ] || [ \"$code\" -gt 128 ]; }} && [ \"$losses\" -lt {} ]; then\n"
      "  pause=$((losses < 6 ? 1 << losses : 60))\n"
      "  echo \"trireme: code $code: requeueing job $SLURM_JOB_ID in $pause s\" >&2\n"
      "  echo \"$code\" >>\"$restarts\"\n"
      "  sleep \"$pause\"; scontrol requeue \"$SLURM_JOB_ID\" && sleep 60\n"
      "fi\n",
      job.max_restarts);
}

/// Each rank has its own container, and so its own user namespace: the kernel refuses them each other's memory, and
/// PMIx's shared-memory store is not mounted.
constexpr std::string_view kContainerVariables =
    "export OMPI_MCA_btl_vader_single_copy_mechanism=none PMIX_MCA_gds=hash PMIX_MCA_psec=none\n";

std::string srun_part(const BatchJob& job) {
  std::vector<std::string> words = {"srun", "--mpi=" + job.mpi, "--label", "--kill-on-bad-exit=1",
                                    "--cpu-bind=" + (job.cpu_bind.empty() ? std::string("none") : job.cpu_bind)};
  if (job.cpus_per_task > 0) words.push_back(fmt::format("--cpus-per-task={}", job.cpus_per_task));
  if (!job.container.empty()) {
    words.push_back("--container-image=" + job.container);
    words.push_back("--container-mounts=" +
                    (job.container_mounts.empty() ? job.folder + ":" + job.folder : job.container_mounts));
    words.push_back("--container-workdir=" + job.folder);
  }
  words.push_back(job.container.empty() ? job.program : "trireme");
  words.insert(words.end(), job.command.begin(), job.command.end());
  std::string text = restarts_part(job) + preflight_part(job) +
                     std::string(job.container.empty() ? std::string_view() : kContainerVariables) + shell_join(words) +
                     "\ncode=$?\n";
  if (job.requeue) {
    text += after_a_loss(job);
    text +=
        "# 75: all ranks stopped after the same step with a snapshot; Slurm starts the job again two minutes later, "
        "and it resumes.\n"
        "# Except after `trireme stop`.\n"
        "# Slurm ends this script after it has requeued the job: exiting before that would end the job.\n"
        "if [ \"$code\" = 75 ]" +
        stays_stopped_test(job) + "; then scontrol requeue \"$SLURM_JOB_ID\" && sleep 60; fi\n";
  }
  return text + "exit \"$code\"\n";
}

std::string launch_part(const BatchJob& job) {
  std::vector<std::string> words = {"exec", job.program, "launch", "--starter", "auto"};
  add_gpus(words, job);
  if (job.requeue) words.push_back("--requeue");
  if (may_restart(job)) words.insert(words.end(), {"--max-requeues", std::to_string(job.max_restarts)});
  if (!job.health.empty()) words.insert(words.end(), {"--health", job.health});
  words.push_back("--");
  words.insert(words.end(), job.command.begin(), job.command.end());
  return restarts_part(job) + shell_join(words) + "\n";
}

}  // namespace

int gpus_of(const BatchJob& job) {
  require(job.gpus_per_node.empty() || job.gres.empty() || gpus_of_gres(job.gres) == 0, ErrorKind::usage,
          "--gpus-per-node {} and --gres {} both request GPUs; remove one", job.gpus_per_node, job.gres);
  require(
      job.gres.empty() ||
          matches(job.gres, "^[A-Za-z0-9_./-]+(:[A-Za-z0-9_./-]+){0,2}(,[A-Za-z0-9_./-]+(:[A-Za-z0-9_./-]+){0,2})*$"),
      ErrorKind::usage, "--gres \"{}\": expected NAME[:TYPE]:NUMBER, such as gpu:8 or gpu:a100:8", job.gres);
  std::istringstream parts(job.gres);
  for (std::string part; std::getline(parts, part, ',');) {
    const bool of_gpus =
        part == "gpu" || part.starts_with("gpu:") || part.starts_with("gres:gpu") || part.starts_with("gres/gpu");
    require(!of_gpus || matches(part, "^gpu(:[A-Za-z][A-Za-z0-9_.-]*)?(:[1-9][0-9]{0,3})?$"), ErrorKind::usage,
            "--gres \"{}\": expected gpu[:TYPE][:NUMBER] with a number of at least 1, such as gpu:8 or gpu:a100:8",
            part);
  }
  if (!job.gres.empty() && job.gpus_per_node.empty()) return static_cast<int>(gpus_of_gres(job.gres));
  if (job.gpus_per_node.empty()) return 0;
  require(matches(job.gpus_per_node, "^([A-Za-z][A-Za-z0-9_.-]*:)?[1-9][0-9]{0,3}$"), ErrorKind::usage,
          "--gpus-per-node \"{}\": expected a number of at least 1, or TYPE:NUMBER such as a100:8", job.gpus_per_node);
  return static_cast<int>(gpus_of_gres("gpu:" + job.gpus_per_node));
}

int64_t gpus_of_gres(const std::string& gres) {
  int64_t count = 0;
  std::istringstream parts(gres);
  for (std::string part; std::getline(parts, part, ',');) {
    part = part.substr(0, part.find('('));
    if (part == "gpu") count += 1;
    if (part.starts_with("gpu:")) count += std::max<int64_t>(1, std::atoll(part.c_str() + part.rfind(':') + 1));
  }
  return count;
}

int64_t slurm_seconds(const std::string& time) {
  require(matches(time, "^([0-9]{1,6}-)?[0-9]{1,7}(:[0-9]{1,2}){0,2}$"), ErrorKind::usage,
          "--time \"{}\": expected minutes, hours:minutes:seconds or days-hours:minutes:seconds", time);
  const size_t dash = time.find('-');
  std::vector<int64_t> parts;
  std::istringstream rest(dash == std::string::npos ? time : time.substr(dash + 1));
  for (std::string part; std::getline(rest, part, ':');) parts.push_back(std::stoll(part));
  if (dash != std::string::npos) {  // hours come first
    parts.resize(3, 0);
    return ((std::stoll(time.substr(0, dash)) * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2];
  }
  if (parts.size() == 3) return (parts[0] * 60 + parts[1]) * 60 + parts[2];
  return parts[0] * 60 + (parts.size() == 2 ? parts[1] : 0);
}

std::string batch_script(const BatchJob& job) {
  check(job);
  std::string text = "#!/bin/bash\n";
  add_directives(text, job);
  text += "\n";
  for (const std::string& variable : job.variables) {
    const size_t equals = variable.find('=');
    require(equals != std::string::npos && matches(variable.substr(0, equals), "^[A-Za-z_][A-Za-z0-9_]*$"),
            ErrorKind::usage, "--env {}: expected NAME=VALUE", variable);
    text += fmt::format("export {}={}\n", variable.substr(0, equals), shell_quote(variable.substr(equals + 1)));
  }
  return text + (job.starter == "srun" ? srun_part(job) : launch_part(job));
}

}  // namespace trireme
