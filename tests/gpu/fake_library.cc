// In place of libtrireme_cuda.so: gives the operators of the CPU. With FAKE_INTERFACE it claims to be of another build.

#include "gpu_interface.h"
#include "ops/gpu_library.h"

#ifndef FAKE_INTERFACE
#define FAKE_INTERFACE TRIREME_GPU_INTERFACE
#endif

extern "C" {

extern const char trireme_gpu_interface[];
const char trireme_gpu_interface[] = FAKE_INTERFACE;

void trireme_make_gpu_backend(trireme::Backend& backend, const trireme::GpuOptions&) {
  backend.ops = trireme::make_cpu_ops();
  backend.hardware = "a GPU";
}

}  // extern "C"
