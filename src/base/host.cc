#include "base/host.h"

#include <unistd.h>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace trireme {

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

std::string boot_id() {
  try {
    std::string id = read_text("/proc/sys/kernel/random/boot_id", 4096);
    while (!id.empty() && id.back() == '\n') id.pop_back();
    return id;
  } catch (const Error&) {
    return {};
  }
}

std::string program_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

const char* environment_variable(const char* name) { return std::getenv(name); }

}  // namespace trireme
