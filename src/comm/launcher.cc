#include "comm/launcher.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace trireme {
namespace {

// Slurm's ids of the batch script, the external and the interactive step count down from the largest 32-bit number.
constexpr int64_t kFirstSpecialStep = 0xFFFFFFF0;

int64_t number(const Environment& environment, const char* variable, int64_t absent) {
  const char* text = environment(variable);
  if (!text) return absent;
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  require(error == std::errc() && stop == end && value >= 0 && value <= UINT32_MAX, ErrorKind::config,
          "the environment variable {} is \"{}\", expected a number; unset it or start with mpirun or srun", variable,
          text);
  return value;
}

bool in_slurm_step(const Environment& environment) {
  return environment("SLURM_PROCID") && number(environment, "SLURM_STEP_ID", kFirstSpecialStep) < kFirstSpecialStep;
}

/// torchrun, and programs that set its variables; with one process it does not count as a starter. Only it sets
/// LOCAL_RANK.
Launcher torch_launcher(const Environment& environment) {
  for (const char* variable : {"WORLD_SIZE", "RANK", "LOCAL_RANK"}) {
    const char* text = environment(variable);
    if (!text || *text == '\0' || std::strspn(text, "0123456789") != std::strlen(text)) return {};
  }
  const auto size = static_cast<int>(number(environment, "WORLD_SIZE", 1));
  if (size <= 1) return {};
  const auto rank = static_cast<int>(number(environment, "RANK", -1));
  return {Launcher::Kind::torch, "torchrun", "WORLD_SIZE", size, rank, 0, false};
}

}  // namespace

Launcher detect_launcher(const Environment& environment) {
  // Innermost first: mpirun may run inside a Slurm step, but not the other way round.
  struct Source {
    Launcher::Kind kind;
    const char *name, *size, *rank, *host_size;
  };
  constexpr Source kSources[] = {
      {Launcher::Kind::open_mpi, "mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {Launcher::Kind::mvapich, "mpirun of MVAPICH2", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK",
       "MV2_COMM_WORLD_LOCAL_SIZE"},
      {Launcher::Kind::pmi, "a PMI starter (mpirun of MPICH or Intel MPI, or srun)", "PMI_SIZE", "PMI_RANK",
       "MPI_LOCALNRANKS"},
  };
  const auto integer = [&](const char* variable, int64_t absent) {
    return static_cast<int>(number(environment, variable, absent));
  };
  for (const Source& source : kSources) {
    if (environment(source.size)) {
      return {source.kind,
              source.name,
              source.size,
              integer(source.size, 0),
              integer(source.rank, -1),
              integer(source.host_size, 0)};
    }
  }
  const bool pmix = environment("PMIX_RANK") != nullptr;
  if (in_slurm_step(environment)) {
    const char* size = environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    return {Launcher::Kind::slurm,
            "srun",
            size,
            integer(size, 0),
            integer("SLURM_PROCID", -1),
            integer("SLURM_STEP_NUM_NODES", 0) == 1 ? integer(size, 0) : 0,
            pmix || environment("PMI_FD") || environment("PMI_RANK")};
  }
  if (pmix) return {Launcher::Kind::pmix, "a PMIx starter", "PMIX_RANK", 0, integer("PMIX_RANK", -1)};
  return torch_launcher(environment);
}

Launcher detect_launcher() {
  return detect_launcher([](const char* name) { return std::getenv(name); });
}

int exit_after_report(ErrorKind kind) {
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return exit_code(kind);
}

}  // namespace trireme
