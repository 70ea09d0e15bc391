#include "cli/command.h"

namespace trireme {
namespace {

constexpr Command kCommands[] = {
    {"fetch", "bring a model or a data set from the Hugging Face hub", run_fetch},
    {"tokenizer", "train a tokenizer, encode and decode text", run_tokenizer, true},
    {"prepare", "turn text into token files", run_prepare},
    {"data", "check, show, join and order token files", run_data, true},
    {"train", "train a model, or go on with a run", run_train, false, true},
    {"glue", "fine-tune an encoder on a GLUE task or on rows of your own", run_glue, false, true},
    {"sample", "continue a prompt with a trained model", run_sample, true, true},
    {"export", "write a checkpoint as a folder that Hugging Face transformers loads", run_export},
    {"parity", "compare a model folder's logits and gradients with another framework's", run_parity, true, true},
    {"checkpoint", "list, show, verify or prune the checkpoints of a run", run_checkpoint, true},
    {"status", "say how the job of a run folder is doing, or how it ended", run_status, true},
    {"stop", "let the job of a run folder save a snapshot and stop", run_stop},
    {"attach", "follow the log of the job of a run folder", run_attach},
    {"report", "write one HTML page about a run", run_report},
    {"config", "print the configuration that files and flags give, or the list of options", run_config, true},
    {"bench", "measure this machine", run_bench, true, true},
    {"launch", "start a command on many hosts through mpirun or srun", run_launch},
    {"slurm", "write or submit a Slurm batch script for a command", run_slurm, true},
    {"hosts", "read, convert and filter host lists", run_hosts, true},
    {"health", "check this node, or the nodes of a hostfile, by a configuration file of NHC", run_health},
    {"cluster", "make, show, change and end a cluster of machines by one file", run_cluster},
    {"remote-shell", "what mpirun calls in place of ssh; launch uses it", run_remote_shell_command},
    {"node-agent", "answers questions of launch about a host", run_node_agent},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace trireme
