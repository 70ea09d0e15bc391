#pragma once
// Collectives of the library that connects GPUs (NCCL), as `bench comm` measures them.

#include <memory>
#include <string>

#include "bench/comm/options.h"
#include "comm/collectives.h"
#include "comm/communicator.h"
#include "ops/ops.h"

namespace trireme::comm_bench {

/// Collective over the group, whose GPUs are connected (exchange/mesh_devices.h). bytes: of the longest array. Borrows
/// the operators.
std::unique_ptr<Collectives> make_device_collectives(Communicator& group, Ops& ops, int64_t bytes);

/// Throws Error::usage for what is measured on CPUs only, naming what to leave out or to add.
void require_device_collectives(const std::vector<Subject>& subjects, const Options& options);
/// The subjects of "all" on GPUs.
std::vector<std::string> device_subjects();

}  // namespace trireme::comm_bench
