// trireme slurm: writes a batch script for a command, and submits it with --submit.

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/cluster/launch.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cluster/sbatch.h"
#include "cluster/subprocess.h"

namespace trireme {
namespace {

int submit(const std::string& script) {
  ProcessRequest request;
  request.arguments = {"sbatch", "--parsable"};
  request.input = script;
  const ProcessResult result = run_process(request);
  require(result.exit_code == 0 && !result.timed_out, ErrorKind::io, "sbatch {}: {}", describe_end(result),
          result.err.substr(0, result.err.find('\n')));
  fmt::print("{}", result.out);
  return 0;
}

/// Checks the command as launch would, before a job waits hours in the queue. Returns the folder that shows a final
/// stop.
std::string check_command(const std::vector<std::string>& command) {
  require_command(command);
  LaunchRequest request;
  request.command = command;
  return describe_job(request).stop_folder;
}

ProcessResult ask(std::vector<std::string> words, const std::string& input = "") {
  return run_process({.arguments = std::move(words), .input = input, .variables = {}, .user = ""});
}

/// Without Slurm on this host: none; sbatch will report the reason.
std::vector<PartitionNode> ask_partitions() {
  const ProcessResult asked = ask({"sinfo", "-h", "-N", "-o", kPartitionFormat});
  return asked.exit_code == 0 ? read_partitions(asked.out) : std::vector<PartitionNode>();
}

/// GPUs alone would get one core for each rank.
void take_share(BatchJob& job) {
  const GpuShare share = share_of_gpus(job, ask_partitions());
  if (share.cpus_per_task > 0) job.cpus_per_task = share.cpus_per_task;
  if (!share.memory.empty()) job.memory = share.memory;
  if (!share.said.empty()) return log::info("slurm: {}", share.said);
  if (job.cpus_per_task == 0 && !job.exclusive && job.lines.empty())
    log::warning(
        "slurm: the job asks for GPUs but not for cores and memory, and sinfo does not tell here how many a node with "
        "so "
        "many GPUs has: each rank gets one core; give --cpus-per-task and --mem, or --exclusive");
}

/// sbatch accepts jobs that their partition never starts.
void check_limits(const BatchJob& job, const std::string& script) {
  const std::vector<PartitionNode> nodes = ask_partitions();
  const std::string never = why_never(job, nodes), later = start_warning(job, nodes);
  require(never.empty(), ErrorKind::usage, "{}, so the job would wait forever; nothing was submitted", never);
  if (!later.empty()) log::warning("{}", later);
  const ProcessResult tried = ask({"sbatch", "--test-only"}, script);
  if (tried.exit_code == 0 || tried.timed_out) return;
  const std::string said = tried.err.substr(0, tried.err.find('\n'));
  log::warning("Slurm could not start the job now (sbatch --test-only: {}); submitting it anyway", said);
}

/// pyxis takes only what begins with '/' or '.' for a file, and anything else for an image of a registry.
std::string image_of_pyxis(const std::string& name) {
  const bool path = name.starts_with('/') || name.starts_with('.');
  std::error_code unknown;
  const bool exists = !name.empty() && std::filesystem::is_regular_file(name, unknown);
  if (path && !exists)
    log::warning("--container: the file {} does not exist on this host; it must be there on the job's nodes", name);
  return !path && exists ? "./" + name : name;
}

/// Slurm does not create the folder of a job's output: without it, the job fails before its first line.
void make_output_folders(const BatchJob& job) {
  for (const std::string& folder : output_folders(job)) {
    require(folder.find('%') == std::string::npos, ErrorKind::usage,
            "--output: the folder {} contains %, which Slurm replaces, but Slurm does not create folders; use % only "
            "in the file name; nothing was submitted",
            folder);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    require(!error && std::filesystem::is_directory(folder), ErrorKind::usage,
            "--output: cannot create the folder {}: {}; nothing was submitted", folder,
            error ? error.message() : "a file is in its place");
  }
}

}  // namespace

int run_slurm(CommandLine line) {
  Flags app(std::move(line), "trireme slurm", "Writes a Slurm batch script for a command of trireme.");
  app.set_footer("After -- comes the command: `trireme slurm --nodes 3 --submit -- train config.yaml`.");
  BatchJob job;
  job.program = std::filesystem::read_symlink("/proc/self/exe");
  job.folder = std::filesystem::current_path();
  bool submits = false, no_requeue = false;
  std::string write_to;
  app.takes_command(job.command);
  app.add("-J,--job-name", job.name, "name of the job").show_default();
  app.add("-p,--partition", job.partition);
  app.add("-A,--account", job.account);
  app.add("--reservation", job.reservation);
  app.add("-w,--nodelist", job.nodelist, "use these nodes: n[1-3]");
  app.add("-x,--exclude", job.exclude, "do not use these nodes");
  app.add("-q,--qos", job.qos);
  app.add("-d,--dependency", job.dependency, "as for sbatch: afterok:123");
  app.add("--mail-type", job.mail_type, "END,FAIL,...");
  app.add("--mail-user", job.mail_user);
  app.add("--sbatch", job.lines, "another option for sbatch, repeatable: --sbatch=--comment=text").one_value();
  app.add("--constraint", job.constraint, "features that the nodes must have");
  app.add("-N,--nodes", job.nodes).positive().show_default();
  app.add("--ntasks-per-node", job.tasks_per_node,
          "ranks per node; with --gpus-per-node or --gres gpu:N one per GPU unless given")
      .positive()
      .show_default();
  app.add("-c,--cpus-per-task", job.cpus_per_task,
          "cores of each rank; with GPUs the node's by the job's share of its GPUs, unless given")
      .positive();
  app.add("--gpus-per-node", job.gpus_per_node, "GPUs that the job gets on each node: 8, a100:8").not_empty();
  app.add("--gres", job.gres, "the same as generic resources, also others: gpu:8, gpu:a100:8,nvme:1").not_empty();
  app.add("-t,--time", job.time, "time limit: minutes, or [days-]hours:minutes:seconds");
  app.add("--mem", job.memory, "memory per node: 0 for all, 64G; with GPUs by the same share, unless given");
  app.add_switch("--exclusive", job.exclusive, "exclusive use of the nodes");
  app.add("-o,--output", job.output, "file of the job's output").show_default();
  app.add("--cpu-bind", job.cpu_bind, "srun's binding: cores, mask_cpu:ff,ff00; default: none, ranks bind themselves");
  app.add("--container", job.container,
          "image for pyxis and enroot, with trireme in its PATH: /shared/trireme.sqsh of `scripts/package --image`, or "
          "registry.example#trireme:0.1.0");
  app.add("--container-mounts", job.container_mounts,
          "OUTSIDE:INSIDE,... for the container (default: the current folder, at the same place)");
  app.add("--starter", job.starter, "srun, or mpirun through `trireme launch`").show_default();
  app.add("--mpi", job.mpi, "srun's plug-in: pmix for Open MPI, pmi2 for MPICH").show_default();
  app.add("--warn", job.warning_seconds, "seconds before the time limit at which ranks save and stop")
      .positive()
      .show_default();
  app.add_switch("--no-requeue", no_requeue, "never requeue the job, neither after such a stop nor after a lost rank");
  app.add("--max-restarts", job.max_restarts, "requeue the job up to N times after a lost rank or node")
      .not_negative()
      .show_default();
  app.add_switch("--preflight", job.preflight, "let `trireme launch` check the nodes before the ranks start");
  app.add("--health", job.health,
          "NHC configuration file that every node must pass first; also checks the nodes as --preflight does")
      .not_empty();
  app.add("--env", job.variables, "NAME=VALUE for the job, repeatable").one_value();
  app.add("--write", write_to, "write the script to this file instead of printing it").output_file();
  app.add_switch("--submit", submits, "submit it with sbatch and print the job id");
  if (const auto code = app.parse()) return *code;
  const int gpus = gpus_of(job);
  if (gpus > 0 && app.count("--ntasks-per-node") == 0) job.tasks_per_node = gpus;
  require(gpus == 0 || job.tasks_per_node <= gpus, ErrorKind::usage,
          "--ntasks-per-node {0} starts more ranks on a node than the {1} of {2}, and each rank computes on one of its "
          "own; lower it to {3}, or leave out {4} for ranks on CPUs",
          job.tasks_per_node, count_text(gpus, "GPU"),
          job.gres.empty() ? "--gpus-per-node " + job.gpus_per_node : "--gres " + job.gres, gpus,
          job.gres.empty() ? "--gpus-per-node" : "--gres");
  if (gpus > 0) take_share(job);
  job.requeue = !no_requeue;
  job.container = image_of_pyxis(job.container);
  if (!job.command.empty()) job.run_folder = check_command(job.command);
  const std::string script = batch_script(job);
  if (submits) {
    check_limits(job, script);
    make_output_folders(job);
  }
  if (!write_to.empty()) write_text(write_to, script);
  if (submits) return submit(script);
  if (write_to.empty()) fmt::print("{}", script);
  return 0;
}

}  // namespace trireme
