#include "data/prepare_outputs.h"

#include <system_error>

#include "base/log.h"
#include "data/sidecar.h"

namespace trireme {

PrepareOutputs::~PrepareOutputs() {
  std::error_code ignored;  // a destructor has no one to tell
  for (const auto& path : written_) std::filesystem::remove(path, ignored);
}

void PrepareOutputs::remove_old(const std::string& name) {
  const std::string old = path(name);
  if (!std::filesystem::exists(old)) return;
  log::warning("removed {} of an earlier preparation: this one has no such file", old);
  std::filesystem::remove(old);
  std::filesystem::remove(sidecar_path(old));
}

}  // namespace trireme
