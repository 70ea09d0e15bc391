#pragma once
// Records of a rank for the `trireme launch` that started it, each on its own line of standard error. The launch reads
// them and does not print them, so that the program does not depend on the wording of messages.

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct RankRecord {
  enum class Kind {
    arrived,  ///< the rank has reached MPI's start
    error,    ///< the rank has printed an error; text: its line
    lost,     ///< the job ends because of a rank: rank (none: nobody can be blamed), host; other: the rank to which it
              ///< has no connection, if that is what is lost; text: how it was noticed
  } kind = Kind::arrived;
  int rank = -1;
  std::string host = {};
  std::string text = {};
  int other = -1;
  bool operator==(const RankRecord&) const = default;
};

/// Without a line end; long texts are truncated, so that the line is written atomically (PIPE_BUF).
std::string to_line(const RankRecord& record);
/// Empty for a line that is not a record.
std::optional<RankRecord> record_in(std::string_view line);

/// Writes the record if a launch reads it (kLaunchIdVariable is set). From any thread.
void tell_launch(const RankRecord& record);
/// From now on the launch gets a record of each error in the log.
void tell_launch_errors();

}  // namespace trireme
