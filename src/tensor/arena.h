#pragma once
// One allocation per purpose (parameters, gradients, saved activations, scratch). The same code that takes tensors from
// an arena also measures it: a measuring arena hands out null views and counts bytes, so planner and trainer cannot
// disagree.

#include <cstddef>

#include "tensor/device.h"
#include "tensor/view.h"

namespace trireme {

class Arena {
 public:
  /// Measures only: take() returns views without memory.
  Arena() = default;
  /// Owns `bytes` of zeroed, 2 MiB aligned memory. Throws Error::io with the number if memory is insufficient.
  explicit Arena(size_t bytes, Device& device = host_device()) : Arena(bytes, bytes, device) {}
  /// The same for tensors of which only parts hold values at a time: at most `held` bytes; other memory is released.
  Arena(size_t bytes, size_t held, Device& device);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  /// Next tensor, 64-byte aligned. Taking more than planned is a broken invariant (assert in debug, abort in release).
  View take(DType dtype, Shape shape);
  /// On the host: small pages for a tensor of which few parts hold values at a time: parts with zeros only take no
  /// memory.
  static void set_sparse(View tensor);
  /// The position for release(): scratch is a stack.
  size_t mark() const { return used_; }
  void release(size_t mark) { used_ = mark; }

  bool measuring() const { return base_ == nullptr; }
  size_t used() const { return used_; }
  size_t peak() const { return peak_; }  ///< largest used() so far: the size to allocate
  size_t capacity() const { return capacity_; }
  std::byte* base() const { return base_; }

 private:
  Device* device_ = nullptr;
  std::byte* base_ = nullptr;
  size_t capacity_ = 0, used_ = 0, peak_ = 0;
};

/// Device::release() of a tensor's memory.
void release(View tensor);

/// Zeroes a tensor of a host's arena by returning its memory to the system, which provides zeros again.
void give_back(View tensor);

/// Restores scratch to its position at construction.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  size_t mark_;
};

}  // namespace trireme
