#pragma once
// What `trireme bench comm` measures: collectives, sizes, types. Names and meanings are those of nccl-tests.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collectives.h"

namespace trireme::comm_bench {

/// A measured thing: one of the library's collectives, or the trainer's own gradient reduction.
struct Subject {
  std::string name;                                ///< "all_reduce", ..., "gradient"
  Collective collective = Collective::all_reduce;  ///< not for "gradient"
  bool is_gradient = false;
};

/// "all_reduce", "all_reduce_perf", "alltoall", "sendrecv", "gradient"; "all" gives every one. Throws Error::usage.
std::vector<Subject> parse_subjects(const std::vector<std::string>& names);

enum class Average { rank0, mean, least, most };

struct Options {
  int64_t least_bytes = 32 << 20, most_bytes = 32 << 20;
  int64_t step_bytes = 1 << 20;  ///< between sizes, when factor is 0
  int factor = 0;                ///< between sizes; 0: step_bytes
  int iterations = 20, warmup = 1;
  int calls = 1;   ///< of an iteration
  int cycles = 1;  ///< times that all sizes are measured; 0: until the job is ended
  int checks = 1;  ///< verified calls per size and mode; 0: none
  std::vector<ReduceOp> ops = {ReduceOp::sum};
  std::vector<Element> elements = {Element::f32};
  int root = 0;  ///< below 0: every rank in turn
  Average average = Average::mean;
  double timeout = 0;  ///< seconds for one size; 0: none
};

/// "8", "32M", "1.5G" in bytes; K, M, G are powers of 1024. Throws Error::usage naming the flag.
int64_t parse_bytes(const std::string& text, std::string_view flag);
/// From least_bytes to most_bytes, both included if a step reaches them. Throws Error::usage if impossible.
std::vector<int64_t> sizes(const Options& options);

/// nccl-tests' names and ours: float f32, half f16, bfloat16 bf16, double f64, int8 ... uint64; "all". Throws
/// Error::usage.
std::vector<Element> parse_elements(const std::string& text);
std::vector<ReduceOp> parse_ops(const std::string& text);

const char* name_of(Element element);  ///< nccl-tests' names
const char* name_of(ReduceOp op);

bool reduces(Collective collective);
bool has_root(Collective collective);
/// Number of parts that `size` of the table counts: n for all_gather, reduce_scatter, all_to_all, gather, scatter.
int parts_of(Collective collective, int ranks);
/// Bus bandwidth is algorithm bandwidth times this: the load of a link with the best algorithm.
double bus_factor(const Subject& subject, int ranks);

}  // namespace trireme::comm_bench
