#include "comm/mpi/library.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/host.h"

namespace trireme::mpi {
namespace {

namespace fs = std::filesystem;

struct Abi {
  std::string_view name, what;
  std::vector<std::string_view> libraries;  ///< their names, the usual one first
};
const std::vector<Abi>& abis() {
  static const std::vector<Abi> known = {
      {"openmpi", "Open MPI", {"libmpi.so.40"}},
      {"mpich", "MPICH and what has its ABI", {"libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12"}},
      {"abi", "MPI's standard ABI", {"libmpi_abi.so.1"}}};
  return known;
}
const Abi* find_abi(std::string_view name) {
  const auto found = std::ranges::find(abis(), name, &Abi::name);
  return found == abis().end() ? nullptr : &*found;
}

bool has_adapter(std::string_view abi, const Machine& machine) {
  return std::ranges::find(machine.adapters, abi) != machine.adapters.end();
}

/// The first of an ABI's libraries in the first folder that has one.
std::string find_in(const std::vector<std::string>& folders, const Abi& abi, const Machine& machine) {
  for (const std::string& folder : folders) {
    for (const std::string_view name : abi.libraries) {
      const std::string path = fmt::format("{}/{}", folder, name);
      if (machine.exists(path)) return path;
    }
  }
  return {};
}

/// Where an installation has the libraries of the program: PREFIX/lib for PREFIX/bin/mpirun.
std::vector<std::string> folders_beside(const std::string& program) {
  if (program.empty()) return {};
  const fs::path prefix = fs::path(program).parent_path().parent_path();
  std::vector<std::string> folders;
  for (const char* below : {"lib", "lib64", "lib/x86_64-linux-gnu", "lib64/openmpi/lib", "lib64/mpich/lib"})
    folders.push_back((prefix / below).string());
  return folders;
}

/// ABIs that can connect processes of this starter, the likeliest first.
std::vector<std::string_view> fitting_abis(const Launcher& launcher, const Environment& environment) {
  using Kind = Launcher::Kind;
  const char* plugin = environment("SLURM_MPI_TYPE");
  const bool pmix = environment("PMIX_RANK") || (plugin && std::string_view(plugin).starts_with("pmix"));
  switch (launcher.kind) {
    case Kind::open_mpi:
      return {"openmpi"};
    case Kind::mvapich:
      return {"mpich"};
    case Kind::pmi:
      return {"mpich", "abi"};
    case Kind::slurm:
      if (!pmix) return {"mpich", "abi", "openmpi"};
      [[fallthrough]];
    default:
      return {"openmpi", "mpich", "abi"};
  }
}

/// The kind of a library that a path names, by its file's name.
std::string_view abi_of_file(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  for (const Abi& abi : abis()) {
    for (const std::string_view library : abi.libraries) {
      if (name.starts_with(library)) return abi.name;
    }
  }
  return {};
}

std::string known_libraries() {
  std::vector<std::string> parts;
  for (const Abi& abi : abis()) parts.push_back(fmt::format("{} ({})", fmt::join(abi.libraries, ", "), abi.what));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string names_of_adapters(const Machine& machine) {
  return machine.adapters.empty() ? "none" : fmt::format("{}", fmt::join(machine.adapters, ", "));
}

/// The file that the dynamic linker reads an adapter from: in memory, for it looks at names only.
std::string memory_file(const EmbeddedAdapter& adapter) {
  const int file = memfd_create(adapter.abi.c_str(), MFD_CLOEXEC);
  require(file >= 0, ErrorKind::io, "cannot make a file in memory for the adapter of MPI: {}", std::strerror(errno));
  for (size_t done = 0; done < adapter.bytes.size();) {
    const ssize_t n = write(file, adapter.bytes.data() + done, adapter.bytes.size() - done);
    require(n > 0, ErrorKind::io, "cannot write the adapter of MPI to memory: {}", std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  return fmt::format("/proc/self/fd/{}", file);
}

Library wanted_library(const std::string& wanted, const Machine& machine) {
  const bool is_path = wanted.find('/') != std::string::npos;
  const std::string_view name = is_path ? abi_of_file(wanted) : std::string_view(wanted);
  const Abi* abi = find_abi(name);
  require(abi != nullptr, ErrorKind::config, "run.mpi is \"{}\", expected auto, openmpi, mpich, abi or the path of {}",
          wanted, known_libraries());
  require(has_adapter(abi->name, machine), ErrorKind::config,
          "run.mpi {}: this trireme has no adapter for {}; it has {}", wanted, abi->what, names_of_adapters(machine));
  if (is_path) {
    require(machine.exists(wanted), ErrorKind::config, "run.mpi {}: there is no such file", wanted);
    return {std::string(abi->name), wanted, "named by run.mpi"};
  }
  std::vector<std::string> folders = folders_beside(machine.starter);
  folders.insert(folders.end(), machine.folders.begin(), machine.folders.end());
  const std::string path = find_in(folders, *abi, machine);
  require(!path.empty(), ErrorKind::config, "run.mpi {}: found no {} in {}", wanted, fmt::join(abi->libraries, ", "),
          fmt::join(folders, ", "));
  return {std::string(abi->name), path, "named by run.mpi"};
}

/// The likeliest of the ABIs that have an adapter and a library in the folders. ordered: else two are an error, unless
/// one installation has both.
Library find_fitting(const std::vector<std::string_view>& fitting, const std::vector<std::string>& folders,
                     bool ordered, const Machine& machine) {
  std::optional<Library> found;
  for (const std::string_view name : fitting) {
    const std::string path = find_in(folders, *find_abi(name), machine);
    if (path.empty() || !has_adapter(name, machine)) continue;
    const bool same_place = found && fs::path(found->path).parent_path() == fs::path(path).parent_path();
    require(
        !found || ordered || same_place, ErrorKind::config,
        "two MPI libraries fit the starter of this process equally: {} and {}; name one with --run.mpi or TRIREME_MPI",
        found ? found->path : "", path);
    if (!found) found = Library{std::string(name), path, ""};
  }
  return found.value_or(Library());
}

const Adapter* open_adapter = nullptr;  // of this process, as MPI itself

}  // namespace

Machine this_machine() {
  const fs::path folder = fs::path(program_path()).parent_path();
  Machine machine{.exists =
                      [](const std::string& path) {
                        std::error_code missing;
                        return fs::exists(path, missing);
                      },
                  .adapters = {},
                  .starter = {},
                  .folders = {}};
  for (const EmbeddedAdapter& adapter : embedded_adapters()) machine.adapters.push_back(adapter.abi);
  std::error_code unknown;
  machine.starter = fs::read_symlink(fmt::format("/proc/{}/exe", getppid()), unknown).string();
  const char* path = std::getenv("LD_LIBRARY_PATH");
  std::istringstream words(path ? path : "");
  for (std::string word; std::getline(words, word, ':');) {
    if (!word.empty()) machine.folders.push_back(word);
  }
  machine.folders.push_back((folder.parent_path() / "lib").string());  // a virtual environment's
  for (const char* usual :
       {"/usr/local/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib",
        "/usr/lib64/openmpi/lib", "/usr/lib64/mpich/lib", "/opt/cray/pe/lib64"})
    machine.folders.emplace_back(usual);
  return machine;
}

Library choose_library(const std::string& wanted, const Launcher& launcher, const Environment& environment,
                       const Machine& machine) {
  const char* variable = environment("TRIREME_MPI");
  const std::string wish = !wanted.empty() && wanted != "auto" ? wanted : variable ? variable : "auto";
  if (wish != "auto" && !wish.empty()) return wanted_library(wish, machine);
  const std::vector<std::string_view> fitting = fitting_abis(launcher, environment);
  Library library = find_fitting(fitting, folders_beside(machine.starter), true, machine);
  library.why = "beside the program that started this process";
  if (library.abi.empty()) {
    library = find_fitting(fitting, machine.folders, launcher.kind != Launcher::Kind::pmi, machine);
    library.why = "where the loader looks";
  }
  if (library.abi.empty()) {
    std::vector<std::string_view> names;
    for (const std::string_view name : fitting) {
      const Abi& abi = *find_abi(name);
      names.insert(names.end(), abi.libraries.begin(), abi.libraries.end());
    }
    library.why = fmt::format("found no {} for which there is an adapter (here: {})", fmt::join(names, ", "),
                              names_of_adapters(machine));
  }
  return library;
}

std::vector<std::string> usable_abis(const Machine& machine) {
  std::vector<std::string> usable;
  for (const Abi& abi : abis()) {
    if (has_adapter(abi.name, machine) && !find_in(machine.folders, abi, machine).empty())
      usable.emplace_back(abi.name);
  }
  return usable;
}

void open_library(const Library& library) {
  if (is_open()) return;
  // MPI's own plug-ins look for its functions among all that is loaded. Neither is ever closed: MPI keeps threads.
  if (dlopen(library.path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    fail(ErrorKind::config, "the MPI library cannot be opened: {}; name another with --run.mpi or TRIREME_MPI",
         dlerror());
  const std::vector<EmbeddedAdapter> adapters = embedded_adapters();
  const auto own = std::ranges::find(adapters, library.abi, &EmbeddedAdapter::abi);
  require(own != adapters.end(), ErrorKind::config, "there is no adapter for {}", library.path);
  void* adapter = dlopen(memory_file(*own).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (adapter == nullptr)
    fail(ErrorKind::config, "{} is not a library of the ABI \"{}\", or is too old: {}", library.path, library.abi,
         dlerror());
  auto* get = reinterpret_cast<GetAdapter*>(dlsym(adapter, kGetAdapter));
  require(get != nullptr, ErrorKind::config, "the adapter of MPI has no {}", kGetAdapter);
  open_adapter = get();
}

bool is_open() { return open_adapter != nullptr; }

const Adapter& adapter() {
  require(is_open(), ErrorKind::comm, "no MPI library is open: this process was started without mpirun or srun");
  return *open_adapter;
}

void check(int code, std::string_view call) {
  if (code == 0) return;
  char text[1024] = "";
  adapter().reason(code, text, sizeof text);
  fail(ErrorKind::comm, "{} failed: {}; another rank may have ended, see its messages", call, text);
}

}  // namespace trireme::mpi
