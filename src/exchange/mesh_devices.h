#pragma once
// The devices of a job's ranks, connected by a library (tensor/device_network.h): those of all ranks by an id, which
// the ranks send each other, those of every other group by a split of the group that it is a part of. A communicator
// knows its devices, and make_stream_group() splits from them.

#include "comm/mesh.h"
#include "tensor/device.h"

namespace trireme {

/// Collective over `world`, all ranks of the job. The device has a network. Throws as DeviceNetwork::connect().
void connect_devices(Communicator& world, Device& device);

/// Collective over `whole`: connects the devices of `part`, whose ranks are some of it; part: nullptr on ranks that are
/// in none. Nothing if those of `whole` are not connected. Throws as DeviceLinks::split().
void split_devices(Communicator& whole, Communicator* part);

/// Those of a mesh and of its axes, while it is there; nothing if no library connects devices, or for one rank.
class MeshDevices {
 public:
  /// Collective over the mesh, which it borrows. Throws as connect_devices().
  MeshDevices(Mesh& mesh, Device& device);
  ~MeshDevices();
  MeshDevices(const MeshDevices&) = delete;
  MeshDevices& operator=(const MeshDevices&) = delete;

 private:
  Communicator& world_;
};

}  // namespace trireme
