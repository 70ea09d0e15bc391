#pragma once
// Memory that the ranks of one host share, so that what one has written the others read where it lies. Only the memory:
// that something is there is told by a message of the group.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace trireme {

class SharedRegion {
 public:
  /// `bytes` from every rank, the same number on each, zeroed and page-aligned. Collective. Empty on every rank where
  /// one of them cannot map another's: ranks on several hosts, or in containers that hide processes from each other.
  /// Nothing of it is left behind, however a rank ends: it has no name in any file system.
  static std::optional<SharedRegion> make(Communicator& group, size_t bytes);

  SharedRegion(SharedRegion&& other) noexcept = default;
  SharedRegion& operator=(SharedRegion&&) = delete;
  ~SharedRegion();

  /// What rank `rank` gave. Whoever writes there tells the readers by a message, and writes again only after theirs.
  std::span<std::byte> of(int rank) const { return parts_[static_cast<size_t>(rank)]; }

 private:
  explicit SharedRegion(size_t ranks) : parts_(ranks) {}
  std::vector<std::span<std::byte>> parts_;
};

}  // namespace trireme
