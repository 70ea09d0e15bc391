#include "train/start/ranks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cgroup.h"
#include "base/device_place.h"
#include "base/error.h"
#include "base/folder_token.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/heartbeat.h"
#include "comm/proof.h"
#include "ops/gpu_library.h"
#include "train/start/resolve.h"

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
          config.names("--comm.reduce auto"));
  require(backend.device || config.precision.dtype != DType::f16, ErrorKind::config,
          "training in f16 is unsupported on CPUs, and this run computes on the CPU; set {}",
          config.names("--precision.dtype bf16"));
  return backend;
}

namespace {

/// A list of processors of each rank on this host, in local rank order, which is rank order. Hosts are distinguished as
/// MPI does, not by their names: in containers the ranks of a host may have several.
std::vector<Cpus> lists_of_host(const Process& process, Scalars& scalars, const Cpus& own) {
  std::vector<Cpus> lists;
  const std::vector<std::string> all = scalars.gather(format_cpu_list(own));
  const HostMap& hosts = process.hosts();
  for (const int rank : hosts.ranks_on(hosts.host_of(process.rank())))
    lists.push_back(parse_cpu_list(all[static_cast<size_t>(rank)]));
  return lists;
}

CoreRequest request_of(const LaunchOptions& launch, int64_t reserved, const Process& process, Scalars& scalars) {
  const bool inherit = launch.bind == Binding::inherit;
  CoreRequest request;
  request.local_rank = process.local_rank();
  request.offered = lists_of_host(process, scalars, inherit ? inherited_cpus() : offered_cpus());
  request.inherit = inherit;
  request.threads = static_cast<int>(launch.threads);
  request.communication_cores = static_cast<int>(reserved);
  request.communicates = process.size() > 1;
  request.sockets = sockets();
  request.quota = read_cgroup_limits().cpus;
  return request;
}

/// texts: of every rank.
void log_ranks(const std::vector<std::string>& texts) {
  for (size_t rank = 0; rank < texts.size(); ++rank) log::info("rank {}: {}", rank, texts[rank]);
}

}  // namespace

CorePlan take_cores(const LaunchOptions& launch, int64_t reserved, const Process& process, Scalars& scalars) {
  CorePlan plan = plan_cores(physical_cores(), request_of(launch, reserved, process, scalars));
  log_ranks(scalars.gather(plan.text));
  if (process.local_rank() == 0) {
    for (const std::string& warning : plan.warnings) log::warning("{}", warning);
  }
  apply(plan);
  return plan;
}

CorePlan take_cores(int64_t threads, const Process& process, Scalars& scalars) {
  LaunchOptions launch;
  launch.threads = threads;
  return take_cores(launch, CommOptions().cores, process, scalars);
}

CorePlan move_to_gpus(const CorePlan& before, const std::string& bus, const LaunchOptions& launch, int64_t reserved,
                      const Process& process, Scalars& scalars) {
  DevicePlace place;
  together(scalars, [&] { place = place_of_device(bus); });
  if (scalars.any(place.cpus.empty())) return before;
  CoreRequest request = request_of(launch, reserved, process, scalars);
  request.near = lists_of_host(process, scalars, place.cpus);
  CorePlan plan;
  together(scalars, [&] { plan = plan_cores(physical_cores(), request); });
  const bool far = std::ranges::find_first_of(plan.cpus, place.cpus) == plan.cpus.end();
  log_ranks(scalars.gather(
      fmt::format("GPU {}, {}: {}{}", bus, place.text(), plan.text,
                  far ? fmt::format("; near the GPU are processors {}", format_cpu_list(place.cpus)) : std::string())));
  for (const std::string& warning : plan.warnings) {
    if (process.local_rank() == 0 && std::ranges::find(before.warnings, warning) == before.warnings.end())
      log::warning("{}", warning);
  }
  together(scalars, [&] { apply(plan); });
  return plan;
}

std::string folder_apart(const std::string& folder, std::string_view option, Scalars& scalars, std::string_view host) {
  if (scalars.size() == 1) return {};
  const bool first = scalars.rank() == 0;
  const std::string token = scalars.broadcast(first ? token_name() : std::string());
  together(scalars, [&] {
    if (first) leave_token(folder, token);
  });
  const bool seen = find_token(folder, token, kTokenSeconds);
  std::error_code ignored;
  const auto blind = scalars.gather(seen ? std::string() : std::filesystem::absolute(folder, ignored).string());
  if (first) take_token(folder, token);
  std::vector<int> ranks;
  for (size_t r = 0; r < blind.size(); ++r) {
    if (!blind[r].empty()) ranks.push_back(static_cast<int>(r));
  }
  if (ranks.empty()) return {};
  const auto hosts = scalars.gather(host);
  return fmt::format(
      "the run folder is not the same on every host: {} {} not see in {} what rank 0 on {} wrote there, so snapshots "
      "would be incomplete; put it on a file system that all hosts share and name it with {}",
      names_of(ranks, hosts), ranks.size() == 1 ? "does" : "do", blind[static_cast<size_t>(ranks[0])], hosts[0],
      option);
}

void fetch_named(const hub::Named& named, const RankContext& rank, Scalars& scalars,
                 const std::function<std::string()>& stop_reason) {
  const auto alive = [&] {
    if (rank.heartbeat != nullptr) rank.heartbeat->move();
    const std::string reason = stop_reason ? stop_reason() : "";
    require(reason.empty(), ErrorKind::stopped,
            "{} while models and data were fetched: run the same command to continue", reason);
  };
  const auto need = [](const hub::Place& place, const std::string& name) {
    require(place.why_not.empty(), ErrorKind::io, "no folder {} on this host{}", name, place.why_not);
  };
  together(scalars, [&] {
    const std::vector<std::string> missing = still_to_fetch(named);
    if (missing.empty()) return;
    if (rank.local_rank() != 0) {
      log::info_all("waiting until another rank of {} has fetched {}", rank.host, fmt::join(missing, ", "));
      return;
    }
    if (!named.model.empty()) need(hub::place_of_model(named.model, alive), named.model);
    if (!named.tokenizer.empty()) need(hub::place_of_tokenizer(named.tokenizer, alive), named.tokenizer);
    if (!named.glue_task.empty()) need(hub::place_of_glue(named.glue_task, alive), "of " + named.glue_task);
  });
}

}  // namespace trireme
