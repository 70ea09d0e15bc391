#pragma once
// Output of all ranks, line by line, prefixed with host and rank. Records of ranks are removed.

#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "cluster/launch/starter.h"
#include "comm/rank_record.h"

namespace trireme::launch {

struct TaggedLine {
  int rank = -1;  ///< negative: a line of the starter
  std::string_view text;
};

/// Removes the starter's tag: "[1,3]<stdout>:" of Open MPI (since 5 followed by a blank), "[3]" of Hydra
/// (-prepend-pattern "[%r]"), "3: " of srun (--label, padded).
TaggedLine read_tag(StarterKind kind, std::string_view line);

/// One file per rank with its lines as they come; lines of an earlier attempt stay.
class RankLogs {
 public:
  /// Empty: writes nothing. Creates the folder. Throws Error::usage if it cannot be created or written.
  explicit RankLogs(std::string folder);
  /// Throws Error::io if the file cannot be opened.
  void add(int rank, std::string_view text);
  /// Lines of the starter, for starter.log.
  void add_starter(std::string_view text);

 private:
  void write(const std::string& name, std::string_view text);

  std::string folder_;
  std::map<std::string, std::ofstream> files_;
};

/// Collects bytes into lines; returns "host[rank] text" lines, and lines of the starter as "mpirun: text".
class OutputPrefixer {
 public:
  /// with_times: every line begins with the time, in the files, too. foreign_program: the ranks may run another program
  /// than trireme, so their lines are searched for errors, too.
  OutputPrefixer(StarterKind kind, const std::vector<Placement>& placement, RankLogs& logs, bool with_times = false,
                 bool foreign_program = false)
      : kind_(kind), placement_(placement), logs_(logs), with_times_(with_times), foreign_program_(foreign_program) {}
  /// The lines that these bytes complete, prefixed. Open MPI's mpirun passes on parts of lines, with a tag before and
  /// no line end after them; such parts are joined again.
  std::string take(std::string_view bytes);
  /// The rest without a line end, after the stream has closed.
  std::string flush();
  /// The line of the first error that a rank has reported (comm/rank_record.h), prefixed; of a foreign program the
  /// first line with "error: ".
  const std::optional<std::string>& first_error() const { return first_error_; }
  /// What the ranks first reported as lost, a connection before a rank (comm/rank_record.h), or the first rank of a
  /// host whose daemon mpirun lost.
  const std::optional<RankRecord>& lost() const { return lost_; }
  /// Ranks that reported reaching MPI_Init.
  const std::set<int>& arrived() const { return arrived_; }
  /// The box of Open MPI's mpirun about a rank that ended with a code other than 0. Not shown at once, because a normal
  /// stop ends like this, too.
  const std::string& verdict() const { return verdict_; }
  /// Whether Open MPI's mpirun or Hydra reported that the command cannot be started on a host.
  bool not_started() const { return not_started_; }
  /// Whether any rank has had output.
  bool has_output() const { return has_output_; }
  /// One line about a hostfile or host names that the starter refused; empty: none.
  const std::string& refusal() const { return refusal_; }
  /// Call traces and internal codes of the starter. Not shown at once: they do not help if the cause is known.
  const std::string& traces() const { return traces_; }

 private:
  std::string prefixed(std::string_view line);
  std::string parts_of_ranks(std::string_view text, bool ends);
  std::string of_rank(int rank, std::string_view line);
  std::string shown(int rank, std::string_view line) const;
  void note_error(int rank, std::string_view line);
  void take_record(int rank, const RankRecord& record);
  std::string starter_line(std::string_view line);
  std::string end_of_box();
  std::string stamp() const;

  StarterKind kind_;
  const std::vector<Placement>& placement_;
  RankLogs& logs_;
  bool with_times_, foreign_program_;
  std::string open_, box_, verdict_, refusal_, traces_;
  std::map<int, std::string> begun_;  ///< Open MPI: incomplete lines of ranks
  int continues_ = -1;                ///< the rank of the next bytes if they begin without a tag
  bool not_started_ = false, has_output_ = false;
  std::optional<std::string> first_error_;
  std::optional<RankRecord> lost_;
  std::set<int> arrived_;
};

}  // namespace trireme::launch
