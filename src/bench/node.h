#pragma once
// Rates of one node for a planner: matrix products per shape and type, memory and disk bandwidth, cores.

#include <functional>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "ops/gemm_shape.h"

namespace trireme {

struct NodeBenchOptions {
  int threads = 1;
  int64_t rows = 4096;  ///< tokens of the products
  std::vector<int64_t> widths{768, 1024, 2048, 4096};
  std::string folder = ".";  ///< where the disk is measured
  int64_t disk_bytes = 256 << 20;
};

/// One product of a layer: forward, dX or dW.
struct NodeGemm {
  GemmShape shape;
  double seconds = 0;
  double flops_per_second() const;
};

struct NodeBenchResult {
  int cores = 0, sockets = 0, threads = 0;  ///< physical cores of this node; sockets; threads that measured
  uint64_t memory_bytes = 0;                ///< of the node
  double taken = 0;                         ///< most of the processors that other programs had meanwhile, a share
  std::vector<NodeGemm> gemms;              ///< linears in->out of width w: w->3w, w->w, w->4w, 4w->w
  double copy_bytes_per_second = 0;         ///< read + written: y = x
  double triad_bytes_per_second = 0;        ///< read + written: a = b + s c
  double disk_write_bytes_per_second = 0;   ///< of one file, until it is on the disk
  double disk_read_bytes_per_second = 0;    ///< of that file, after the page cache has given it up
};

/// Share of the processors that other programs have from which on rates are not those of the node.
inline constexpr double kBusyNode = 0.1;
/// That share now, by the processor time of `threads` threads in a third of a second.
double processors_taken(Ops& ops, int threads);

/// ops: of the host. say: gets a line with the number of products and the likely time before they are measured. Throws
/// Error::io where the folder cannot be written or lacks the space.
NodeBenchResult bench_node(const NodeBenchOptions& options, Ops& ops,
                           const std::function<void(const std::string&)>& say);

/// How often a product that takes so many seconds is measured: 5 times, fewer where that would take longer than a
/// second, at least once. A long product varies little. Pure.
int repetitions_of(double seconds);

const char* name_of(GemmKind kind);  ///< "forward", "input", "weight"

std::string to_text(const NodeBenchResult& result);

}  // namespace trireme
