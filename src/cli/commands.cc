#include "cli/command.h"

#include <fmt/format.h>

#include "config/setting.h"

namespace trireme {
namespace {

constexpr Command kCommands[] = {
    {"fetch", "download a model or a data set from the Hugging Face hub", run_fetch},
    {"tokenizer", "train a tokenizer, encode and decode text", run_tokenizer, true},
    {"prepare", "turn text into token files", run_prepare},
    {"data", "check, show, merge and index token files", run_data, true},
    {"train", "train a model, or resume a run", run_train, false, true},
    {"glue", "fine-tune an encoder on a GLUE task or on your own rows", run_glue, false, true},
    {"sft", "fine-tune a language model on conversations", run_sft, false, true},
    {"dpo", "train a language model on pairs of answers, of which one is preferred", run_dpo, false, true},
    {"sample", "continue a prompt with a trained model", run_sample, true, true},
    {"export", "write a checkpoint as a folder that Hugging Face transformers loads", run_export},
    {"parity", "compare a model folder's logits and gradients with another framework's", run_parity, true, true},
    {"checkpoint", "list, show, verify or prune the checkpoints of a run", run_checkpoint, true},
    {"status", "show the state of the job of a run folder, or how it ended", run_status, true},
    {"stop", "make the job of a run folder save a snapshot and stop", run_stop},
    {"attach", "follow the log of the job of a run folder", run_attach},
    {"report", "write one HTML page about a run, or one that compares several", run_report},
    {"config", "print the configuration from files and flags, or the list of options", run_config, true},
    {"check", "run small pieces of your own run and compare what must be equal", run_check, true},
    {"plan", "show what a run needs and how long it takes on nodes of a type", run_plan, true},
    {"bench", "measure this machine", run_bench, true, true},
    {"launch", "start a command on many hosts through mpirun or srun", run_launch},
    {"agent", "run on a host so that launch and health reach it without ssh", run_agent},
    {"slurm", "write or submit a Slurm batch script for a command", run_slurm, true},
    {"hosts", "read, convert and filter host lists", run_hosts, true},
    {"health", "check this node, or the nodes of a hostfile, with an NHC configuration file", run_health},
    {"device", "show the GPUs of this node, or of the nodes of a hostfile, and what keeps them from use; check them",
     run_device, true, true},
    {"cluster", "create, show, change and delete a cluster of machines", run_cluster},
    {"completion", "print the completion of commands and flags for bash, zsh or fish", run_completion, true},
    {"manual", "print the manual page of a command", run_manual, true},
    {"remote-shell", "called by mpirun instead of ssh; used by launch", run_remote_shell_command, false, false, true},
    {"node-agent", "answer questions of launch about a host", run_node_agent, false, false, true},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

std::string meant_command(const std::string& word) {
  struct Other {
    const char *program, *here;
  };
  constexpr Other kOthers[] = {
      {"accelerate", "`trireme launch -f HOSTFILE -- train ...` does what `accelerate launch` does"},
      {"deepspeed", "`trireme launch -f HOSTFILE -- train ...` starts ranks on many hosts"},
      {"deepy.py", "`trireme launch -f HOSTFILE -- train CONFIG.yml...` does what deepy.py does"},
      {"torchrun", "`trireme launch -f HOSTFILE -- train ...`, or `mpirun -n N trireme train ...`, starts ranks"},
      {"mpirun", "it comes first: `mpirun -n N trireme train ...`; `trireme launch` calls it for many hosts"},
      {"mpiexec", "it comes first: `mpiexec -n N trireme train ...`; `trireme launch` calls it for many hosts"},
      {"srun", "it comes first: `srun trireme train ...`"},
      {"python", "trireme is one program without Python: `trireme train` replaces train.py"},
      {"python3", "trireme is one program without Python: `trireme train` replaces train.py"},
      {"train.py", "`trireme train` replaces it"},
      {"sample.py", "`trireme sample` replaces it"},
      {"bench.py", "`trireme bench step` replaces it"},
      {"run_glue.py", "`trireme glue` replaces it"},
      {"generate.py", "`trireme sample` replaces it"},
      {"finetune",
       "`trireme sft` fine-tunes on conversations, `trireme dpo` on preferences, `trireme glue` on a task, `trireme "
       "train --model.init MODEL` "
       "on text"},
      {"generate", "`trireme sample` generates text"},
  };
  const std::string_view name = std::string_view(word).substr(word.rfind('/') + 1);
  for (const Other& other : kOthers) {
    if (name == other.program) return fmt::format("; {}", other.here);
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string near = nearest_name(word, names);
  const bool alike =
      !near.empty() && near.substr(0, 1) == word.substr(0, 1);  // "python" is not a misspelling of "stop"
  return alike || is_misspelling_of(word, near) ? fmt::format("; nearest is \"{}\"", near) : "";
}

}  // namespace trireme
