#include "train/healing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "comm/proof.h"

namespace trireme {
namespace {

constexpr size_t kPiece = size_t{16} << 20;  // bytes that travel at once

void copy_from(int source, View array, Scalars& scalars) {
  auto* bytes = static_cast<char*>(array.data());
  for (size_t at = 0; at < array.bytes(); at += kPiece) {
    const size_t size = std::min(kPiece, array.bytes() - at);
    const std::string piece =
        scalars.broadcast(scalars.rank() == source ? std::string_view(bytes + at, size) : std::string_view(), source);
    std::memcpy(bytes + at, piece.data(), size);
  }
}

void warn(const std::vector<int>& ranks, int source, Scalars& scalars, std::string_view host, int64_t step) {
  const std::vector<std::string> hosts = scalars.gather(host);
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(fmt::format("rank {} on {}", rank, hosts[static_cast<size_t>(rank)]));
  log::write_once(
      log::Level::warning,
      fmt::format("{} held other parameters than the other {} ranks after step {}, as after a bit that "
                  "flipped in memory; weights and moments were copied from rank {}; check that host's memory",
                  fmt::join(names, ", "), hosts.size() - ranks.size(), step, source));
}

}  // namespace

void check_parameters(Scalars& scalars, std::string_view host, TrainingState& state, const ParameterTable& table,
                      int64_t step, bool heal) {
  if (scalars.size() == 1) return;
  const std::vector<int> ranks = scalars.differing(parameter_hash(state, table));
  if (ranks.empty()) return;
  if (heal && static_cast<int>(ranks.size()) < scalars.size()) {
    int source = 0;
    while (std::ranges::find(ranks, source) != ranks.end()) ++source;
    for (const View array : {state.weights(), state.remainder(), state.moment1(), state.moment2()})
      copy_from(source, array, scalars);
    warn(ranks, source, scalars, host, step);
  }
  prove_same_parameters(scalars, host, parameter_hash(state, table), step);
}

}  // namespace trireme
