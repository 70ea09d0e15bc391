#include "bench/node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/affinity.h"
#include "base/count.h"
#include "base/error.h"
#include "base/time.h"
#include "ops/gemm_bench.h"
#include "train/machine.h"

namespace trireme {
namespace {

constexpr int kMemoryRounds = 7;
constexpr int64_t kElements = int64_t{1} << 24;  // of 8 bytes: arrays of 128 MiB are in no cache
constexpr size_t kBlockBytes = size_t{4} << 20;  // of the disk's file

double flops_of(const GemmShape& shape) {
  return 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.in) * static_cast<double>(shape.out);
}

/// "96 products, about 180 s". flops: per second, of the first one.
std::string expected_time(const std::vector<GemmShape>& shapes, double flops) {
  constexpr double kWays = 3, kOperands = 0.8;  // a product is computed in up to so many ways; seconds to fill operands
  double seconds = 0;
  for (const GemmShape& shape : shapes) {
    const double once = flops_of(shape) / flops;
    seconds += kOperands + kWays * (1 + repetitions_of(once)) * once;
  }
  return fmt::format("{}, about {:.0f} s", count_text(shapes.size(), "product"), seconds);
}

std::vector<NodeGemm> measure_products(const NodeBenchOptions& options,
                                       const std::function<void(const std::string&)>& say) {
  std::vector<GemmShape> shapes;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t w : options.widths) {
      for (const auto& [in, out] : {std::pair{w, 3 * w}, std::pair{w, w}, std::pair{w, 4 * w}, std::pair{4 * w, w}}) {
        for (const GemmKind kind : {GemmKind::forward, GemmKind::input, GemmKind::weight})
          shapes.push_back({kind, options.rows, in, out, dtype});
      }
    }
  }
  std::vector<NodeGemm> gemms;
  double flops = 0;                        // of the product before
  for (const GemmShape& shape : shapes) {  // one at a time: operands of all would not fit
    const int repetitions = repetitions_of(flops > 0 ? flops_of(shape) / flops : 0);
    const GemmTiming timing = measure_gemms(std::span(&shape, 1), options.threads, repetitions).front();
    if (flops == 0) say(expected_time(shapes, flops_of(shape) / timing.seconds));
    flops = flops_of(shape) / timing.seconds;
    if (timing.shape.dtype == shape.dtype) gemms.push_back({shape, timing.seconds});  // otherwise the CPU has no bf16
  }
  return gemms;
}

/// Bytes per second of the fastest of some rounds over arrays that every thread touched first.
template <class Pass>
double memory_rate(double bytes, Pass pass) {
  double best = 0;
  for (int round = 0; round < kMemoryRounds; ++round) {
    const auto start = Clock::now();
    pass();
    best = std::max(best, bytes / seconds_since(start));
  }
  return best;
}

void measure_memory(int threads, NodeBenchResult& result) {
  const std::unique_ptr<double[]> a(new double[kElements]), b(new double[kElements]), c(new double[kElements]);
  double *x = a.get(), *y = b.get(), *z = c.get();
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < kElements; ++i) x[i] = 0, y[i] = 2, z[i] = 0.5;
  const double bytes = 8.0 * static_cast<double>(kElements);
  result.copy_bytes_per_second = memory_rate(2 * bytes, [&] {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < kElements; ++i) x[i] = y[i];
  });
  result.triad_bytes_per_second = memory_rate(3 * bytes, [&] {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < kElements; ++i) x[i] = y[i] + 3.0 * z[i];
  });
  require(x[kElements - 1] == 3.5, ErrorKind::io, "the memory of this node is faulty: it does not keep written values");
}

/// A temporary file, removed by the destructor.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& folder) : path_(std::filesystem::path(folder) / ".trireme-bench-XXXXXX") {
    fd_ = mkstemp(path_.data());
    require(fd_ >= 0, ErrorKind::io, "cannot create a file in {}: {}; name another folder with --disk", folder,
            std::strerror(errno));
  }
  ~ScratchFile() {
    close(fd_);
    unlink(path_.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

void measure_disk(const NodeBenchOptions& options, NodeBenchResult& result) {
  struct statvfs space {};
  require(statvfs(options.folder.c_str(), &space) == 0, ErrorKind::io, "cannot read the free space of {}: {}",
          options.folder, std::strerror(errno));
  const auto free_bytes = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  const auto wanted = static_cast<double>(options.disk_bytes);
  require(free_bytes > wanted, ErrorKind::io, "the disk test needs {:.1f} MB in {}, but {:.1f} MB are free",
          wanted / 1e6, options.folder, free_bytes / 1e6);
  const ScratchFile file(options.folder);
  std::vector<uint64_t> block(kBlockBytes / sizeof(uint64_t));
  const auto pass = [&](auto transfer, const char* what) {
    for (int64_t at = 0; at < options.disk_bytes; at += static_cast<int64_t>(kBlockBytes)) {
      for (size_t i = 0; i < block.size(); i += 512) block[i] = static_cast<uint64_t>(at) * 0x9E3779B97F4A7C15 + i;
      require(transfer(at) == static_cast<ssize_t>(kBlockBytes), ErrorKind::io, "cannot {} {}: {}", what, file.path(),
              std::strerror(errno));
    }
  };
  auto start = Clock::now();
  pass([&](int64_t at) { return pwrite(file.fd(), block.data(), kBlockBytes, at); }, "write");
  require(fsync(file.fd()) == 0, ErrorKind::io, "cannot write {}: {}", file.path(), std::strerror(errno));
  result.disk_write_bytes_per_second = wanted / seconds_since(start);
  posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  start = Clock::now();
  pass([&](int64_t at) { return pread(file.fd(), block.data(), kBlockBytes, at); }, "read");
  result.disk_read_bytes_per_second = wanted / seconds_since(start);
}

}  // namespace

double NodeGemm::flops_per_second() const { return flops_of(shape) / seconds; }

int repetitions_of(double seconds) {
  constexpr int kMost = 5;
  return seconds * kMost <= 1 ? kMost : std::max(1, static_cast<int>(1 / seconds));
}

const char* name_of(GemmKind kind) {
  return kind == GemmKind::forward ? "forward" : kind == GemmKind::input ? "input" : "weight";
}

double processors_taken(Ops& ops, int threads) {
  return std::clamp(1 - measure_gemm_rate(ops, threads, DType::f32).processors, 0.0, 1.0);
}

NodeBenchResult bench_node(const NodeBenchOptions& options, Ops& ops,
                           const std::function<void(const std::string&)>& say) {
  NodeBenchResult result;
  const auto look = [&] { result.taken = std::max(result.taken, processors_taken(ops, options.threads)); };
  result.cores = static_cast<int>(physical_cores().size());
  result.sockets = static_cast<int>(sockets().size());
  result.threads = options.threads;
  struct sysinfo memory {};
  if (sysinfo(&memory) == 0) result.memory_bytes = uint64_t{memory.totalram} * memory.mem_unit;
  measure_disk(options, result);  // first: reports an unusable folder at once
  look();
  measure_memory(options.threads, result);
  look();
  result.gemms = measure_products(options, say);
  look();
  return result;
}

std::string to_text(const NodeBenchResult& r) {
  std::string text = fmt::format(
      "cores              {} on {}, {} measured\nmemory             {:.1f} GB\n"
      "copy               {:.1f} GB/s (read + written)\ntriad              {:.1f} GB/s (read + written)\n"
      "disk               {:.1f} MB/s written and synchronised, {:.1f} MB/s read\n\n"
      "{:<6} {:>6} {:>6} {:>6}  {:>9} {:>9} {:>9}  GFLOP/s\n",
      r.cores, count_text(r.sockets, "socket"), count_text(r.threads, "thread"),
      static_cast<double>(r.memory_bytes) / 1e9, r.copy_bytes_per_second / 1e9, r.triad_bytes_per_second / 1e9,
      r.disk_write_bytes_per_second / 1e6, r.disk_read_bytes_per_second / 1e6, "type", "rows", "in", "out", "forward",
      "input", "weight");
  for (const NodeGemm& gemm : r.gemms) {
    const GemmShape& s = gemm.shape;
    if (s.kind == GemmKind::forward)
      text += fmt::format("{:<6} {:>6} {:>6} {:>6} ", name_of(s.dtype), s.rows, s.in, s.out);
    text += fmt::format(" {:>9.1f}", gemm.flops_per_second() / 1e9);
    if (s.kind == GemmKind::weight) text += "\n";
  }
  if (r.taken >= kBusyNode)
    text += fmt::format(
        "warning            other programs used {:.0f} % of the processors: these rates are not those of the node, and "
        "a plan from them is too slow; measure again when it is idle\n",
        1e2 * r.taken);
  return text;
}

}  // namespace trireme
