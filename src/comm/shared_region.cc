#include "comm/shared_region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "comm/scalars.h"

namespace trireme {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// Where others find a rank's memory, and a key that it contains: on another host, or in another container, a different
/// process may have the same id.
struct Place {
  uint64_t process = 0, descriptor = 0, key = 0;
};

std::vector<Place> exchange(Scalars& scalars, const Place& own) {
  const std::vector<uint64_t> processes = scalars.gather_values(own.process),
                              descriptors = scalars.gather_values(own.descriptor),
                              keys = scalars.gather_values(own.key);
  std::vector<Place> places;
  for (size_t r = 0; r < processes.size(); ++r) places.push_back({processes[r], descriptors[r], keys[r]});
  return places;
}

/// Memory of `bytes`, fully allocated: a page fault without free memory would end the process later.
int make_memory(size_t bytes) {
  const int fd = memfd_create("trireme exchange", MFD_CLOEXEC);
  if (fd >= 0 && posix_fallocate(fd, 0, static_cast<off_t>(bytes)) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

/// flags: MAP_POPULATE, or 0.
std::span<std::byte> map(int fd, size_t bytes, int flags) {
  struct stat info {};
  if (fd < 0 || fstat(fd, &info) != 0 || static_cast<size_t>(info.st_size) != bytes) return {};
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
  if (memory == MAP_FAILED) return {};
  return {static_cast<std::byte*>(memory), bytes};
}

uint64_t random_key() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

uint64_t& key_of(std::span<std::byte> memory) { return *reinterpret_cast<uint64_t*>(memory.data()); }

}  // namespace

std::optional<SharedRegion> SharedRegion::make(Communicator& group, size_t bytes) {
  Scalars scalars(group);
  const auto rank = static_cast<size_t>(group.rank());
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t rounded = (std::max<size_t>(bytes, 1) + page - 1) / page * page;
  SharedRegion region(static_cast<size_t>(group.size()));
  const Descriptor own(make_memory(rounded));
  region.parts_[rank] = map(own.get(), rounded, MAP_POPULATE);  // no page faults in a step
  bool good = !region.parts_[rank].empty();
  Place place{static_cast<uint64_t>(getpid()), static_cast<uint64_t>(own.get()), random_key()};
  if (good) key_of(region.parts_[rank]) = place.key;
  const std::vector<Place> places = exchange(scalars, place);
  for (size_t r = 0; r < places.size() && good; ++r) {
    if (r == rank) continue;
    const Descriptor theirs(
        open(fmt::format("/proc/{}/fd/{}", places[r].process, places[r].descriptor).c_str(), O_RDWR | O_CLOEXEC));
    region.parts_[r] = map(theirs.get(), rounded, 0);  // this rank reads little of it
    good = !region.parts_[r].empty() && key_of(region.parts_[r]) == places[r].key;
  }
  if (scalars.any(!good)) return std::nullopt;  // all ranks have compared the keys
  key_of(region.parts_[rank]) = 0;
  return region;
}

SharedRegion::~SharedRegion() {
  for (const auto& part : parts_) {
    if (!part.empty()) munmap(part.data(), part.size());
  }
}

}  // namespace trireme
