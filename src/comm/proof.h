#pragma once
// Ranks prove that they are one job: the same configuration and the same program everywhere. Process compares the world
// size with the launcher's.

#include <string>
#include <string_view>
#include <vector>

#include "comm/mesh.h"
#include "comm/scalars.h"

namespace trireme {

/// "rank 2 on node3, rank 5 on node6 and 3 more".
std::string names_of(const std::vector<int>& ranks, const std::vector<std::string>& hosts);
/// Collective: the same for ranks whose hosts are not known yet, with their places in the mesh: "rank 3 (data 1, tensor
/// 1, pipeline 0) on node3". host: this rank's.
std::string names_of(const std::vector<int>& ranks, Scalars& scalars, std::string_view host, const MeshShape& mesh);
/// Ranks as Scalars::differing() gives them: "rank 2 on node3 differs from the other 7", or that a majority is missing.
std::string who_differs(const std::vector<int>& ranks, const std::vector<std::string>& hosts);

/// Collective. Throws Error::mismatch on every rank unless all have the same text: "ranks do not WHAT: " with the ranks
/// and hosts that differ, the first line that does, and the fix.
void prove_same_text(Scalars& scalars, std::string_view host, std::string_view text, std::string_view what,
                     std::string_view fix);

/// Collective. `config`: the resolved configuration as text; `version`: identifies the program (commit, compiler,
/// checksum of the executable). Throws Error::mismatch on every rank, naming the ranks and hosts that differ from the
/// majority and the first line that does.
void prove_one_job(Scalars& scalars, std::string_view host, std::string_view config, std::string_view version);

/// The message for ranks with different parameters. who: who_differs(); step: steps done.
std::string different_parameters(std::string_view who, int64_t step);
/// Collective. Throws Error::mismatch on every rank unless all hold the same parameters, naming those that differ.
void prove_same_parameters(Scalars& scalars, std::string_view host, uint64_t hash, int64_t step);

}  // namespace trireme
