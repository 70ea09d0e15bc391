#pragma once
// The stream that kernels are launched on: CUDA's, which the executor of the tests does not look at.

#include "tensor/device.h"

struct CUstream_st;

namespace trireme {

namespace gpu {
using Stream = CUstream_st*;
}

/// CUDA's stream of one that the backend's device made; its GPU becomes the calling thread's.
gpu::Stream gpu_stream(DeviceStream& stream);

}  // namespace trireme
