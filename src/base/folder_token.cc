#include "base/folder_token.h"

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "base/file.h"
#include "base/hash.h"
#include "base/time.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

/// Opening a folder makes an NFS client revalidate what it has cached of it.
void read_anew(const fs::path& folder) {
  if (folder.has_relative_path()) read_anew(folder.parent_path());
  std::error_code ignored;
  const fs::directory_iterator opened(folder, ignored);
}

}  // namespace

std::string token_name() {
  std::random_device device;
  return kTokenPrefix + hex64((uint64_t{device()} << 32) | device());
}

void leave_token(const std::string& folder, const std::string& name) { write_text(folder + "/" + name, ""); }

bool find_token(const std::string& folder, const std::string& name, double seconds) {
  std::error_code ignored;
  const fs::path path = fs::absolute(folder, ignored) / name;
  for (const auto start = Clock::now();;) {
    if (fs::exists(path, ignored)) return true;
    if (seconds_since(start) >= seconds) return false;
    std::this_thread::sleep_for(kBetweenLooks);
    read_anew(path.parent_path());
  }
}

void take_token(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  fs::remove(fs::path(folder) / name, ignored);
}

}  // namespace trireme
