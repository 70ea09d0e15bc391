#include "ops/backend.h"

#include <fmt/format.h>

#include "ops/cpu/gemm.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/onednn_version.h"

namespace trireme {

Backend make_backend() {
  return {.ops = make_cpu_ops(),
          .hardware = cpu_brand_text(),
          .kernels = std::string(kernels_in_use()),
          .has_bf16 = cpu_facts().avx512bf16,
          .multiplies_bf16 = gemm_has_bf16()};
}

std::string backend_versions() {
  return fmt::format("oneDNN    {}\nCPU       {}: {}\n", onednn_version_text(), cpu_brand_text(), cpu_features_text());
}

}  // namespace trireme
