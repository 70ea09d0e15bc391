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

size_t CpuOps::scratch_bytes(const CallSizes& sizes) const {
  return std::max({linear_scratch_bytes(sizes), attention_scratch_bytes(sizes.rows, sizes.attention, sizes.threads),
                   small_ops_scratch_bytes(sizes.rows, sizes.width, sizes.threads)});
}

std::unique_ptr<Ops> make_cpu_ops() { return std::make_unique<CpuOps>(); }

}  // namespace trireme
