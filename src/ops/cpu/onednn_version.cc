#include "ops/cpu/onednn_version.h"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace trireme {

std::string onednn_version_text() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace trireme
