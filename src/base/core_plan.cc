// The decision of base/affinity.h: arithmetic on lists of processors.

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/affinity.h"
#include "base/count.h"
#include "base/error.h"

namespace trireme {
namespace {

Cpus intersection(const Cpus& a, const Cpus& b) {
  Cpus both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

Cpus united(const std::vector<Cpus>& lists) {
  Cpus all;
  for (const Cpus& cpus : lists) all.insert(all.end(), cpus.begin(), cpus.end());
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// The parts of each core that are in `cpus`.
std::vector<Cpus> cores_in(const std::vector<Cpus>& cores, const Cpus& cpus) {
  std::vector<Cpus> parts;
  for (const Cpus& core : cores) {
    if (Cpus part = intersection(core, cpus); !part.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

/// One rank's share.
struct Share {
  std::vector<Cpus> cores;
  size_t threads = 1;    ///< one per core of the smallest share on the host, so that all ranks have the same number
  bool crowded = false;  ///< other ranks compute on the same cores
};

/// The share of cores near the rank's GPU; nullopt: some rank has too few there, or places overlap in part.
std::optional<Share> share_near(const std::vector<Cpus>& cores, const CoreRequest& request) {
  const auto rank = static_cast<size_t>(request.local_rank), ranks = request.offered.size();
  if (request.near.size() != ranks) return {};
  const Cpus offered = united(request.offered);
  Share share;
  share.threads = cores.size();
  for (size_t r = 0; r < ranks; ++r) {
    const std::vector<Cpus> all = cores_in(cores, intersection(offered, request.near[r]));
    const auto same = [&](size_t other) { return request.near[other] == request.near[r]; };
    size_t before = 0, sharers = 0;
    for (size_t other = 0; other < ranks; ++other) {
      if (!same(other) && !intersection(request.near[other], request.near[r]).empty()) return {};
      sharers += same(other) ? 1 : 0;
      before += other < r && same(other) ? 1 : 0;
    }
    const size_t n = all.size();
    if (n < sharers) return {};
    share.threads = std::min(share.threads, n / sharers);
    if (r != rank) continue;
    share.cores.assign(all.begin() + static_cast<std::ptrdiff_t>(before * n / sharers),
                       all.begin() + static_cast<std::ptrdiff_t>((before + 1) * n / sharers));
  }
  return share;
}

Share share_of(const std::vector<Cpus>& cores, const CoreRequest& request) {
  const auto rank = static_cast<size_t>(request.local_rank), ranks = request.offered.size();
  const Cpus& own = request.offered[rank];
  const bool alone = std::ranges::all_of(
      request.offered, [&](const Cpus& other) { return &other == &own || intersection(own, other).empty(); });
  if (!request.inherit && (!alone || ranks == 1)) {
    if (std::optional<Share> share = share_near(cores, request)) return *share;
  }
  if (request.inherit || alone) {
    std::vector<Cpus> mine = cores_in(cores, own);
    return {mine, mine.size(), !alone};
  }
  const std::vector<Cpus> all = cores_in(cores, united(request.offered));
  const size_t n = all.size();
  if (n == 0) return {};
  if (n < ranks) return {{all[rank % n]}, 1, true};
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * n / ranks);
  const auto end = all.begin() + static_cast<std::ptrdiff_t>((rank + 1) * n / ranks);
  return {{begin, end}, n / ranks, false};
}

Cpus first_of(const std::vector<Cpus>& cores) {
  Cpus cpus;
  for (const Cpus& core : cores) cpus.push_back(core.front());
  std::ranges::sort(cpus);
  return cpus;
}

Cpus siblings_of(const std::vector<Cpus>& cores) {
  Cpus cpus;
  for (const Cpus& core : cores) cpus.insert(cpus.end(), core.begin() + 1, core.end());
  std::ranges::sort(cpus);
  return cpus;
}

// More threads than processors wait for each other; this many still finish their step.
constexpr size_t kMostPerProcessor = 8, kLeastMost = 16;

/// Threads that fit into the quota, at least one; a fraction of a core counts as none.
size_t within_quota(size_t threads, const CoreRequest& request, std::vector<std::string>& warnings) {
  if (request.quota <= 0) return threads;
  const double per_rank = request.quota / static_cast<double>(request.offered.size());
  const size_t paid = std::max<size_t>(1, static_cast<size_t>(per_rank));
  if (paid >= threads) return threads;
  warnings.push_back(fmt::format("the control group allows {:.4g} processors for {} on this host: {} of {}",
                                 request.quota, count_text(request.offered.size(), "rank"), paid,
                                 count_text(threads, "thread")));
  return paid;
}

/// " of socket 1", " of sockets 0-1"; empty if there is one socket.
std::string on_sockets(const std::vector<Cpus>& sockets, const Cpus& cpus) {
  if (sockets.size() < 2) return "";
  Cpus numbers;
  for (size_t i = 0; i < sockets.size(); ++i) {
    if (sockets_of({sockets[i]}, cpus) > 0) numbers.push_back(static_cast<int>(i));
  }
  return fmt::format(" of socket{} {}", numbers.size() == 1 ? "" : "s", format_cpu_list(numbers));
}

std::string describe(const CorePlan& plan, const CoreRequest& request, const Cpus& compute, bool reserved,
                     bool siblings) {
  const std::string where = request.inherit
                                ? fmt::format("processors {} as the launcher bound them", format_cpu_list(plan.cpus))
                                : fmt::format("{} {}{}", compute.size() == 1 ? "core" : "cores",
                                              format_cpu_list(compute), on_sockets(request.sockets, compute));
  const std::string text = fmt::format("{}, {}", where, count_text(plan.threads, "thread"));
  if (!request.communicates) return text;
  if (reserved) return text + fmt::format(", gradients are exchanged on core {}", format_cpu_list(plan.exchange_cores));
  if (siblings)
    return text + fmt::format(", gradients are exchanged on their hyper-thread siblings {}",
                              format_cpu_list(plan.exchange_cores));
  return text + ", gradients are exchanged there too";
}

}  // namespace

CorePlan plan_cores(const std::vector<Cpus>& cores, const CoreRequest& request) {
  Share share = share_of(cores, request);
  const auto reserved = request.communicates ? static_cast<size_t>(request.communication_cores) : 0;
  require(!share.cores.empty(), ErrorKind::config,
          "this rank may use processors {}, but none of them is a core of this machine",
          format_cpu_list(request.offered[static_cast<size_t>(request.local_rank)]));
  require(share.threads > reserved, ErrorKind::config,
          "comm.cores {} leaves no core to compute on: each of the {} ranks on this host has {}; lower comm.cores or "
          "start fewer ranks per host",
          reserved, request.offered.size(), share.threads);

  CorePlan plan;
  plan.cpus = united(share.cores);
  if (request.communication_cores > 0 && !request.communicates) {
    plan.warnings.push_back(fmt::format(
        "comm.cores {}: no core is reserved, because a single rank does not communicate", request.communication_cores));
  }
  if (share.crowded) {
    plan.warnings.push_back(fmt::format("{} ranks on this host share {}: each computes more slowly",
                                        request.offered.size(),
                                        count_text(cores_in(cores, united(request.offered)).size(), "physical core")));
  }
  if (const size_t spanned = sockets_of(request.sockets, plan.cpus); spanned > 1) {
    plan.warnings.push_back(fmt::format(
        "a rank computes on {} sockets, and memory of another socket is slow: start one rank per socket", spanned));
  }
  const std::vector<Cpus> kept(share.cores.end() - static_cast<std::ptrdiff_t>(reserved), share.cores.end());
  share.cores.resize(share.cores.size() - reserved);
  size_t threads = within_quota(share.threads - reserved, request, plan.warnings);
  if (request.threads > 0) {
    threads = static_cast<size_t>(request.threads);
    const size_t processors = united(request.offered).size(),
                 most = std::max(kLeastMost, kMostPerProcessor * processors);
    require(threads <= most, ErrorKind::config,
            "launch.threads (--threads) is {}, but the ranks of this host have {}: at most {} are started; 0 uses one "
            "per physical core",
            threads, count_text(processors, "processor"), most);
  }
  if (threads > share.cores.size()) {
    plan.warnings.push_back(fmt::format("launch.threads {} on {}: threads wait for each other", threads,
                                        count_text(share.cores.size(), "physical core")));
  }
  plan.threads = static_cast<int>(threads);

  const Cpus siblings = siblings_of(share.cores), firsts = first_of(share.cores);
  const bool on_siblings = request.communicates && reserved == 0 && siblings.size() >= share.cores.size();
  if (!request.inherit) {
    // The same number of threads and cores: one each. Otherwise the system moves them within the share.
    for (size_t i = 0; i < threads; ++i) {
      plan.thread_cpus.push_back(threads == share.cores.size() ? Cpus{share.cores[i].front()} : firsts);
    }
    plan.exchange_cores = !request.communicates ? Cpus{}
                          : reserved > 0        ? united(kept)
                          : on_siblings         ? siblings
                                                : plan.cpus;
  }
  plan.text = describe(plan, request, firsts, reserved > 0 && !request.inherit, on_siblings && !request.inherit);
  return plan;
}

}  // namespace trireme
