#pragma once
// What the hardware between the ranks should give, and whether it did.

#include <string>
#include <vector>

#include "base/json.h"
#include "bench/comm/table.h"
#include "bench/comm/traffic.h"

namespace trireme::comm_bench {

/// What joins the ranks.
struct Link {
  std::string name;  ///< "shared memory of h1", "eth0", "InfiniBand mlx5_0:1"
  enum class Kind { shared_memory, tcp, infiniband, unknown } kind = Kind::unknown;
  double rate = 0;           ///< bytes per second each way, as the driver tells it; 0: it does not
  double measured_rate = 0;  ///< of plain messages: ping-pong on one host, windowed two-way traffic between hosts
  std::string carrier = {};  ///< what the MPI library sends through (carrier_of()), of a link between hosts
  /// What a collective's bus bandwidth is held against.
  double expected() const { return rate > 0 ? rate : measured_rate; }
};

/// What a rank knows of its own host, as a line of text that all ranks gather.
struct HostLinks {
  std::string host;
  struct Port {
    std::string name, network;  ///< network empty for InfiniBand
    int64_t megabit = 0;
  };
  std::vector<Port> ports;
};
HostLinks links_of_this_host(const std::string& host, const std::string& root = "");
/// What the MPI library of a process sends through, by the libraries that it has loaded (/proc/PID/maps, once MPI has
/// started; Open MPI 4 unloads what it did not choose): "UCX", "OFI", "openib"; empty: sockets of its own. `pml`: what
/// Open MPI was told to send through (OMPI_MCA_pml): ob1 uses neither UCX nor OFI, which Open MPI 5 has loaded always.
std::string carrier_of(const std::string& maps, const std::string& pml);
Json to_json(const HostLinks& links);
HostLinks host_links_from_json(const Json& document);

/// The link that MPI uses between these hosts: InfiniBand when every host has an active port (the one that `wanted`
/// names, "mlx5_1:1", where all have that) and MPI does not use TCP alone; else the interface that `wanted` names
/// ("eth0", "10.0.0.0/24"), else the first network that all are on. The slowest host's rate counts.
Link common_link(const std::vector<HostLinks>& hosts, const std::string& wanted, bool tcp_only);

/// Collective: gathers, decides and measures.
Link find_link(Job& job, const std::string& host);

/// How bytes travel: "shared memory inside a host, InfiniBand mlx5_0:1 through UCX between hosts". `per_host`: most
/// ranks of one host.
std::string transport(const Link& link, int per_host);

/// Verdicts: shares of what the hardware gives, and the bytes from which on they say anything.
inline constexpr double kAsExpected = 0.8, kBelow = 0.5;
inline constexpr int64_t kLeastToJudge = 1 << 20;

struct VerdictFacts {
  std::string collective;
  double wire_share = 1;  ///< bytes that travel for each byte of the table: 0.5 for f32 gradients sent as bf16
  bool open_mpi = false;
};

/// "as expected" from 80 %, "below what the link gives" from 50 %, else "poor", with the numbers; for the largest size,
/// when that is big enough (1 MiB) to say anything of a link. Below "as expected" it tells the link, which plain
/// messages measured, from the library's algorithm, and names a remedy.
std::string verdict(const Link& link, const std::vector<Row>& rows, const VerdictFacts& facts);

/// Throws Error::mismatch unless the ranks are processes of one job that reach each other: every rank gets a token of
/// every other, and no two ranks are the same process. Nothing may be printed before.
void prove_connected(Job& job, const std::string& host);

}  // namespace trireme::comm_bench
