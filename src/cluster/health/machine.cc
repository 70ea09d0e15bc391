#include "cluster/health/machine.h"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/affinity.h"
#include "base/error.h"
#include "base/opened_file.h"
#include "ops/gpu_library.h"
#include "ops/nvml.h"
#include "tensor/pinned.h"

namespace trireme::health {
namespace {

std::optional<Space> space_of(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) return std::nullopt;
  const uint64_t unit = info.f_frsize;
  Space space;
  space.total_kb = info.f_blocks * unit / 1024;
  space.free_kb = info.f_bavail * unit / 1024;
  space.used_kb = (info.f_blocks - info.f_bfree) * unit / 1024;
  space.inodes = info.f_files;
  space.inodes_free = info.f_ffree;
  return space;
}

std::string first_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(size_t{1} << 16, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

std::vector<ProcessEntry> running_processes() {
  std::vector<ProcessEntry> entries;
  std::error_code error;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = folder.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    struct stat info {};
    if (stat(folder.path().c_str(), &info) != 0) continue;  // it has exited
    ProcessEntry entry{std::stoi(name), "", first_bytes(folder.path() / "comm"),
                       first_bytes(folder.path() / "cmdline")};
    if (!entry.name.empty()) entry.name.pop_back();  // line end
    std::ranges::replace(entry.command_line, '\0', ' ');
    while (entry.command_line.ends_with(' ')) entry.command_line.pop_back();
    const passwd* user = getpwuid(info.st_uid);
    entry.user = user != nullptr ? user->pw_name : std::to_string(info.st_uid);
    entry.uid = info.st_uid;
    if (entry.pid != getpid()) entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

double Space::used_percent() const {
  const uint64_t usable = used_kb + free_kb;
  return usable == 0 ? 0 : 100.0 * static_cast<double>(used_kb) / static_cast<double>(usable);
}

double Space::inodes_used_percent() const {
  return inodes == 0 ? 0 : 100.0 * static_cast<double>(inodes - inodes_free) / static_cast<double>(inodes);
}

Machine Machine::local() {
  Machine machine;
  machine.host = short_host_name();
  machine.full_host = full_host_name();
  machine.space = space_of;
  machine.processes = running_processes;
  machine.gpu_library = gpu_library_path();
  machine.measure_copies = health::measure_copies;
  return machine;
}

std::optional<std::string> Machine::read(const std::string& path) const {
  try {
    OpenedFile file(root + path);
    std::string text;
    std::array<char, size_t{1} << 16> buffer;  // a /proc/sys file refuses reads of megabytes
    while (const size_t n = file.read(buffer.data(), buffer.size())) {
      text.append(buffer.data(), n);
      if (text.size() > size_t{1} << 30) return std::nullopt;
    }
    return text;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<std::string> Machine::list(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + folder, error)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

bool Machine::exists(const std::string& path) const {
  std::error_code error;
  return std::filesystem::exists(root + path, error);
}

ProcessResult Machine::command(std::vector<std::string> arguments, double seconds) const {
  ProcessRequest request;
  request.arguments = std::move(arguments);
  request.timeout = std::chrono::duration<double>(seconds);
  return run(request);
}

std::string full_host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string short_host_name() {
  const std::string full = full_host_name();
  return full.substr(0, full.find('.'));
}

namespace {

constexpr size_t kBytes = size_t{64} << 20;  // long enough that the start of a copy does not count
constexpr int kCopies = 8, kRounds = 3;

/// The best of the rounds.
double speed_of(Device& device, ConstView from, View to) {
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Event begin = device.stream().record_time();
    for (int i = 0; i < kCopies; ++i) device.stream().copy_later(from, to);
    const Event end = device.stream().record_time();
    end.wait();
    if (const double seconds = end.seconds_since(begin); seconds > 0)
      best = std::max(best, static_cast<double>(kBytes) * kCopies / seconds / 1e9);
  }
  return best;
}

/// Calls of this thread, and the memory that it allocates, then stay near the GPU.
void move_to(const std::string& bus) {
  std::ifstream file("/sys/bus/pci/devices/" + nvml::linux_bus(bus) + "/local_cpulist");
  std::string cpus;
  if (std::getline(file, cpus) && !cpus.empty()) pin_this_thread(parse_cpu_list(cpus));
}

/// seen: places of the GPUs before.
CopySpeed measure(const std::string& library, int gpu, std::set<std::string>& seen) {
  const Backend backend = open_gpu_backend(library, {.products = {}, .local_rank = gpu});
  require(seen.insert(backend.gpu).second, ErrorKind::usage,
          "CUDA shows {} of this node's GPUs (CUDA_VISIBLE_DEVICES hides others)", seen.size());
  move_to(backend.gpu);
  Device& device = *backend.device;
  const PinnedMemory host(kBytes, device);
  std::byte* const memory = device.allocate(kBytes);
  const Shape shape{static_cast<int64_t>(kBytes)};
  const View there(memory, DType::u8, shape, &device), here(host.data(), DType::u8, shape);
  const CopySpeed speed{gpu, speed_of(device, here, there), speed_of(device, there, here)};
  device.free(memory, kBytes);
  return speed;
}

}  // namespace

MeasuredCopies measure_copies(int gpus) {
  const std::string library = gpu_library_path();
  if (library.empty()) return {.why_not = "this build has no libtrireme_cuda.so"};
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);  // as the driver numbers them; before CUDA starts
  MeasuredCopies measured;
  std::set<std::string> seen;
  for (int gpu = 0; gpu < gpus && measured.why_not.empty(); ++gpu) {
    std::jthread([&] {  // a separate thread, because it is bound to cores
      try {
        measured.gpus.push_back(measure(library, gpu, seen));
      } catch (const std::exception& e) {
        measured.why_not = e.what();
      }
    });
  }
  return measured;
}

}  // namespace trireme::health
