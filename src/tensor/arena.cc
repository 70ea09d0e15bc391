#include "tensor/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/size.h"

namespace trireme {
namespace {
constexpr size_t kAlignment = 64;  // one cache line, one AVX-512 register
constexpr size_t kHugePage = size_t{2} << 20;
/// The complete pages inside a tensor; both ends are equal if it has no complete page.
std::pair<std::byte*, std::byte*> pages_of(View tensor) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data()), end = begin + tensor.bytes();
  const uintptr_t first = (begin + page - 1) / page * page, last = std::max(first, end / page * page);
  return {reinterpret_cast<std::byte*>(first), reinterpret_cast<std::byte*>(last)};
}
}  // namespace

Arena::Arena(size_t bytes, size_t held, Device& device)
    : device_(&device), capacity_((std::max<size_t>(bytes, 1) + kHugePage - 1) / kHugePage * kHugePage) {
  if (device.is_host())
    require_fits_memory(held, "an arena of tensors", "use a smaller model, micro-batch or sequence");
  base_ = device.allocate(capacity_);
}

Arena::Arena(Arena&& other) noexcept { *this = std::move(other); }

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(base_, other.base_);
  std::swap(capacity_, other.capacity_);
  std::swap(used_, other.used_);
  std::swap(peak_, other.peak_);
  return *this;
}

Arena::~Arena() {
  if (base_) device_->free(base_, capacity_);
}

View Arena::take(DType dtype, Shape shape) {
  const size_t bytes = static_cast<size_t>(shape.count()) * size_of(dtype);
  const size_t offset = used_;
  size_t end = 0;
  const bool over = bytes / size_of(dtype) != static_cast<size_t>(shape.count()) || shape.count() < 0 ||
                    __builtin_add_overflow(used_, bytes, &end) || end > SIZE_MAX / 2;
  require(!over, ErrorKind::config,
          "tensors of {} and {} bytes overflow 64 bits; use a smaller model, micro-batch or sequence", used_, bytes);
  used_ = (end + kAlignment - 1) / kAlignment * kAlignment;
  peak_ = std::max(peak_, used_);
  if (measuring()) return {nullptr, dtype, shape};
  if (used_ > capacity_) {
    std::fprintf(stderr, "an arena of %zu bytes got a request for %zu: the plan and the step disagree\n", capacity_,
                 used_);
    std::abort();
  }
  return {base_ + offset, dtype, shape, device_->is_host() ? nullptr : device_};
}

void Arena::set_sparse(View tensor) {
  if (tensor.device()) return;
  const auto [first, last] = pages_of(tensor);
  if (first < last)
    madvise(first, static_cast<size_t>(last - first),
            MADV_NOHUGEPAGE);  // advice only: without it the zeros take memory
}

void release(View tensor) {
  Device& device = tensor.device() ? *tensor.device() : host_device();
  device.release(static_cast<std::byte*>(tensor.data()), tensor.bytes());
}

void give_back(View tensor) {
  auto* begin = static_cast<std::byte*>(tensor.data());
  const auto [first, last] = pages_of(tensor);
  if (first == last || madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED) != 0) {
    std::memset(begin, 0, tensor.bytes());
    return;
  }
  std::memset(begin, 0, static_cast<size_t>(first - begin));
  std::memset(last, 0, static_cast<size_t>(begin + tensor.bytes() - last));
}

}  // namespace trireme
