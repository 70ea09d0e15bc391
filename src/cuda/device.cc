#include "cuda/device.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <array>
#include <atomic>

#include "base/error.h"
#include "base/log.h"
#include "cuda/check.h"
#include "cuda/stream.h"

namespace trireme {
namespace {

class CudaPoint final : public Event::State {
 public:
  CudaPoint(cudaEvent_t event, int device) : event_(event), device_(device) {}
  ~CudaPoint() override { cudaEventDestroy(event_); }
  CudaPoint(const CudaPoint&) = delete;
  CudaPoint& operator=(const CudaPoint&) = delete;
  void wait() override {
    check_cuda(cudaSetDevice(device_), "cudaSetDevice");
    check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }
  bool reached() override {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    check_cuda(state, "cudaEventQuery");
    return true;
  }
  void hold(DeviceStream& stream) override {
    check_cuda(cudaStreamWaitEvent(gpu_stream(stream), event_, 0), "cudaStreamWaitEvent");
  }
  double seconds_since(const State& earlier) const override {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, dynamic_cast<const CudaPoint&>(earlier).event_, event_),
               "cudaEventElapsedTime");
    return static_cast<double>(ms) / 1e3;
  }

 private:
  cudaEvent_t event_;
  int device_;
};

}  // namespace

class CudaStream final : public DeviceStream {
 public:
  explicit CudaStream(int device) : device_(device) {
    use();
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~CudaStream() override { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  Event record() override { return record(cudaEventDisableTiming); }
  Event record_time() override { return record(cudaEventDefault); }
  void copy(ConstView from, View to) override {
    if (from.bytes() == 0) return;
    copy_later(from, to);  // of pageable memory, the runtime has taken its own copy when it returns
    if (!to.device()) check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  void copy_later(ConstView from, View to) override {
    if (from.bytes() == 0) return;
    use();
    check_cuda(cudaMemcpyAsync(to.data(), from.data(), from.bytes(), cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  }
  /// The stream of calls that follow in this thread.
  gpu::Stream use() {
    check_cuda(cudaSetDevice(device_), "cudaSetDevice");
    return stream_;
  }

 private:
  Event record(unsigned flags) {
    use();
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
    auto point = std::make_shared<CudaPoint>(event, device_);
    check_cuda(cudaEventRecord(event, stream_), "cudaEventRecord");
    return Event(std::move(point));
  }

  int device_;
  cudaStream_t stream_ = nullptr;
};

namespace {

/// "13.0" of 13000
std::string version_text(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

const char* advice(cudaError_t answer) {
  switch (answer) {
    case cudaErrorInsufficientDriver:
      return "install a driver that is at least as new as the runtime; nvidia-smi shows the installed one";
    case cudaErrorNoDevice:
      return "CUDA_VISIBLE_DEVICES may hide them; nvidia-smi shows what the driver sees";
    default:
      return "nvidia-smi shows what the driver sees";
  }
}

class OneCudaDevice final : public CudaDevice {
 public:
  explicit OneCudaDevice(int index) : index_(index), stream_(index) {}
  std::string description() const override {
    cudaDeviceProp properties{};
    int driver = 0, runtime = 0;
    check_cuda(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
    check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    check_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    return fmt::format("{}, compute capability {}.{}, driver {}, runtime {}", properties.name, properties.major,
                       properties.minor, version_text(driver), version_text(runtime));
  }
  std::string bus_id() const override {
    std::array<char, 32> text{};
    check_cuda(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), index_), "cudaDeviceGetPCIBusId");
    return text.data();
  }
  std::byte* allocate(size_t bytes) override {
    stream_.use();
    void* memory = nullptr;
    const cudaError_t answer = cudaMalloc(&memory, bytes);
    if (answer == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is reported once
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      fail(ErrorKind::io, "GPU {} has {} of {} MiB free, {} MiB are needed", index_, free >> 20, total >> 20,
           bytes >> 20);
    }
    check_cuda(answer, "cudaMalloc");
    check_cuda(cudaMemset(memory, 0, bytes), "cudaMemset");
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // before work of any stream
    return static_cast<std::byte*>(memory);
  }
  void free(std::byte* memory, size_t) noexcept override {
    cudaSetDevice(index_);
    check_freed(cudaFree(memory), "cudaFree");
  }
  std::byte* allocate_pinned(size_t bytes) override {
    stream_.use();
    void* memory = nullptr;
    const cudaError_t answer = cudaHostAlloc(&memory, bytes, cudaHostAllocDefault);
    if (answer == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is reported once
      fail(ErrorKind::io,
           "cannot pin {} MiB of host memory for GPU {}; free memory of the node, or raise the limit of locked memory "
           "(ulimit -l)",
           (bytes >> 20) + 1, index_);
    }
    check_cuda(answer, "cudaHostAlloc");
    return static_cast<std::byte*>(memory);
  }
  void free_pinned(std::byte* memory, size_t) noexcept override {
    cudaSetDevice(index_);
    check_freed(cudaFreeHost(memory), "cudaFreeHost");
  }
  /// Memory of a GPU is not given back in parts.
  void release(std::byte*, size_t) override {}
  DeviceMemory memory() const override {
    check_cuda(cudaSetDevice(index_), "cudaSetDevice");
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {free, total};
  }
  DeviceStream& stream() override { return stream_; }
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<CudaStream>(index_); }

 private:
  /// After a fault of the GPU every call fails, and memory is freed while that fault is on its way as an exception.
  static void check_freed(cudaError_t answer, const char* call) noexcept {
    static std::atomic<bool> said = false;
    if (answer == cudaSuccess || said.exchange(true)) return;
    try {
      log::warning("{} failed: {}; memory stays allocated until the process ends", call, cudaGetErrorString(answer));
    } catch (...) {  // no memory for a message
    }
  }

  int index_;
  CudaStream stream_;
};

}  // namespace

int visible_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::unique_ptr<CudaDevice> make_cuda_device(int index) {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t answer = cudaGetDeviceCount(&count);
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  require(answer == cudaSuccess && index < count, ErrorKind::usage,
          "GPU {} cannot be used: {} GPUs were found; the CUDA runtime {} says \"{}\" (code {}), the driver is {}; {}",
          index, answer == cudaSuccess ? count : 0, version_text(runtime), cudaGetErrorString(answer),
          static_cast<int>(answer), driver == 0 ? "missing" : "for CUDA " + version_text(driver), advice(answer));
  int major = 0, minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index), "cudaDeviceGetAttribute");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index), "cudaDeviceGetAttribute");
  require(major >= 8, ErrorKind::usage,
          "GPU {} cannot be used: it has compute capability {}.{}, the kernels need 8.0 (A100) or more", index, major,
          minor);
  return std::make_unique<OneCudaDevice>(index);
}

gpu::Stream gpu_stream(DeviceStream& stream) { return static_cast<CudaStream&>(stream).use(); }

void check_cuda(int answer, const char* call) {
  if (answer != cudaSuccess)
    fail(ErrorKind::io, "{} failed: {}", call, cudaGetErrorString(static_cast<cudaError_t>(answer)));
}

void gpu::check_launch(const char* kernel) {
  const cudaError_t answer = cudaGetLastError();
  if (answer != cudaSuccess)
    fail(ErrorKind::io, "the GPU refused to run the kernel {}: {}", kernel, cudaGetErrorString(answer));
}

int gpu::shared_memory_limit() {
  int device = 0, bytes = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "cudaDeviceGetAttribute");
  return bytes;
}

void gpu::allow_shared_memory(const void* kernel, int bytes) {
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "cudaFuncSetAttribute");
}

}  // namespace trireme
