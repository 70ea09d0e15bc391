#pragma once
// Hostfiles of the MPI libraries and of DeepSpeed, read as one grammar and written in each one's own form.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/hosts.h"

namespace trireme {

/// What a host that is listed again means: a mistake, or one more process (as in PBS_NODEFILE).
enum class Repeats { are_errors, are_slots };

/// One host per line: "host", "host:N" (Intel MPI, Hydra), "host slots=N [max_slots=M | max-slots=M] [port=P] [user=U]"
/// (Open MPI with its other words for them, such as cpu=N; DeepSpeed); what chooses a network or cores for one host is
/// refused with what to give instead; the host may be a host list expression, whose hosts get N each. "#" starts a
/// comment; blank lines, CRLF, a byte order mark and a missing last line end are fine. Throws Error::config with
/// "source:line:" for anything else, a host listed twice (unless repeats are slots), slots below 1, max_slots below
/// slots, and for a file without hosts.
std::vector<Host> parse_hostfile(std::string_view text, const std::string& source,
                                 Repeats repeats = Repeats::are_errors);

/// Reads and parses. A file that is missing is an error, never a run on this host alone. Throws Error::config, or
/// Error::io when it cannot be read.
std::vector<Host> read_hostfile(const std::string& path, Repeats repeats = Repeats::are_errors);

enum class HostfileForm { list, intel, open_mpi, deepspeed, slurm };

/// "list" one name per line, "intel" host:N, "openmpi" and "deepspeed" host slots=N, "slurm" one host list expression.
/// Throws Error::usage for another name.
HostfileForm hostfile_form(std::string_view name);

/// Hosts without a told slot count get 1 where the form needs one. Ends with a line end.
std::string format_hostfile(std::span<const Host> hosts, HostfileForm form);

}  // namespace trireme
