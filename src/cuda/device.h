#pragma once
// A GPU as a device of tensors: memory, streams, events. Calls of the CUDA runtime that fail throw Error::io with what
// was called and the runtime's answer.

#include <memory>
#include <string>

#include "tensor/device.h"

namespace trireme {

class CudaDevice : public Device {
 public:
  /// "NVIDIA H100 80GB HBM3, compute capability 9.0, driver 13.0, runtime 13.0"
  virtual std::string description() const = 0;
  virtual std::string_view name() const override { return "cuda"; }
};

/// GPU `index` of this process. Throws Error::usage where there is none, with what the driver says.
std::unique_ptr<CudaDevice> make_cuda_device(int index = 0);

}  // namespace trireme
