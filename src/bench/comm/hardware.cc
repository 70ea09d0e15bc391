#include "bench/comm/hardware.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time.h"
#include "bench/data_sheet.h"
#include "cluster/launch/node_facts.h"

namespace trireme::comm_bench {
namespace {

constexpr int64_t kProbeBytes = 1 << 20, kTrafficBytes = 16 << 20;
constexpr int kProbeRounds = 11;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// What MPI was configured to use between hosts; empty: nothing.
std::string configured_interface() {
  for (const char* name : {"OMPI_MCA_btl_tcp_if_include", "UCX_NET_DEVICES", "FI_TCP_IFACE", "MPICH_NETWORK_IFACE"}) {
    const std::string value = variable(name);
    if (!value.empty() && value != "all") return value.substr(0, value.find(','));
  }
  return "";
}

bool configured_tcp() {
  return variable("OMPI_MCA_btl").find("tcp") != std::string::npos || variable("OMPI_MCA_pml") == "ob1" ||
         variable("UCX_TLS").find("tcp") != std::string::npos || variable("FI_PROVIDER") == "tcp";
}

double bytes_per_second(int64_t megabit) { return static_cast<double>(megabit) * 1e6 / 8; }

/// Two-way traffic between neighbours: the slowest rank's rate.
double two_way_rate(Job& job) {
  std::vector<uint8_t> outgoing(kTrafficBytes, 1), incoming(kTrafficBytes);
  std::vector<double> seconds;
  for (int round = -1; round < 3; ++round) {
    job.meet();
    const Clock::time_point start = Clock::now();
    two_way(job.group, outgoing.data(), incoming.data(), kTrafficBytes);
    const double slowest = job.scalars.max(seconds_since(start));
    if (round >= 0) seconds.push_back(slowest);
  }
  std::ranges::sort(seconds);
  return static_cast<double>(kTrafficBytes) / seconds[seconds.size() / 2];
}

}  // namespace

HostLinks links_of_this_host(const std::string& host, const std::string& root) {
  HostLinks links{host, {}};
  for (const auto& port : launch::active_infiniband_ports(root)) {
    if (port.unusable.empty()) links.ports.push_back({port.name, "", port.megabit});
  }
  for (const auto& found : launch::list_interfaces()) {
    links.ports.push_back({found.name, found.network, found.megabit});
  }
  return links;
}

std::string carrier_of(const std::string& maps, const std::string& pml) {
  for (const auto& [library, name] :
       {std::pair("/libucp.", "UCX"), {"/libfabric.", "OFI"}, {"/mca_btl_openib.", "openib"}}) {
    const bool own = pml == "ob1" && name != std::string_view("openib");
    if (!own && maps.find(library) != std::string::npos) return name;
  }
  return "";
}

Json to_json(const HostLinks& links) {
  Json ports = Json::array();
  for (const HostLinks::Port& port : links.ports) ports.push_back({port.name, port.network, port.megabit});
  return {{"host", links.host}, {"ports", ports}};
}

HostLinks host_links_from_json(const Json& document) {
  HostLinks links{document.at("host"), {}};
  for (const Json& port : document.at("ports")) links.ports.push_back({port.at(0), port.at(1), port.at(2)});
  return links;
}

Link common_link(const std::vector<HostLinks>& hosts, const std::string& wanted, bool tcp_only) {
  using Port = HostLinks::Port;
  const auto is_infiniband = [](const Port& port) { return port.network.empty(); };
  /// The slowest of the ports that match, one per host; nothing if a host has none.
  const auto common = [&](const auto& matches) {
    std::optional<Port> slowest;
    for (const HostLinks& host : hosts) {
      const auto found = std::ranges::find_if(host.ports, matches);
      if (found == host.ports.end()) return std::optional<Port>();
      if (!slowest || found->megabit < slowest->megabit) slowest = *found;
    }
    return slowest;
  };
  if (!tcp_only) {
    auto port = common([&](const Port& p) { return is_infiniband(p) && p.name == wanted; });
    if (!port) port = common(is_infiniband);
    if (port) return {"InfiniBand " + port->name, Link::Kind::infiniband, bytes_per_second(port->megabit)};
  }
  if (!wanted.empty()) {
    const auto port =
        common([&](const Port& p) { return !is_infiniband(p) && (p.name == wanted || p.network == wanted); });
    if (port) return {port->name, Link::Kind::tcp, bytes_per_second(port->megabit)};
  }
  for (const Port& first : hosts.front().ports) {
    if (is_infiniband(first)) continue;
    if (const auto port = common([&](const Port& p) { return p.network == first.network; })) {
      return {port->name, Link::Kind::tcp, bytes_per_second(port->megabit)};
    }
  }
  return {"an unknown network", Link::Kind::unknown, 0};
}

Link find_link(Job& job, const std::string& host) {
  std::vector<HostLinks> hosts;
  for (const std::string& line : job.scalars.gather(dump_json(to_json(links_of_this_host(host))))) {
    HostLinks links = host_links_from_json(parse_json(line, "the links of a rank"));
    const bool known = std::ranges::any_of(hosts, [&](const HostLinks& entry) { return entry.host == links.host; });
    if (!known) hosts.push_back(std::move(links));
  }
  if (hosts.size() == 1) {
    return {"shared memory of " + host, Link::Kind::shared_memory, 0, ping_pong_rate(job, kProbeBytes, kProbeRounds)};
  }
  const std::string carrier = carrier_of(read_text("/proc/self/maps"), variable("OMPI_MCA_pml"));
  Link link = common_link(hosts, configured_interface(), configured_tcp() || carrier.empty());
  link.carrier = carrier;
  link.measured_rate = two_way_rate(job);
  return link;
}

Link gpu_link(const std::string& hardware, bool one_host) {
  const DataSheet sheet = data_sheet_of(hardware);
  if (!one_host) return {"between GPUs of several hosts", Link::Kind::gpus};
  if (sheet.link == 0) return {"between GPUs of one host", Link::Kind::gpus};
  return {fmt::format("NVLink of a {}", sheet.card), Link::Kind::gpus, sheet.link};
}

std::string transport(const Link& link, int per_host) {
  const std::string inside = per_host > 1 ? "shared memory inside a host, " : "";
  const std::string through = link.carrier.empty() ? "" : " through " + link.carrier;
  switch (link.kind) {
    case Link::Kind::shared_memory:
      return "shared memory";
    case Link::Kind::tcp:
      return inside + "TCP over " + link.name + through + " between hosts";
    case Link::Kind::infiniband:
    default:
      return inside + link.name + through + " between hosts";
  }
}

std::string verdict(const Link& link, const std::vector<Row>& rows, const VerdictFacts& facts) {
  const auto largest = std::ranges::max_element(rows, {}, &Row::bytes);
  if (largest == rows.end() || link.expected() <= 0) return "no data to judge";
  double best = 0;
  for (const auto* timing : {&largest->out_of_place, &largest->in_place}) {
    if (*timing) best = std::max(best, (*timing)->bus_bandwidth);
  }
  best *= facts.wire_share;
  const std::string wire = facts.wire_share == 1 ? "" : " on the wire";
  if (largest->bytes < kLeastToJudge) {
    return fmt::format("{:.3g} GB/s{} at {} bytes, too small to judge the link (at least {} bytes are needed)", best,
                       wire, largest->bytes, kLeastToJudge);
  }
  const double share = best * 1e9 / link.expected();
  const char* word = share >= kAsExpected ? "as expected" : share >= kBelow ? "below the link's rate" : "poor";
  std::string text = fmt::format("{:.3g} of {:.3g} GB/s{} at {} bytes, {:.0f} %: {}", best, link.expected() / 1e9, wire,
                                 largest->bytes, 100 * share, word);
  if (share >= kAsExpected || link.measured_rate <= 0) return text;
  if (best * 1e9 >= kAsExpected * link.measured_rate) {
    return text +
           fmt::format(
               "; the link is slow: plain messages also reach only {:.3g} GB/s; `bench comm pairs` finds the slow host",
               link.measured_rate / 1e9);
  }
  text += fmt::format(
      "; the link is not the cause, it reaches {:.3g} GB/s with plain messages, but the library's algorithm",
      link.measured_rate / 1e9);
  if (facts.open_mpi && facts.collective == "all_reduce") {
    text +=
        ": try `launch --env OMPI_MCA_coll_tuned_use_dynamic_rules=1 --env OMPI_MCA_coll_tuned_allreduce_algorithm=4`";
  }
  return text;
}

void prove_connected(Job& job, const std::string& host) {
  require(job.ranks() > 1, ErrorKind::mismatch,
          "a single process has no other rank to exchange data with; start it with `trireme launch ... -- bench comm`, "
          "mpirun or srun and at least 2 ranks (if you did, the processes are not connected: use the launcher of the "
          "MPI that `trireme --version` names)");
  const std::vector<std::string> processes = job.scalars.gather(fmt::format("{} pid {}", host, getpid()));
  require(std::set<std::string>(processes.begin(), processes.end()).size() == processes.size(), ErrorKind::mismatch,
          "the ranks are not {} different processes; was every rank started exactly once?", processes.size());
  // A token by message to every rank: unlike collectives, this cannot route around a broken pair.
  for (int distance = 1; distance < job.ranks(); ++distance) {
    const int to = (job.rank() + distance) % job.ranks(), from = (job.rank() + job.ranks() - distance) % job.ranks();
    const int64_t token = exchange_token(job, to, from);
    require(token == from, ErrorKind::comm, "rank {} got the token {} from rank {}", job.rank(), token, from);
  }
}

}  // namespace trireme::comm_bench
