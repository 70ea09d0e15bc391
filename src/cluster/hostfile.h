#pragma once
// Hostfiles of the MPI libraries and of DeepSpeed: one parser for all, and a writer for each form.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/hosts.h"

namespace trireme {

/// The meaning of a repeated host: an error, or one more process (as in PBS_NODEFILE).
enum class Repeats { are_errors, are_slots };

/// One host per line: "host", "host:N" (Intel MPI, Hydra), "host slots=N [max_slots=M | max-slots=M] [port=P] [user=U]"
/// (Open MPI with its synonyms, such as cpu=N; DeepSpeed). Settings of a network or cores for one host are refused,
/// naming the option to use instead. The host may be a host list expression, whose hosts get N each. "#" starts a
/// comment; blank lines, CRLF, a byte order mark and a missing last line end are accepted. Throws Error::config with
/// "source:line:" for anything else, a host listed twice (unless repeats are slots), slots below 1, max_slots below
/// slots, and for a file without hosts.
std::vector<Host> parse_hostfile(std::string_view text, const std::string& source,
                                 Repeats repeats = Repeats::are_errors);

/// Reads and parses a file. A missing file is an error and does not mean only this host. Throws Error::config, or
/// Error::io if it cannot be read.
std::vector<Host> read_hostfile(const std::string& path, Repeats repeats = Repeats::are_errors);

enum class HostfileForm { list, intel, open_mpi, deepspeed, slurm };

/// "list" one name per line, "intel" host:N, "openmpi" and "deepspeed" host slots=N, "slurm" one host list expression.
/// Throws Error::usage for another name.
HostfileForm hostfile_form(std::string_view name);

/// Hosts without a slot count get 1 if the form needs one. The text ends with a line end.
std::string format_hostfile(std::span<const Host> hosts, HostfileForm form);

}  // namespace trireme
