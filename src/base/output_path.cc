#include "base/output_path.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace trireme {

std::string why_no_output(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return "the value is empty; is a shell variable not set?";
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return fmt::format("{} is a folder, expected the name of a file", path);
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (!fs::exists(folder, ignored))
    return fmt::format("cannot write {}: folder {} is missing; create it", path, folder);
  if (!fs::is_directory(folder, ignored)) return fmt::format("cannot write {}: {} is not a folder", path, folder);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return fmt::format("cannot write {}: folder {}: {}", path, folder, std::strerror(errno));
  return "";
}

}  // namespace trireme
