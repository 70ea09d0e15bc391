#include "train/job.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_text.h"
#include "base/stop.h"
#include "comm/agreement.h"
#include "comm/proof.h"
#include "config/document.h"
#include "train/cores.h"
#include "train/resolve_ranks.h"
#include "train/shared_folder.h"

namespace trireme {

int run_job(const JobRequest& request, Process& process, const std::function<RunEnd(const Job&)>& work) {
  stop::install();
  const Config& config = request.config;
  Scalars scalars(process.world());
  prove_one_job(scalars, process.host(), dump_json(to_json(config), 1) + request.proof, request.version);
  MeshShape mesh;
  together(scalars, [&] {
    mesh = mesh_of(config.mesh, process.size(), process.launcher().name);
    require_hosts(config, mesh, process.hosts());
  });
  if (request.look) request.look(scalars);
  PeerWatch peers(config, mesh, process, scalars, process.heartbeat());
  const CorePlan cores = take_cores(config, process, scalars);
  std::optional<RunClaim> claim;
  const auto asked = [&] { return claim ? claim->stop_request() : peers.stop_request(); };
  const auto reason = [&] {
    const std::optional<StopRequest> wish = asked();
    return wish ? wish->why : stop::reason();
  };
  const RankContext rank = rank_context(process, cores.threads, [&] { return stop::requested() || asked(); });
  return run_to_end(claim, process, peers, [&]() -> RunEnd {
    // Nobody looks into the folder before rank 0 owns it.
    together(scalars, [&] {
      if (request.writes) claim.emplace(config, process, peers);
    });
    if (claim) prove_shared_folder(config.run.dir, request.folder_option, scalars, process.host());
    return work({.rank = rank,
                 .scalars = scalars,
                 .mesh = mesh,
                 .cores = cores,
                 .claim = claim ? &*claim : nullptr,
                 .stop_reason = reason});
  });
}

}  // namespace trireme
