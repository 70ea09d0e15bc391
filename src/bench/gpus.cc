#include "bench/gpus.h"

#include "base/error.h"
#include "comm/agreement.h"
#include "train/start/computer.h"

namespace trireme {

Backend backend_of_ranks(DeviceChoice choice, std::string_view option, const RankContext& rank, Scalars& scalars,
                         bool cudnn) {
  GpuOptions gpu;
  gpu.cudnn = cudnn;
  gpu.ranks = rank.size();
  gpu.local_rank = rank.local_rank();
  const auto open = [&] { return make_backend(DeviceChoice::cuda, option, gpu); };
  Backend backend = rank.size() == 1 || choice == DeviceChoice::cpu
                        ? make_backend(choice, option, gpu)
                        : backend_of_several(choice == DeviceChoice::automatic, open, rank, scalars);
  together(scalars, [&] {
    require(!cudnn || backend.device, ErrorKind::usage, "--cudnn needs a GPU, and this measures the CPU; remove it");
  });
  return backend;
}

}  // namespace trireme
