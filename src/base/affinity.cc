// Reads facts from the machine and the system; core_plan.cc decides.

#include "base/affinity.h"

#include <fmt/ranges.h>
#include <hwloc.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>

#include "base/error.h"

namespace trireme {
namespace {

constexpr int kMostCpus = 1 << 14;  // far above any kernel's limit today
constexpr int kMostAncestors = 64;

/// Affinity before the first apply(); empty before it.
Cpus& cpus_before_binding() {
  static Cpus cpus;
  return cpus;
}

struct CpuMask {
  CpuMask() : set(CPU_ALLOC(kMostCpus)) { CPU_ZERO_S(bytes(), set); }
  CpuMask(const CpuMask&) = delete;
  CpuMask& operator=(const CpuMask&) = delete;
  ~CpuMask() { CPU_FREE(set); }
  static size_t bytes() { return CPU_ALLOC_SIZE(kMostCpus); }
  cpu_set_t* set;
};

bool run_on(std::span<const int> cpus) {
  const CpuMask mask;
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), CpuMask::bytes(), mask.set);
  return sched_setaffinity(0, CpuMask::bytes(), mask.set) == 0;
}

int parse_number(std::string_view text, std::string_view list) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size() && value >= 0 && value < kMostCpus, ErrorKind::data,
          "processor list \"{}\": found \"{}\", expected a number, as in 0-3,8", list, text);
  return value;
}

/// Three facts about a process from /proc/PID/status.
struct ProcessStatus {
  std::string name;
  int parent = 0;
  std::string cpus;
};

ProcessStatus read_status(const std::filesystem::path& path) {
  ProcessStatus status;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':'), value = line.find_first_not_of("\t ", colon + 1);
    if (colon == std::string::npos || value == std::string::npos) continue;
    const std::string key = line.substr(0, colon), text = line.substr(value);
    if (key == "Name") status.name = text;
    if (key == "PPid") std::from_chars(text.data(), text.data() + text.size(), status.parent);
    if (key == "Cpus_allowed_list") status.cpus = text;
  }
  return status;
}

/// Programs that start MPI ranks and bind them more narrowly than themselves (names as cut by the kernel).
bool is_mpi_starter(const std::string& name) {
  constexpr std::string_view kPrefixes[] = {"mpirun", "mpiexec", "orterun", "orted", "prte", "hydra_", "pmi_proxy"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

/// The hardware threads of every object of a type, in the machine's order.
std::vector<Cpus> cpus_of_each(hwloc_obj_type_t type) {
  hwloc_topology_t raw = nullptr;
  require(hwloc_topology_init(&raw) == 0, ErrorKind::config, "hwloc cannot describe this machine");
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(raw, hwloc_topology_destroy);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw) != 0) {
    fail(ErrorKind::config, "hwloc cannot describe this machine: {}", std::strerror(errno));
  }
  std::vector<Cpus> objects;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(raw, type, object));) {
    Cpus cpus;
    for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(object->cpuset, cpu)) {
      cpus.push_back(cpu);
    }
    if (!cpus.empty()) objects.push_back(std::move(cpus));
  }
  return objects;
}

}  // namespace

Cpus parse_cpu_list(std::string_view text) {
  Cpus cpus;
  const std::string_view list = text;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const size_t dash = part.find('-');
    const int first = parse_number(part.substr(0, dash), list);
    const int last = dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1), list);
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  std::ranges::sort(cpus);
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string format_cpu_list(const Cpus& cpus) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    parts.push_back(last == i ? std::to_string(cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]));
    i = last + 1;
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::vector<Cpus> physical_cores() {
  std::vector<Cpus> cores = cpus_of_each(HWLOC_OBJ_CORE);
  return cores.empty() ? cpus_of_each(HWLOC_OBJ_PU) : cores;  // some virtual machines show processors only
}

std::vector<Cpus> sockets() { return cpus_of_each(HWLOC_OBJ_PACKAGE); }

size_t sockets_of(const std::vector<Cpus>& sockets, const Cpus& cpus) {
  return static_cast<size_t>(std::ranges::count_if(
      sockets, [&](const Cpus& socket) { return std::ranges::find_first_of(socket, cpus) != socket.end(); }));
}

Cpus inherited_cpus() {
  const CpuMask mask;
  if (sched_getaffinity(0, CpuMask::bytes(), mask.set) != 0) {
    fail(ErrorKind::config, "cannot read this process's processors: {}", std::strerror(errno));
  }
  Cpus cpus;
  for (int cpu = 0; cpu < kMostCpus; ++cpu) {
    if (CPU_ISSET_S(static_cast<size_t>(cpu), CpuMask::bytes(), mask.set)) cpus.push_back(cpu);
  }
  return cpus;
}

Cpus offered_cpus(const std::filesystem::path& root) {
  int pid = read_status(root / "proc/self/status").parent;
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    const ProcessStatus status = read_status(root / "proc" / std::to_string(pid) / "status");
    if (is_mpi_starter(status.name) && !status.cpus.empty()) return parse_cpu_list(status.cpus);
    pid = status.parent;
  }
  return cpus_before_binding().empty() ? inherited_cpus() : cpus_before_binding();
}

void pin_this_thread(std::span<const int> cpus) {
  if (!run_on(cpus)) {
    fail(ErrorKind::config,
         "cannot run on processors {}: {}; set launch.bind inherit to keep the binding that the launcher set",
         fmt::join(cpus, ","), std::strerror(errno));
  }
}

void apply(const CorePlan& plan) {
  omp_set_num_threads(plan.threads);
  if (plan.thread_cpus.empty()) return;
  if (cpus_before_binding().empty()) cpus_before_binding() = inherited_cpus();
  std::exception_ptr error;
#pragma omp parallel num_threads(plan.threads)
  {
    try {
      pin_this_thread(plan.thread_cpus[static_cast<size_t>(omp_get_thread_num())]);
    } catch (...) {
#pragma omp critical
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

AsBeforeBinding::AsBeforeBinding() {
  if (cpus_before_binding().empty()) return;
  bound_ = inherited_cpus();
  pin_this_thread(cpus_before_binding());
}

AsBeforeBinding::~AsBeforeBinding() {
  if (!bound_.empty()) run_on(bound_);
}

}  // namespace trireme
