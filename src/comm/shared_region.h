#pragma once
// Memory shared by the ranks of one host, so that the others read a rank's data in place. It has no synchronization: a
// message of the group announces that data is ready.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"

namespace trireme {

class SharedRegion {
 public:
  /// `bytes` from every rank, the same number on each, zeroed and page-aligned. Collective. Empty on every rank if one
  /// of them cannot map another's: ranks on several hosts, or in containers that hide processes from each other. Leaves
  /// nothing behind, however a rank ends: it has no name in a file system.
  static std::optional<SharedRegion> make(Communicator& group, size_t bytes);

  SharedRegion(SharedRegion&& other) noexcept = default;
  SharedRegion& operator=(SharedRegion&&) = delete;
  ~SharedRegion();

  /// The memory of rank `rank`. A writer announces data by a message and overwrites it only after the readers'
  /// messages.
  std::span<std::byte> of(int rank) const { return parts_[static_cast<size_t>(rank)]; }

 private:
  explicit SharedRegion(size_t ranks) : parts_(ranks) {}
  std::vector<std::span<std::byte>> parts_;
};

}  // namespace trireme
