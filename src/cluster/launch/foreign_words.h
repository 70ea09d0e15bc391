#pragma once
// The words of mpirun, srun and of programs that are not trireme, wherever the launch has to understand them because
// they offer nothing else: no code, no file. Seen with Open MPI 4.1.4 and 5.0 (PRRTE 3.0) and with MPICH 4.0.2's Hydra.
// Nothing here reads what trireme itself writes: ranks tell the launch by records (comm/rank_record.h).

#include <string>
#include <string_view>

namespace trireme::launch {

/// What a box of Open MPI's mpirun means: text between two lines of hyphens.
struct BoxMeaning {
  bool not_started = false;  ///< a host cannot start the command
  bool trace = false;        ///< of its own sources: of no use where a cause is told
  bool verdict = false;      ///< a rank ended with another code than 0
  std::string refusal;       ///< it does not take its hostfile or a host's name, in one line; else empty
  std::string lost_host;     ///< its daemon on this host was lost, after which it ends all ranks; else empty
};
BoxMeaning meaning_of_box(const std::string& box);

/// "[h2:123] [[1,0],0] ORTE_ERROR_LOG: ...", "[h2:123] [ 3] /lib/libx.so(f+0x1)[0x2]": of a process of the starter, by
/// its host and number, and with a mark of its sources.
bool is_starter_trace(std::string_view line);

/// Hydra's words, under the tag of a rank, about a command that it cannot start.
bool is_hydra_start_failure(std::string_view line);

/// A line by which a program that is not trireme tells of an error, as most do.
bool is_foreign_error(std::string_view line);

}  // namespace trireme::launch
