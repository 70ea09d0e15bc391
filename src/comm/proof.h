#pragma once
// Ranks prove that they are one job: the same configuration and the same program everywhere. World size against the
// launcher's is proved by Process.

#include <string_view>

#include "comm/scalars.h"

namespace trireme {

/// Collective. `config`: the resolved configuration as text; `version`: what `trireme --version` tells apart (commit,
/// compiler). Throws Error::mismatch on every rank, naming the ranks and hosts that differ from the majority and the
/// first line that does.
void prove_one_job(Scalars& scalars, std::string_view host, std::string_view config, std::string_view version);

/// Collective. Throws Error::mismatch on every rank unless all hold the same parameters, naming those that do not.
/// `step`: steps done.
void prove_same_parameters(Scalars& scalars, std::string_view host, uint64_t hash, int64_t step);

}  // namespace trireme
