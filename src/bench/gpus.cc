#include "bench/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "ops/gpu_library.h"

namespace trireme {

std::string shared_gpu(Scalars& scalars, const std::string& gpu, const std::string& host) {
  const std::vector<std::string> places = scalars.gather(fmt::format("{} of {}", gpu, host));
  for (size_t r = 0; r < places.size(); ++r) {
    const auto first = static_cast<size_t>(std::ranges::find(places, places[r]) - places.begin());
    if (first != r) return fmt::format("ranks {} and {} both use GPU {}; start one rank per GPU", first, r, places[r]);
  }
  return "";
}

namespace {

/// The GPUs of several ranks; nothing, and the log says why, if there is not one for each.
std::optional<Backend> gpus_of_ranks(bool automatic, std::string_view option, const GpuOptions& gpu,
                                     const RankContext& rank, Scalars& scalars) {
  std::optional<Backend> backend;
  std::string reason;
  together(scalars, [&] {
    try {
      backend = make_backend(DeviceChoice::cuda, option, gpu);
    } catch (const Error& e) {
      if (!automatic) throw;
      reason = e.what();
    }
  });
  const std::vector<std::string> reasons = scalars.gather(reason);
  const auto first = std::ranges::find_if(reasons, [](const std::string& text) { return !text.empty(); });
  if (first != reasons.end()) {
    if (rank.rank() == 0 && !gpu_library_path().empty())
      log::info("computing on CPUs: rank {}: {}", first - reasons.begin(), *first);
    return std::nullopt;
  }
  const std::string shared = shared_gpu(scalars, backend->gpu, rank.host);
  if (shared.empty()) return backend;
  if (!automatic) together(scalars, [&] { fail(ErrorKind::usage, "{}", shared); });
  if (rank.rank() == 0) log::info("computing on CPUs: {}", shared);
  return std::nullopt;
}

}  // namespace

Backend backend_of_ranks(DeviceChoice choice, std::string_view option, const RankContext& rank, Scalars& scalars,
                         bool cudnn) {
  GpuOptions gpu;
  gpu.cudnn = cudnn;
  gpu.ranks = rank.size();
  gpu.local_rank = rank.local_rank();
  Backend backend;
  if (rank.size() == 1 || choice == DeviceChoice::cpu)
    backend = make_backend(choice, option, gpu);
  else if (auto gpus = gpus_of_ranks(choice == DeviceChoice::automatic, option, gpu, rank, scalars))
    backend = std::move(*gpus);
  else
    backend = make_backend();
  together(scalars, [&] {
    require(!cudnn || backend.device, ErrorKind::usage, "--cudnn needs a GPU, and this measures the CPU; remove it");
  });
  return backend;
}

}  // namespace trireme
