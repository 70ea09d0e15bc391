#include "exchange/mesh_devices.h"

#include <cstdint>

#include "tensor/device_network.h"

namespace trireme {

void connect_devices(Communicator& world, Device& device) {
  DeviceNetwork& network = *device.network();
  DeviceNetwork::Id id{};
  if (world.rank() == 0) id = network.make_id();
  world.broadcast(View(id.data(), DType::u8, {static_cast<int64_t>(id.size())}), 0).wait("the name of the job's GPUs");
  world.set_devices({});  // those of an earlier session
  world.set_devices(network.connect(id, world.rank(), world.size()));
}

void split_devices(Communicator& whole, Communicator* part) {
  if (!whole.devices()) return;
  if (part && part->size() == whole.size()) return part->set_devices(whole.devices());
  std::optional<int> color;
  if (part && part->size() > 1) {
    int32_t first = whole.rank();  // in `whole`, which no other part has
    part->broadcast(View(&first, DType::i32, {1}), 0).wait("the name of a group of GPUs");
    color = first;
  }
  std::unique_ptr<DeviceLinks> devices = whole.devices()->split(color, part ? part->rank() : 0, LinkUse::splits);
  if (part) part->set_devices(std::move(devices));
}

MeshDevices::MeshDevices(Mesh& mesh, Device& device) : world_(mesh.world()) {
  if (device.network() == nullptr || world_.size() == 1) return;
  try {
    connect_devices(world_, device);
    for (Communicator* axis : {&mesh.data(), &mesh.tensor(), &mesh.pipeline()})
      if (axis->size() > 1) split_devices(world_, axis);
  } catch (...) {
    world_.set_devices({});
    throw;
  }
}

MeshDevices::~MeshDevices() { world_.set_devices({}); }

}  // namespace trireme
