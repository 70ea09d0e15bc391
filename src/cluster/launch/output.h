#pragma once
// Output of all ranks, one line at a time, with host and rank in front.

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "cluster/launch/starter.h"

namespace trireme::launch {

struct TaggedLine {
  int rank = -1;  ///< below 0: the starter's own words
  std::string_view text;
};

/// Takes the starter's tag off: "[1,3]<stdout>:" of Open MPI, "[3]" of Hydra (-prepend-pattern "[%r]"), "3: " of srun
/// (--label, padded).
TaggedLine read_tag(StarterKind kind, std::string_view line);

/// Collects bytes into lines; gives "host[rank] text" lines, the starter's own words as "mpirun: text".
class OutputPrefixer {
 public:
  OutputPrefixer(StarterKind kind, const std::vector<Placement>& placement) : kind_(kind), placement_(placement) {}
  /// Whole lines that the bytes complete, prefixed.
  std::string take(std::string_view bytes);
  /// The rest without a line end, when the stream has closed.
  std::string flush();
  /// The first line of a rank that says "error:", prefixed.
  const std::optional<std::string>& first_error() const { return first_error_; }
  /// Ranks that said that they have come to MPI's start (comm/start_watch.h); those lines are not passed on.
  const std::set<int>& arrived() const { return arrived_; }

 private:
  std::string prefixed(std::string_view line);

  StarterKind kind_;
  const std::vector<Placement>& placement_;
  std::string open_;
  std::optional<std::string> first_error_;
  std::set<int> arrived_;
};

}  // namespace trireme::launch
