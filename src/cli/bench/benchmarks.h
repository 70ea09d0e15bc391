#pragma once
// The benchmarks of `trireme bench`, each with the arguments after its name. Each returns the exit code.

#include "cli/flags.h"
#include "tensor/device.h"

namespace trireme {

/// Declares --device of a benchmark that measures a CPU or a GPU.
inline void add_device(Flags& app, DeviceChoice& device) {
  app.choice(
      "--device", device,
      "what is measured: auto: a GPU if one can be used, else the CPU; cpu; cuda (docs/gpu.md). A GPU's own clock "
      "times its work");
}

int bench_comm_command(CommandLine line);
int bench_glue_command(CommandLine line);
int bench_sft_command(CommandLine line);
int bench_node_command(CommandLine line);
/// Compares the planner's step times with measured runs.
int bench_plan_command(CommandLine line);
int bench_step_command(CommandLine line);
/// MB/s of encoding, or of training a vocabulary, also with other libraries in the same run.
int bench_tokenize_command(CommandLine line);

}  // namespace trireme
