#pragma once
// The source of a job's hosts: a hostfile, a flag, sinfo, or the current Slurm job.

#include <string>
#include <vector>

#include "cluster/hosts.h"
#include "cluster/slurm_nodes.h"

namespace trireme {

struct HostRequest {
  std::string hostfile;                        ///< path
  std::string hosts;                           ///< parse_host_argument()
  std::string sinfo;                           ///< path of saved output, "-" for standard input, "run" to run sinfo
  bool slurm = false;                          ///< the job of SLURM_JOB_NODELIST
  std::string partition;                       ///< with sinfo
  std::string states = "idle";                 ///< with sinfo: usable states: "idle,mix", "all"
  std::string job_hostfile = "/job/hostfile";  ///< DeepSpeed's default hostfile
  bool may_all_be_out = false;  ///< with sinfo: allow that no node is usable; the caller checks HostSet::skipped
  std::string include, exclude;
  int num_nodes = 0;  ///< the first N of the remaining hosts; 0: all
};

struct HostSet {
  std::vector<Host> hosts;
  std::vector<Host> skipped;  ///< from sinfo, not usable
  std::string source;         ///< "hostfile hosts.txt (3 hosts)", for the log
};

/// At most one source may be set; without one it is the current job of Slurm, PBS (PBS_NODEFILE) or LSF
/// (LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS, LSB_HOSTS) if there is one, else the hostfile of DLTS_HOSTFILE (an error if it
/// is missing), else job_hostfile, else only this host. Throws Error::usage for several sources, Error::config if fewer
/// than num_nodes hosts are left, and what reading the source throws.
HostSet resolve_hosts(const HostRequest& request, const EnvironmentReader& environment);

}  // namespace trireme
