#pragma once
// Where the hosts of a job are told: a hostfile, a flag, sinfo, or the Slurm job around us.

#include <string>
#include <vector>

#include "cluster/hosts.h"
#include "cluster/slurm_nodes.h"

namespace trireme {

struct HostRequest {
  std::string hostfile;                        ///< path
  std::string hosts;                           ///< parse_host_argument()
  std::string sinfo;                           ///< path of recorded output, "-" for standard input, "run" to run sinfo
  bool slurm = false;                          ///< the job that SLURM_JOB_NODELIST describes
  std::string partition;                       ///< with sinfo
  std::string states = "idle";                 ///< with sinfo: nodes in these states are offered: "idle,mix", "all"
  std::string job_hostfile = "/job/hostfile";  ///< where DeepSpeed looks when nobody names a hostfile
  bool may_all_be_out = false;  ///< with sinfo: no usable node is no error, the caller looks at HostSet::skipped
  std::string include, exclude;
  int num_nodes = 0;  ///< the first N that are left; 0: all
};

struct HostSet {
  std::vector<Host> hosts;
  std::vector<Host> skipped;  ///< told by sinfo, not usable
  std::string source;         ///< "hostfile hosts.txt (3 hosts)", for the announcement
};

/// At most one source may be told; with none it is the job of Slurm, PBS (PBS_NODEFILE) or LSF (LSB_DJOB_HOSTFILE,
/// LSB_MCPU_HOSTS, LSB_HOSTS) around us if there is one, else the hostfile that DLTS_HOSTFILE names (an error where it
/// is missing), else job_hostfile, else this host alone.
/// Throws Error::usage for several sources, Error::config when fewer than num_nodes hosts are left, and whatever
/// reading the source throws.
HostSet resolve_hosts(const HostRequest& request, const EnvironmentReader& environment);

}  // namespace trireme
