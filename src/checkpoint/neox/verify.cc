#include "checkpoint/neox/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/neox/checkpoint.h"
#include "checkpoint/neox/files.h"
#include "checkpoint/torch/zip_archive.h"

namespace trireme {
namespace {

/// Every file is asked, though opening the checkpoint ends with the first that is bad.
void check_bytes(const std::string& path, std::vector<std::string>& faults) {
  const MappedFile file(path);
  if (!looks_like_zip(file.bytes())) return;
  for (const ZipMember& member : read_zip(file.bytes(), path)) {
    if (std::string fault = zip_fault(member, path); !fault.empty()) faults.push_back(std::move(fault));
  }
}

}  // namespace

std::vector<std::string> verify_neox_checkpoint(const std::string& step_folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> faults;
  const auto keep = [&](const Error& e) {
    if (std::ranges::find(faults, e.what()) == faults.end()) faults.emplace_back(e.what());
  };
  try {
    NeoxCheckpoint opened(step_folder);
  } catch (const Error& e) {
    keep(e);
  }
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(step_folder)) {
    if (entry.path().extension() == ".pt") files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  for (const std::string& file : files) {
    try {
      check_bytes(file, faults);
    } catch (const Error& e) {
      keep(e);
    }
  }
  return faults;
}

}  // namespace trireme
