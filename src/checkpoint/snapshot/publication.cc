#include "checkpoint/snapshot/publication.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/run_folder/run_folder.h"

namespace trireme {
namespace fs = std::filesystem;

void publish_step(const Publication& p) {
  const int64_t step = p.manifest.facts.progress.step;
  const std::string folder = p.run_dir + "/" + saving_name(step, p.token);
  for (const StoredShard& shard : p.manifest.shards) {
    const std::string path = folder + "/" + shard.file;
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    require(
        !error && bytes == shard.bytes, ErrorKind::io,
        "{} was written by another rank, but is not visible here with its {} bytes ({}); the run folder must be on a "
        "file system that all hosts share",
        path, shard.bytes, error ? error.message() : fmt::format("{} bytes", bytes));
  }
  write_text(folder + "/manifest.json", write_manifest(p.manifest));
  p.check_owner();
  replace_folder(p.run_dir, saving_name(step, p.token), step_name(step));
  p.check_owner();  // another owner that takes over between the two finds a complete step without a reference
  try {
    if (p.latest) write_pointer(p.run_dir, "latest", step);
  } catch (const Error&) {
    remove_folder(p.run_dir, step_name(step));
    throw;
  }
  if (p.best) write_pointer(p.run_dir, "best", step);
}

}  // namespace trireme
