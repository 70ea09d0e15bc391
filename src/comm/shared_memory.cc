#include "comm/shared_memory.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <cstdlib>
#include "base/count.h"

namespace trireme {
namespace {

// Measured: 4 MiB per rank of Open MPI's vader and 4.3 MB of UCX before the first message.
constexpr uint64_t kBytesPerRank = uint64_t{8} << 20;

/// Ranks on this host according to the starter; `most` if unknown.
int local_ranks(int most) {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"}) {
    const char* text = std::getenv(variable);
    if (text && std::atoi(text) > 0) return std::atoi(text);
  }
  return most;
}

}  // namespace

std::string arrange_shared_memory(int most_ranks) {
  const std::string device = "/dev/shm";
  const int ranks = local_ranks(most_ranks);
  struct statvfs info {};
  const bool there = statvfs(device.c_str(), &info) == 0;
  const uint64_t free = there ? uint64_t{info.f_bavail} * info.f_frsize : 0;
  const uint64_t needed = static_cast<uint64_t>(ranks) * kBytesPerRank;
  if (free >= needed) return {};
  const char* temporary = std::getenv("TMPDIR");
  const std::string folder = temporary && *temporary ? temporary : "/tmp";
  for (const char* variable : {"OMPI_MCA_btl_vader_backing_directory", "UCX_POSIX_DIR"})
    setenv(variable, folder.c_str(), 0);
  return fmt::format(
      "{} has {:.1f} MB free, {} on this host need {:.1f} MB: they share memory through files in {} instead, which may "
      "be slower; make it larger (docker run --shm-size, or mount -o remount,size=... {})",
      device, static_cast<double>(free) / 1e6, count_text(ranks, "rank"), static_cast<double>(needed) / 1e6, folder,
      device);
}

}  // namespace trireme
