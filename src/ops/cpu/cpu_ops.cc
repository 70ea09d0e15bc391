#include "ops/cpu/cpu_ops.h"

#include <algorithm>

#include "ops/cpu/attention.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/linear.h"

namespace trireme {

CpuOps::CpuOps() {
  cpu_isa();  // decided before the first kernel
  gemm_ = std::make_unique<Gemm>();
}
CpuOps::~CpuOps() = default;

size_t CpuOps::scratch_bytes(int64_t rows, int64_t width, int64_t weight_count, const AttentionShape& shape,
                             int threads) const {
  return std::max({linear_scratch_bytes(rows, width, weight_count, threads),
                   attention_scratch_bytes(rows, shape, threads),
                   small_ops_scratch_bytes(rows, width, weight_count, threads)});
}

std::unique_ptr<Ops> make_cpu_ops() { return std::make_unique<CpuOps>(); }

}  // namespace trireme
