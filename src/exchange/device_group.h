#pragma once
// A StreamGroup of a device whose ranks a library connects (tensor/device_network.h). Calls are issued at once, by the
// calling thread, to streams of the group's own: what a sum is made of, casts, messages and the addition in rank order,
// follows in one of them without a wait of the host. Sends and receives have a stream and a connection each, so that a
// message that waits for its peer delays no other one.

#include <memory>

#include "comm/communicator.h"
#include "comm/stream_group.h"
#include "exchange/message_group.h"
#include "ops/ops.h"
#include "tensor/device_network.h"

namespace trireme {

/// Most bytes that a rank sends to another one of a chunk: as much as NCCL's own buffers hold by default
/// (NCCL_BUFFSIZE). Not yet measured between GPUs.
constexpr size_t kDeviceChunkBytes = 4 << 20;
/// Most elements per rank of a chunk: fewer than kDeviceChunkBytes if the buffers of many ranks would exceed 64 MiB.
int64_t device_chunk_limit(int ranks, DType wire);

/// make_stream_group() for a device with a network: connections are split from those of the axis (mesh_devices.h),
/// which an axis of several ranks must have. All calls of a process are made by one thread. GroupOptions::cpus, pace
/// and thread are not used.
std::unique_ptr<StreamGroup> make_device_group(Communicator& axis, Ops& ops, const GroupOptions& options);

/// Memory that it allocates.
size_t device_group_bytes(int ranks, const GroupOptions& options);

}  // namespace trireme
