#pragma once
// Output of all ranks, one line at a time, with host and rank in front. What ranks tell by records is taken out.

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
  int rank = -1;  ///< below 0: the starter's own words
  std::string_view text;
};

/// Takes the starter's tag off: "[1,3]<stdout>:" of Open MPI (since 5 with a blank behind it), "[3]" of Hydra
/// (-prepend-pattern "[%r]"), "3: " of srun
/// (--label, padded).
TaggedLine read_tag(StarterKind kind, std::string_view line);

/// One file per rank with its lines, as they come; those of an earlier attempt stay.
class RankLogs {
 public:
  /// Empty: writes nothing. Makes the folder. Throws Error::usage when it cannot be made or written.
  explicit RankLogs(std::string folder);
  /// Throws Error::io when the file cannot be opened.
  void add(int rank, std::string_view text);
  /// The starter's own words, into starter.log.
  void add_starter(std::string_view text);

 private:
  void write(const std::string& name, std::string_view text);

  std::string folder_;
  std::map<std::string, std::ofstream> files_;
};

/// Collects bytes into lines; gives "host[rank] text" lines, the starter's own words as "mpirun: text".
class OutputPrefixer {
 public:
  /// with_times: the time stands in front of every line, in the files, too. foreign_program: the ranks run a program
  /// that need not be trireme, so their lines are read for errors, too.
  OutputPrefixer(StarterKind kind, const std::vector<Placement>& placement, RankLogs& logs, bool with_times = false,
                 bool foreign_program = false)
      : kind_(kind), placement_(placement), logs_(logs), with_times_(with_times), foreign_program_(foreign_program) {}
  /// Whole lines that the bytes complete, prefixed. Open MPI's mpirun passes on what a rank has written so far, a tag
  /// in front and no line end behind; such parts are put together again.
  std::string take(std::string_view bytes);
  /// The rest without a line end, when the stream has closed.
  std::string flush();
  /// The line of the first error that a rank has told (comm/rank_record.h), prefixed; of a foreign program the first
  /// line that says "error: ".
  const std::optional<std::string>& first_error() const { return first_error_; }
  /// The rank that another one was the first to report as lost, or the first one of a host whose daemon mpirun lost.
  const std::optional<int>& lost_rank() const { return lost_rank_; }
  /// Ranks that told that they have reached MPI's start.
  const std::set<int>& arrived() const { return arrived_; }
  /// What Open MPI's mpirun says in a box about a rank that ended with another code than 0. Kept back, because a stop
  /// that went well ends so, too.
  const std::string& verdict() const { return verdict_; }
  /// Whether Open MPI's mpirun or Hydra said that the command cannot be started on a host.
  bool not_started() const { return not_started_; }
  /// Whether any rank has said anything.
  bool heard() const { return heard_; }
  /// What the starter said of a hostfile or of host names that it does not take, in one line; empty: nothing such.
  const std::string& refusal() const { return refusal_; }
  /// Call traces and codes of the starter's own sources. Kept back: they say nothing where a cause is told.
  const std::string& traces() const { return traces_; }

 private:
  std::string prefixed(std::string_view line);
  std::string parts_of_ranks(std::string_view text, bool ends);
  std::string of_rank(int rank, std::string_view line);
  std::string shown(int rank, std::string_view line) const;
  void note_error(int rank, std::string_view line);
  void take_record(int rank, const RankRecord& record);
  std::string own_words(std::string_view line);
  std::string end_of_box();
  std::string stamp() const;

  StarterKind kind_;
  const std::vector<Placement>& placement_;
  RankLogs& logs_;
  bool with_times_, foreign_program_;
  std::string open_, box_, verdict_, refusal_, traces_;
  std::map<int, std::string> begun_;  ///< of Open MPI: lines of ranks without their ends
  int continues_ = -1;                ///< whose the next bytes are where they begin without a tag
  bool not_started_ = false, heard_ = false;
  std::optional<std::string> first_error_;
  std::optional<int> lost_rank_;
  std::set<int> arrived_;
};

}  // namespace trireme::launch
