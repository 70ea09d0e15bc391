#pragma once
// The program that starts the ranks, and the command given to it.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/hosts.h"
#include "cluster/slurm_nodes.h"

namespace trireme::launch {

enum class StarterKind {
  open_mpi,  ///< mpirun of Open MPI up to 4
  prrte,     ///< mpirun of Open MPI 5 and later: another program under the old name
  hydra,
  srun
};

struct Starter {
  StarterKind kind = StarterKind::open_mpi;
  std::string path;     ///< of the program
  std::string version;  ///< one line of its output
  std::string why;      ///< "Open MPI is installed here"
};

struct StarterRequest {
  std::string wanted = "auto";  ///< auto, openmpi, hydra, srun
  std::string program;          ///< --mpirun: this file, of any family
  std::string mpi;              ///< what ranks could open: openmpi, mpich, any, off
  bool in_slurm_job = false;
};

/// Finds a starter of an MPI that ranks can open: inside a Slurm job srun, if it has PMIx (Open MPI) or PMI-2
/// (MPICH); otherwise mpirun. Throws Error::config if there is no MPI, no starter is found (naming what to
/// install), or the requested one belongs to the wrong family.
Starter find_starter(const StarterRequest& request);

/// Family of an mpirun by the first lines of `mpirun --version`. Throws Error::config for another program.
StarterKind mpirun_family(std::string_view version_text, const std::string& program);

struct StartRequest {
  std::vector<Placement> placement;
  std::vector<std::string> command;                            ///< what each rank runs
  std::vector<std::pair<std::string, std::string>> variables;  ///< for every rank
  std::vector<std::pair<std::string, std::string>> secrets;    ///< passed by name, never on a command line
  std::string this_host;           ///< this host in the placement, if the starter refuses that name; otherwise empty
  std::string hostfile;            ///< path of the file for the starter
  std::vector<std::string> agent;  ///< the remote shell and its options, at this path on every host (Open MPI)
  std::string agent_script;        ///< a script on this host that runs it (Hydra accepts no options)
  std::string network;             ///< "10.0.0.0/24" or an interface; empty: the starter's choice
  bool ipv6 = false;               ///< the network has no IPv4; `network` is then an interface
  bool tcp_only = false;           ///< no usable InfiniBand on every host
  bool inherit_binding = false;
  bool as_root = false;
};

struct StartCommand {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> environment;  ///< of the starter itself
  std::string hostfile_text;                                     ///< for StartRequest::hostfile
};

/// Pure. Ranks fill the placement's hosts in order, so rank r runs on host_of_rank(r).
StartCommand start_command(const Starter& starter, const StartRequest& request);
const std::string& host_of_rank(const std::vector<Placement>& placement, int rank);
/// Nullopt: no rank is placed on this host.
std::optional<int> first_rank_on(const std::vector<Placement>& placement, const std::string& host);

}  // namespace trireme::launch
