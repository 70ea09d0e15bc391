#pragma once
// Memory of the host that a device copies from and to by itself, and reading tensors through it.

#include <functional>
#include <mutex>

#include "tensor/device.h"

namespace trireme {

class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// Owns `bytes`, not zeroed.
  PinnedMemory(size_t bytes, Device& device)
      : device_(&device), data_(bytes > 0 ? device.allocate_pinned(bytes) : nullptr), bytes_(bytes) {}
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() {
    if (data_) device_->free_pinned(data_, bytes_);
  }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Reads tensors in pieces: while the program uses one, the device copies the next. Any thread; one reads at a time.
class PieceReader {
 public:
  explicit PieceReader(Device& device) : device_(device) {}
  /// Called with elements [first, first + n) of both tensors, on the host; valid during the call.
  using Take = std::function<void(int64_t first, ConstView x, ConstView y)>;
  /// Calls `take` for all elements in order. x, y: flat, of equal count, of the device; y may be empty. What is on the
  /// host is taken at once, from where it is; else 16 MiB of pinned memory are allocated at the first call.
  void read(ConstView x, ConstView y, const Take& take);

 private:
  static constexpr size_t kPieceBytes = size_t{4} << 20;  ///< of one tensor: a copy is then as fast as a long one

  Device& device_;
  std::mutex mutex_;
  std::unique_ptr<PinnedMemory> memory_;  ///< for two pieces of both tensors
};

}  // namespace trireme
