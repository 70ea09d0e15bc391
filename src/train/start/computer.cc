#include "train/start/computer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/option_name.h"
#include "comm/agreement.h"
#include "ops/gpu_library.h"
#include "train/start/runnable.h"

namespace trireme {
namespace {

constexpr const char* kNoLibrary = "this build has no libtrireme_cuda.so beside the program";

/// Why the GPUs of several ranks do not train with these options; empty: they do.
std::string reason_against(const Config& config, const MeshShape& mesh) {
  if (config.run.tune)
    return "run.tune times the products of one GPU, and several ranks would choose differently; remove it";
  return reason_against_gpus(config, mesh.data);
}

/// The GPU of one of several ranks.
Backend open_gpu(const Config& config, const MeshShape& mesh, const GpuOptions& gpu) {
  const std::string against = reason_against(config, mesh);
  require(against.empty(), ErrorKind::config, "{}", against);
  return make_backend(DeviceChoice::cuda, "run.device", gpu);
}

}  // namespace

std::string shared_gpu(Scalars& scalars, const std::string& gpu, const std::string& host) {
  const std::vector<std::string> places = scalars.gather(fmt::format("{} of {}", gpu, host));
  for (size_t r = 0; r < places.size(); ++r) {
    const auto first = static_cast<size_t>(std::ranges::find(places, places[r]) - places.begin());
    if (first != r)
      return fmt::format(
          "ranks {} and {} both use GPU {}, which NCCL does not connect with itself; start one rank per GPU "
          "(CUDA_VISIBLE_DEVICES may hide some)",
          first, r, places[r]);
  }
  return {};
}

Backend backend_of_several(bool automatic, const std::function<Backend()>& open, const RankContext& rank,
                           Scalars& scalars) {
  std::optional<Backend> backend;
  std::string reason;
  together(scalars, [&] {
    try {
      if (automatic && gpu_library_path().empty()) fail(ErrorKind::usage, "{}", kNoLibrary);
      backend = open();
    } catch (const Error& e) {
      if (!automatic || e.kind() == ErrorKind::data) throw;  // a file of this run is malformed: as with one rank
      reason = e.what();
    }
  });
  const std::vector<std::string> reasons = scalars.gather(reason);
  const auto first = std::ranges::find_if(reasons, [](const std::string& text) { return !text.empty(); });
  if (first == reasons.end()) {
    const std::string shared = shared_gpu(scalars, backend->gpu, rank.host);
    if (shared.empty()) return std::move(*backend);
    if (!automatic) together(scalars, [&] { fail(ErrorKind::usage, "{}", shared); });
    if (rank.rank() == 0) log::info("computing on CPUs: {}", shared);
  } else if (rank.rank() == 0 && std::ranges::any_of(reasons, [](const auto& text) { return text != kNoLibrary; })) {
    log::info("computing on CPUs: rank {}: {}", first - reasons.begin(), *first);
  }
  return make_backend();
}

Backend choose_backend(const Config& config, const MeshShape& mesh, const RankContext& rank, Scalars& scalars) {
  // A run that resumes without run.tune keeps the methods, and with them the order of its sums.
  const GpuOptions gpu{.products = config.run.dir + "/products.jsonl",
                       .tune = config.run.tune,
                       .cudnn = config.run.cudnn,
                       .ranks = rank.size(),
                       .local_rank = rank.local_rank()};
  Backend backend = config.run.device == DeviceChoice::cpu || rank.size() == 1
                        ? make_backend(config.run.device, "run.device", gpu)
                        : backend_of_several(
                              config.run.device == DeviceChoice::automatic, [&] { return open_gpu(config, mesh, gpu); },
                              rank, scalars);
  require(!config.run.tune || !config.evaluation.only, ErrorKind::config,
          "run.tune times products of training and keeps them in the run folder, and with evaluation.only nothing is "
          "trained; remove it");
  for (const auto& [asked, name] : {std::pair{config.run.tune, "run.tune"}, std::pair{config.run.cudnn, "run.cudnn"}})
    require(backend.device || !asked, ErrorKind::config,
            "{} is set, which needs a GPU, and this run computes on the CPU; remove it", name);
  require(backend.device || config.comm.reduce != ReduceOrder::nccl, ErrorKind::config,
          "comm.reduce is nccl, which adds gradients between GPUs, and this run computes on the CPU; set {}",
          option_name("--comm.reduce auto"));
  require(backend.device || config.precision.dtype != DType::f16, ErrorKind::config,
          "training in f16 is unsupported on CPUs, and this run computes on the CPU; set {}",
          option_name("--precision.dtype bf16"));
  return backend;
}

}  // namespace trireme
