#include "ops/backend.h"

#include "base/error.h"
#include "base/log.h"
#include "ops/gpu_library.h"

namespace trireme {

Backend make_backend(DeviceChoice choice, std::string_view option, const GpuOptions& gpu) {
  if (choice == DeviceChoice::cpu) return make_backend();
  const std::string library = gpu_library_path();
  if (choice == DeviceChoice::cuda) {
    require(!library.empty(), ErrorKind::usage,
            "{} is cuda, but this build has no libtrireme_cuda.so beside the program; scripts/build release-cuda makes "
            "one if nvcc is installed (docs/gpu.md)",
            option);
    return open_gpu_backend(library, gpu);
  }
  if (library.empty()) return make_backend();
  try {
    return open_gpu_backend(library, gpu);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::data) throw;  // a file of this run is malformed: no reason to compute elsewhere
    log::info("computing on the CPU: {}", e.what());
    return make_backend();
  }
}

Backend make_backend_of_one(DeviceChoice choice, int ranks, std::string_view option) {
  if (ranks == 1) return make_backend(choice, option);
  require(choice != DeviceChoice::cuda, ErrorKind::config,
          "{} is cuda, but the job has {} ranks: only training and bench use the GPUs of several ranks", option, ranks);
  if (choice == DeviceChoice::automatic && !gpu_library_path().empty())
    log::info("computing on CPUs: only training and bench use the GPUs of several ranks");
  return make_backend();
}

}  // namespace trireme
