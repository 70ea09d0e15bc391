#pragma once
// A GPU as a device of tensors: memory, streams, events. Calls of the CUDA runtime that fail throw Error::io with what
// was called and the runtime's answer.

#include <memory>
#include <string>
#include <utility>

#include "tensor/device.h"
#include "tensor/device_network.h"

namespace trireme {

class CudaDevice : public Device {
 public:
  /// "NVIDIA H100 80GB HBM3, compute capability 9.0, driver 13.0, runtime 13.0"
  virtual std::string description() const = 0;
  /// "0000:3b:00.0", its address on the host's bus.
  virtual std::string bus_id() const = 0;
  std::string_view name() const override { return "cuda"; }
  DeviceNetwork* network() override { return network_.get(); }
  void set_network(std::unique_ptr<DeviceNetwork> network) { network_ = std::move(network); }

 private:
  std::unique_ptr<DeviceNetwork> network_;
};

/// GPU `index` of this process. Throws Error::usage where there is none, with what the driver says.
std::unique_ptr<CudaDevice> make_cuda_device(int index = 0);

/// How many GPUs CUDA shows to this process; 0 if it cannot say.
int visible_gpus();

}  // namespace trireme
