#pragma once
// A subcommand: its name, one line of help, and what it does. One file per subcommand; commands.cc lists them.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/command_shape.h"

namespace trireme {

class Recipe;

struct Command {
  const char* name;
  const char* help;
  /// Declares its flags on a Flags, which reads the words. Returns the exit code; throws Error for everything that goes
  /// wrong.
  int (*run)(CommandLine line);
  bool prints_result = false;  ///< its output is its result: if that cannot be written, the command fails
  bool computes = false;       ///< uses a team of threads
  bool internal = false;       ///< only programs call it
};

std::span<const Command> commands();
/// For a message about an unknown command: "; nearest is \"train\"", or the command that replaces another program of
/// this name; empty if there is none.
std::string meant_command(const std::string& word);

int run_train(CommandLine line);
int run_sample(CommandLine line);
int run_export(CommandLine line);
int run_checkpoint(CommandLine line);
int run_prepare(CommandLine line);
int run_data(CommandLine line);
int run_tokenizer(CommandLine line);
int run_config(CommandLine line);
int run_plan(CommandLine line);
int run_check(CommandLine line);
int run_bench(CommandLine line);
int run_report(CommandLine line);
int run_hosts(CommandLine line);
int run_status(CommandLine line);
int run_stop(CommandLine line);
int run_attach(CommandLine line);
int run_health(CommandLine line);
int run_launch(CommandLine line);
int run_slurm(CommandLine line);
int run_remote_shell_command(CommandLine line);
int run_node_agent(CommandLine line);
int run_agent(CommandLine line);
int run_parity(CommandLine line);
int run_fetch(CommandLine line);
int run_device(CommandLine line);
int run_cluster(CommandLine line);
int run_glue(CommandLine line);
int run_sft(CommandLine line);
int run_dpo(CommandLine line);
int run_completion(CommandLine line);
int run_manual(CommandLine line);
/// `trireme device check` and `trireme config wizard`, with the words after these.
int run_device_check(CommandLine line);
int config_wizard(CommandLine line);

/// A command that trains: reads its words before MPI starts, lets all ranks report errors in them together, and starts
/// the training. Returns the exit code. read throws Error::usage and the like.
int run_recipe(const std::function<std::unique_ptr<Recipe>()>& read);

}  // namespace trireme
