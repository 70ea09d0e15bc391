#include "train/guard/healing.h"

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "comm/agreement.h"
#include "comm/heartbeat.h"
#include "comm/proof.h"
#include "optim/parameter_hash.h"

namespace trireme {
namespace {

constexpr int64_t kPiece = int64_t{4} << 20;  // elements sent at once

/// Copies a device's values through the host, which messages can reach.
void copy_from(int source, View flat, Communicator& replicas) {
  std::vector<std::byte> values;
  for (int64_t at = 0; at < flat.count(); at += kPiece) {
    const View piece = flat.rows_slice(at, std::min(kPiece, flat.count() - at));
    const Waiting waiting(replicas.heartbeat(), "a good rank's parameters", piece.bytes());
    View on_host = piece;
    if (piece.device()) {
      values.resize(piece.bytes());
      on_host = View(values.data(), piece.dtype(), piece.shape());
      piece.device()->stream().copy(piece, on_host);
    }
    replicas.broadcast(on_host, source).wait("a good rank's parameters");
    if (piece.device()) piece.device()->stream().copy(on_host, piece);
  }
}

/// Ranks that differ from the majority of their replicas, ascending.
std::vector<int> differing_ranks(const std::vector<uint64_t>& hashes, const MeshShape& mesh) {
  std::vector<int> all;
  for (int rank = 0; rank < static_cast<int>(hashes.size()); ++rank) {
    if (place_of(mesh, rank).data != 0) continue;
    const std::vector<int> replicas = replicas_of(mesh, rank);
    std::vector<uint64_t> values;
    for (const int replica : replicas) values.push_back(hashes[static_cast<size_t>(replica)]);
    for (const int at : differing(values)) all.push_back(replicas[static_cast<size_t>(at)]);
  }
  std::ranges::sort(all);
  return all;
}

/// The first of the rank's replicas that is not in `ranks`, by its place on the data axis; nullopt: there is none.
std::optional<int> good_replica(int rank, const std::vector<int>& ranks, const MeshShape& mesh) {
  const std::vector<int> replicas = replicas_of(mesh, rank);
  for (size_t d = 0; d < replicas.size(); ++d) {
    if (std::ranges::find(ranks, replicas[d]) == ranks.end()) return static_cast<int>(d);
  }
  return {};
}

void heal_replicas(const std::vector<int>& ranks, Mesh& mesh, TrainingState& state) {
  const int rank = mesh.world().rank();
  const std::vector<int> replicas = replicas_of(mesh.shape(), rank);
  if (std::ranges::none_of(replicas, [&](int r) { return std::ranges::find(ranks, r) != ranks.end(); })) return;
  const int source = good_replica(rank, ranks, mesh.shape()).value();
  for (const View array : state.replicated()) copy_from(source, array, mesh.data());
}

void warn(const std::vector<int>& ranks, const MeshShape& mesh, Scalars& scalars, std::string_view host, int64_t step) {
  const std::string names = names_of(ranks, scalars, host, mesh);
  const int source = replicas_of(mesh, ranks[0])[static_cast<size_t>(good_replica(ranks[0], ranks, mesh).value())];
  log::write_once(
      log::Level::warning,
      fmt::format("{} had different parameters from the other {} ranks after step {}, possibly a flipped bit "
                  "in memory; weights and moments were copied from rank {}; check that host's memory",
                  names, mesh.data - static_cast<int64_t>(ranks.size()), step, source));
}

}  // namespace

void check_parameters(Mesh& mesh, Scalars& scalars, std::string_view host, TrainingState& state,
                      const ParameterTable& table, Ops& ops, int64_t step, bool heal) {
  const MeshShape& shape = mesh.shape();
  if (shape.data == 1 || state.shards_weights()) return;  // no rank holds what another one holds
  std::vector<int> ranks = differing_ranks(scalars.gather_values(parameter_hash(state, table, ops)), shape);
  if (ranks.empty()) return;
  const bool can = std::ranges::all_of(ranks, [&](int r) { return good_replica(r, ranks, shape).has_value(); });
  if (heal && can) {
    heal_replicas(ranks, mesh, state);
    warn(ranks, shape, scalars, host, step);
    ranks = differing_ranks(scalars.gather_values(parameter_hash(state, table, ops)), shape);
    if (ranks.empty()) return;
  }
  const std::string names = names_of(ranks, scalars, host, shape);
  const std::string others = shape.tensor * shape.pipeline > 1
                                 ? "the other replicas"
                                 : fmt::format("the other {}", shape.data - static_cast<int64_t>(ranks.size()));
  throw CommonError(
      ErrorKind::mismatch,
      different_parameters(can ? fmt::format("{} {} from {}", names, ranks.size() == 1 ? "differs" : "differ", others)
                               : fmt::format("no majority agrees among {}", names),
                           step));
}

}  // namespace trireme
