#pragma once

namespace trireme {

/// Throws Error::io unless `answer`, a cudaError_t, is success.
void check_cuda(int answer, const char* call);

namespace gpu {
/// Throws Error::io when the launch of `kernel` just made was refused.
void check_launch(const char* kernel);
/// Bytes of shared memory that a block can have on the calling thread's GPU.
int shared_memory_limit();
/// Lets launches of the kernel have more than 48 KiB of shared memory.
void allow_shared_memory(const void* kernel, int bytes);
}  // namespace gpu

}  // namespace trireme
