#include "base/size.h"

#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>

#include "base/cgroup.h"
#include "base/error.h"

namespace trireme {
namespace {

template <class T>
int64_t in_range(T value, T least, int64_t most, std::string_view what) {
  require(value >= least && value <= static_cast<T>(most), ErrorKind::data, "{} is {}, expected {} to {}", what, value,
          least, most);
  return static_cast<int64_t>(value);
}

uint64_t find_memory_limit() {
  uint64_t limit = UINT64_MAX;
  struct sysinfo info {};
  if (sysinfo(&info) == 0) limit = (uint64_t{info.totalram} + info.totalswap) * info.mem_unit;
  if (const int64_t group = read_cgroup_limits().memory_bytes; group > 0)
    limit = std::min(limit, static_cast<uint64_t>(group));
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    limit = std::min<uint64_t>(limit, space.rlim_cur);
  return limit;
}

}  // namespace

int64_t checked_size(int64_t value, int64_t least, int64_t most, std::string_view what) {
  return in_range(value, least, most, what);
}
int64_t checked_size(uint64_t value, uint64_t least, int64_t most, std::string_view what) {
  return in_range(value, least, most, what);
}

int64_t checked_product(std::initializer_list<int64_t> factors, std::string_view what) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    const bool over = factor < 0 || __builtin_mul_overflow(product, factor, &product);
    require(!over, ErrorKind::config, "{}: {} overflows 64 bits", what, fmt::join(factors, " x "));
  }
  return product;
}

uint64_t memory_limit() {
  static const uint64_t limit = find_memory_limit();  // reads several files
  return limit;
}

void require_fits_memory(uint64_t bytes, std::string_view what, std::string_view remedy) {
  const uint64_t limit = memory_limit();
  require(bytes <= limit, ErrorKind::config,
          "{} would need {:.2f} GB of memory, but this process can have {:.2f} GB; {}", what,
          static_cast<double>(bytes) / 1e9, static_cast<double>(limit) / 1e9, remedy);
}

}  // namespace trireme
