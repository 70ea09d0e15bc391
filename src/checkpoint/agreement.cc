#include "checkpoint/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace trireme {

void agree_on_success(Communicator& group, const std::string& failure) {
  constexpr int64_t kMaxText = 2048;
  int32_t first = failure.empty() ? group.size() : group.rank();
  group.all_reduce(View(std::span(&first, 1), {1}), Reduction::min).wait("agreement on a checkpoint");
  if (first == group.size()) return;
  std::array<uint8_t, kMaxText> text{};
  if (first == group.rank()) std::memcpy(text.data(), failure.data(), std::min<size_t>(failure.size(), kMaxText - 1));
  group.broadcast(View(std::span(text.data(), text.size()), {kMaxText}), first).wait("reason of a failed checkpoint");
  const char* reason = reinterpret_cast<const char*>(text.data());
  if (group.size() == 1) fail(ErrorKind::io, "{}", reason);
  fail(ErrorKind::io, "rank {}: {}", first, reason);
}

}  // namespace trireme
