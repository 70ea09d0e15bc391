#include "cuda/find_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

constexpr bool is_13(int runtime) { return runtime >= 13000; }

}  // namespace

LibraryName cublaslt_for(int runtime) {
  static constexpr const char* kNewest[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  static constexpr const char* kOldest[] = {"libcublasLt.so.12", "libcublasLt.so.13"};
  if (is_13(runtime)) return {"cuBLASLt", kNewest, "nvidia-cublas"};
  return {"cuBLASLt", kOldest, "nvidia-cublas-cu12"};
}

LibraryName cuda_runtime_for(int runtime) {
  static constexpr const char* kNewest[] = {"libcudart.so.13", "libcudart.so.12"};
  static constexpr const char* kOldest[] = {"libcudart.so.12", "libcudart.so.13"};
  if (is_13(runtime)) return {"the CUDA runtime", kNewest, "nvidia-cuda-runtime"};
  return {"the CUDA runtime", kOldest, "nvidia-cuda-runtime-cu12"};
}

LibraryName cudnn_for(int runtime) {
  static constexpr const char* kFiles[] = {"libcudnn.so.9"};
  return {"cuDNN", kFiles, is_13(runtime) ? "nvidia-cudnn-cu13" : "nvidia-cudnn-cu12"};
}

LibraryName nccl_for(int runtime) {
  static constexpr const char* kFiles[] = {"libnccl.so.2"};
  return {"NCCL", kFiles, is_13(runtime) ? "nvidia-nccl-cu13" : "nvidia-nccl-cu12"};
}

void* open_library(const LibraryName& library) {
  std::vector<std::string> places;
  for (const std::string file : library.files) {
    places.push_back(file);
    if (const char* home = std::getenv("CUDA_HOME")) places.push_back(fmt::format("{}/lib64/{}", home, file));
    places.push_back("/usr/local/cuda/lib64/" + file);
  }
  for (const std::string& place : places)
    if (void* opened = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
  fail(ErrorKind::usage,
       "{} was not found, looked for {}; set CUDA_HOME to the folder of a CUDA toolkit, or get it with \"pip install "
       "{}\" and add the folder of its {} to LD_LIBRARY_PATH",
       library.name, fmt::join(places, ", "), library.package, library.files.front());
}

}  // namespace trireme
