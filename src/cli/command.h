#pragma once
// A subcommand: its name, one line of help, and what it does. One file per subcommand; commands.cc lists them.

#include <span>
#include <string>
#include <vector>

#include "cli/command_shape.h"

namespace trireme {

struct Command {
  const char* name;
  const char* help;
  /// Arguments after the name. Returns the exit code; throws Error for everything that goes wrong.
  int (*run)(std::vector<std::string> arguments);
  bool prints_result = false;         ///< its output is its result: if that cannot be written, the command fails
  bool computes = false;              ///< uses a team of threads
  CommandShape (*shape)() = nullptr;  ///< its flags, if its parser is not one Flags
  bool internal = false;              ///< only programs call it
};

std::span<const Command> commands();
/// For a message about an unknown command: "; nearest is \"train\"", or the command that replaces another program of
/// this name; empty if there is none.
std::string meant_command(const std::string& word);

int run_train(std::vector<std::string> arguments);
int run_sample(std::vector<std::string> arguments);
int run_export(std::vector<std::string> arguments);
int run_checkpoint(std::vector<std::string> arguments);
int run_prepare(std::vector<std::string> arguments);
int run_data(std::vector<std::string> arguments);
int run_tokenizer(std::vector<std::string> arguments);
int run_config(std::vector<std::string> arguments);
int run_plan(std::vector<std::string> arguments);
int run_bench(std::vector<std::string> arguments);
int run_report(std::vector<std::string> arguments);
int run_hosts(std::vector<std::string> arguments);
int run_status(std::vector<std::string> arguments);
int run_stop(std::vector<std::string> arguments);
int run_attach(std::vector<std::string> arguments);
int run_health(std::vector<std::string> arguments);
int run_launch(std::vector<std::string> arguments);
int run_slurm(std::vector<std::string> arguments);
int run_remote_shell_command(std::vector<std::string> arguments);
int run_node_agent(std::vector<std::string> arguments);
int run_agent(std::vector<std::string> arguments);
int run_parity(std::vector<std::string> arguments);
int run_fetch(std::vector<std::string> arguments);
int run_device(std::vector<std::string> arguments);
int run_cluster(std::vector<std::string> arguments);
int run_glue(std::vector<std::string> arguments);
int run_sft(std::vector<std::string> arguments);
int run_dpo(std::vector<std::string> arguments);
int run_completion(std::vector<std::string> arguments);
int run_manual(std::vector<std::string> arguments);

CommandShape train_shape();
CommandShape config_shape();
CommandShape plan_shape();
CommandShape bench_shape();
CommandShape device_shape();
CommandShape glue_shape();
CommandShape sft_shape();
CommandShape dpo_shape();

}  // namespace trireme
