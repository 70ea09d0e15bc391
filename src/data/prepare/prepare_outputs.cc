#include "data/prepare/prepare_outputs.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "data/sidecar.h"

namespace trireme {

namespace fs = std::filesystem;

PrepareOutputs::PrepareOutputs(fs::path folder, fs::path making)
    : folder_(std::move(folder)), making_(std::move(making)) {
  fs::remove_all(making_);
  fs::create_directories(making_);
}

void PrepareOutputs::publish() const {
  for (const std::string& name : old_) {
    const fs::path old = folder_ / name;
    if (!fs::exists(old)) continue;
    log::warning("removed {} of an earlier preparation: this one does not write it", old.string());
    fs::remove(old);
    fs::remove(sidecar_path(old.string()));
  }
  for (const auto& entry : fs::directory_iterator(making_)) {
    const fs::path to = folder_ / entry.path().filename();
    std::error_code error;
    fs::rename(entry.path(), to, error);
    require(!error, ErrorKind::io, "cannot move {} to {}: {}", entry.path().string(), to.string(), error.message());
  }
  sync_folder(folder_.string());
}

}  // namespace trireme
