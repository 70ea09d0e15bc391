#pragma once
// The bandwidth that the hardware between the ranks should give, and whether it was reached.

#include <string>
#include <vector>

#include "base/json.h"
#include "bench/comm/table.h"
#include "bench/comm/traffic.h"

namespace trireme::comm_bench {

/// The kind of link between the ranks.
struct Link {
  std::string name;  ///< "shared memory of h1", "eth0", "InfiniBand mlx5_0:1"
  enum class Kind { shared_memory, tcp, infiniband, gpus, unknown } kind = Kind::unknown;
  double rate = 0;           ///< bytes per second each way, as the driver reports it; 0: unknown
  double measured_rate = 0;  ///< of plain messages: ping-pong on one host, windowed two-way traffic between hosts
  std::string carrier = {};  ///< transport of the MPI library (carrier_of()), of a link between hosts
  /// The value that a collective's bus bandwidth is compared with.
  double expected() const { return rate > 0 ? rate : measured_rate; }
};

/// Facts about a rank's host, as a line of text that all ranks gather.
struct HostLinks {
  std::string host;
  struct Port {
    std::string name, network;  ///< network empty for InfiniBand
    int64_t megabit = 0;
  };
  std::vector<Port> ports;
};
HostLinks links_of_this_host(const std::string& host, const std::string& root = "");
/// The transport of a process's MPI library, derived from the libraries that it has loaded (/proc/PID/maps, once MPI
/// has started; Open MPI 4 unloads those not chosen): "UCX", "OFI", "openib"; empty: its own sockets. `pml`: the
/// transport set for Open MPI (OMPI_MCA_pml): ob1 uses neither UCX nor OFI, which Open MPI 5 always loads.
std::string carrier_of(const std::string& maps, const std::string& pml);
Json to_json(const HostLinks& links);
HostLinks host_links_from_json(const Json& document);

/// The link that MPI uses between these hosts: InfiniBand when every host has an active port (the one that `wanted`
/// names, "mlx5_1:1", where all have that) and MPI does not use TCP alone; else the interface that `wanted` names
/// ("eth0", "10.0.0.0/24"), else the first network that all are on. The slowest host's rate counts.
Link common_link(const std::vector<HostLinks>& hosts, const std::string& wanted, bool tcp_only);

/// Collective: gathers, decides and measures.
Link find_link(Job& job, const std::string& host);

/// Between GPUs, by the data sheet. hardware: Backend::hardware; one_host: all are in one host.
Link gpu_link(const std::string& hardware, bool one_host);

/// How bytes travel: "shared memory inside a host, InfiniBand mlx5_0:1 through UCX between hosts". `per_host`: most
/// ranks of one host.
std::string transport(const Link& link, int per_host);

/// Verdicts: shares of the hardware's rate, and the least bytes for which they are meaningful.
inline constexpr double kAsExpected = 0.8, kBelow = 0.5;
inline constexpr int64_t kLeastToJudge = 1 << 20;

struct VerdictFacts {
  std::string collective;
  double wire_share = 1;  ///< bytes that travel for each byte of the table: 0.5 for f32 gradients sent as bf16
  bool open_mpi = false;
};

/// "as expected" from 80 %, "below the link's rate" from 50 %, else "poor", with the numbers; for the largest size,
/// if it is large enough (1 MiB) to measure a link. Below "as expected" it distinguishes the link, measured by plain
/// messages, from the library's algorithm, and names a remedy.
std::string verdict(const Link& link, const std::vector<Row>& rows, const VerdictFacts& facts);

/// Throws Error::mismatch unless the ranks are processes of one job that reach each other: every rank gets a token of
/// every other, and no two ranks are the same process. Nothing may be printed before.
void prove_connected(Job& job, const std::string& host);

}  // namespace trireme::comm_bench
