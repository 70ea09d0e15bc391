#include "ops/gpu_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/host.h"
#include "gpu_interface.h"

namespace trireme {
namespace {

constexpr const char* kName = "libtrireme_cuda.so";

template <class T>
T* find(void* library, const std::string& path, const char* name) {
  void* symbol = dlsym(library, name);
  require(symbol != nullptr, ErrorKind::usage, "{} has no {}: it is not the GPU library of this program", path, name);
  return reinterpret_cast<T*>(symbol);
}

}  // namespace

std::string gpu_library_path() {
  const std::filesystem::path folder = std::filesystem::path(program_path()).parent_path();
  for (const std::filesystem::path& place : {folder / kName, folder.parent_path() / "lib/trireme" / kName}) {
    std::error_code missing;
    if (std::filesystem::exists(place, missing)) return place;
  }
  return {};
}

Backend open_gpu_backend(const std::string& library, const GpuOptions& options) {
  // Never closed: kernels and handles live as long as the process.
  void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) fail(ErrorKind::usage, "the GPU library cannot be opened: {}", dlerror());
  require(find<const char>(opened, library, kGpuInterface) == std::string_view(TRIREME_GPU_INTERFACE), ErrorKind::usage,
          "{} is of another build than this program; build both together: scripts/build release-cuda", library);
  Backend backend;
  find<MakeGpuBackend>(opened, library, kMakeGpuBackend)(backend, options);
  return backend;
}

UsableGpu usable_gpu() {
  const std::string library = gpu_library_path();
  if (library.empty()) return {"", "this build has no libtrireme_cuda.so (docs/gpu.md)"};
  UsableGpu usable;
  try {
    usable.hardware = open_gpu_backend(library).hardware;
  } catch (const Error& e) {
    return {"", e.what()};
  }
  try {
    void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // again
    find<DescribeGpuNetwork>(opened, library, kDescribeGpuNetwork)(usable.network);
  } catch (const Error& e) {
    usable.why_no_network = e.what();
  }
  return usable;
}

}  // namespace trireme
