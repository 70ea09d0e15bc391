#include "checkpoint/agreement.h"

#include "base/error.h"
#include "comm/scalars.h"

namespace trireme {

void agree_on_success(Communicator& group, const std::string& failure) {
  const std::vector<std::string> failures = Scalars(group).gather(failure);
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    if (failures.size() == 1) fail(ErrorKind::io, "{}", failures[rank]);
    fail(ErrorKind::io, "rank {}: {}", rank, failures[rank]);
  }
}

}  // namespace trireme
