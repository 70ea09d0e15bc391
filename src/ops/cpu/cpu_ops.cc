#include "ops/cpu/cpu_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/backend.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/delta.h"
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
                   delta_scratch_bytes(sizes), small_ops_scratch_bytes(sizes.rows, sizes.width, sizes.threads)});
}

std::unique_ptr<Ops> make_cpu_ops() { return std::make_unique<CpuOps>(); }

Backend make_backend() {
  return {.device = nullptr,
          .ops = make_cpu_ops(),
          .hardware = cpu_brand_text(),
          .kernels = std::string(kernels_in_use()),
          .reason = kernels_reason(),
          .has_bf16 = cpu_facts().avx512bf16,
          .multiplies_bf16 = multiplies_bf16()};
}

std::string backend_versions() {
  return fmt::format("oneDNN    {}\nCPU       {}: {}\n", onednn_version_text(), cpu_brand_text(), cpu_features_text());
}

}  // namespace trireme
