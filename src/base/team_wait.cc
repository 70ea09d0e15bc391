#include "base/team_wait.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>

namespace trireme {
namespace {

constexpr const char* kSpinVariable = "GOMP_SPINCOUNT";
// 30 to 100 clock ticks each, by processor.
constexpr const char* kSpins = "10000";

}  // namespace

void wait_briefly(char** argv) {
  if (std::getenv(kSpinVariable) || std::getenv("OMP_WAIT_POLICY")) return;
  std::error_code error;
  // Not /proc/self/exe itself, which would become the name of the process.
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || program.filename().string().starts_with("ld-")) return;  // a loader called by name
  setenv(kSpinVariable, kSpins, 1);
  execv(program.c_str(), argv);
  unsetenv(kSpinVariable);
}

std::optional<double> seconds_without_processor(const std::filesystem::path& root) {
  std::error_code error;
  std::filesystem::directory_iterator tasks(root / "proc/self/task", error);
  if (error) return {};
  uint64_t sum = 0;
  bool told = false;
  for (; tasks != std::filesystem::directory_iterator(); tasks.increment(error)) {
    // Nanoseconds on a processor, nanoseconds ready without one, number of times that it got one.
    std::ifstream in(tasks->path() / "schedstat");
    uint64_t ran = 0, waited = 0;
    if (!(in >> ran >> waited)) continue;  // a thread may have ended meanwhile
    sum += waited;
    told = true;
  }
  if (!told) return {};
  return 1e-9 * static_cast<double>(sum);
}

}  // namespace trireme
