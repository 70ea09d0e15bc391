#pragma once
// Recognizes messages of mpirun, srun and other foreign programs where these report a fact only in words, not by a code
// or a file. Checked with Open MPI 4.1.4 and 5.0 (PRRTE 3.0) and with MPICH 4.0.2's Hydra. Messages of trireme are
// never parsed: ranks send the launch records (comm/rank_record.h).

#include <string>
#include <string_view>

namespace trireme::launch {

/// The meaning of a box of Open MPI's mpirun: text between two lines of hyphens.
struct BoxMeaning {
  bool not_started = false;  ///< a host cannot start the command
  bool trace = false;        ///< refers to its source code: not shown if the cause is known
  bool verdict = false;      ///< a rank ended with a code other than 0
  std::string refusal;       ///< one line: it refuses its hostfile or a host's name; otherwise empty
  std::string lost_host;     ///< the host whose daemon was lost, after which it ends all ranks; otherwise empty
};
BoxMeaning meaning_of_box(const std::string& box);

/// "[h2:123] [[1,0],0] ORTE_ERROR_LOG: ...", "[h2:123] [ 3] /lib/libx.so(f+0x1)[0x2]": of a process of the starter,
/// with host, number and a reference to its source code.
bool is_starter_trace(std::string_view line);

/// Hydra's message, under the tag of a rank, about a command that it cannot start.
bool is_hydra_start_failure(std::string_view line);

/// A line in which a foreign program reports an error, as most do.
bool is_foreign_error(std::string_view line);

}  // namespace trireme::launch
