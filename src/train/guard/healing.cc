#include "train/guard/healing.h"

#include <algorithm>

#include "base/log.h"
#include "comm/progress.h"
#include "comm/proof.h"

namespace trireme {
namespace {

constexpr int64_t kPiece = int64_t{4} << 20;  // elements that travel at once

void copy_from(int source, View flat, Communicator& replicas) {
  for (int64_t at = 0; at < flat.count(); at += kPiece) {
    const View piece = flat.rows_slice(at, std::min(kPiece, flat.count() - at));
    const Waiting waiting(replicas.progress(), "a good rank's parameters", piece.bytes());
    replicas.broadcast(piece, source).wait("a good rank's parameters");
  }
}

void warn(const std::vector<int>& ranks, int source, Scalars& scalars, std::string_view host, int64_t step) {
  const std::string names = names_of(ranks, scalars, host);
  log::write_once(
      log::Level::warning,
      fmt::format("{} held other parameters than the other {} ranks after step {}, as after a bit that "
                  "flipped in memory; weights and moments were copied from rank {}; check that host's memory",
                  names, scalars.size() - static_cast<int>(ranks.size()), step, source));
}

}  // namespace

void check_parameters(Communicator& replicas, Scalars& scalars, std::string_view host, TrainingState& state,
                      const ParameterTable& table, int64_t step, bool heal) {
  if (scalars.size() == 1) return;
  const std::vector<int> ranks = scalars.differing(parameter_hash(state, table));
  if (ranks.empty()) return;
  if (heal && static_cast<int>(ranks.size()) < scalars.size()) {
    int source = 0;
    while (std::ranges::find(ranks, source) != ranks.end()) ++source;
    for (const View array : {state.weights(), state.remainder(), state.moment1(), state.moment2()})
      copy_from(source, array, replicas);
    warn(ranks, source, scalars, host, step);
  }
  prove_same_parameters(scalars, host, parameter_hash(state, table), step);
}

}  // namespace trireme
