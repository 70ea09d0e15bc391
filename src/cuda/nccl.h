#pragma once
// GPUs of several processes, connected by NCCL. Communicators do not block, so that every wait has an end. All ranks
// are connected by an id, groups by ncclCommSplit (exchange/mesh_devices.h); they share no resources, so each has the
// memory of a communicator of its own.

#include <chrono>
#include <memory>

#include "cuda/nccl_library.h"
#include "tensor/device_network.h"

namespace trireme {

class Device;

/// device: whose tensors are sent. limit: the longest wait for the other ranks of a group, to connect and to begin
/// what they send.
std::unique_ptr<DeviceNetwork> make_nccl_network(Device& device, const nccl::Library& library,
                                                 std::chrono::duration<double> limit = std::chrono::seconds(120));

}  // namespace trireme
