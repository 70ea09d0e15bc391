#include "base/run_pointer.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace fs = std::filesystem;

std::string follow_run_pointer(const std::string& path) {
  constexpr size_t kLongest = 64;  // "step-00000042" and a line end
  const fs::path file(path);
  std::error_code none;
  if (file.filename() != "best" && file.filename() != "latest") return path;
  if (!fs::is_regular_file(file, none) || fs::file_size(file, none) > kLongest) return path;
  std::string name = read_text(path, kLongest);
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  if (!name.starts_with("step-") || name.find('/') != name.npos) return path;
  const fs::path step = file.parent_path() / name;
  require(
      fs::is_directory(step, none), ErrorKind::io,
      "{} names {}, which is not a folder beside it; name a step folder of the run (`trireme checkpoint list` shows "
      "them)",
      path, name);
  return step.string();
}

std::string tokenizer_folder_of_run(const std::string& path) {
  std::error_code none;
  const fs::path latest = fs::path(path) / "latest";
  if (!fs::is_directory(path, none) || !fs::is_regular_file(latest, none)) return path;
  const std::string step = follow_run_pointer(latest.string());
  return step == latest.string() ? path : step;
}

}  // namespace trireme
