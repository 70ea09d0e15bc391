#pragma once
#include <string>
#include <string_view>

#include "comm/scalars.h"

namespace trireme {

/// Collective. Every rank must see `folder` as rank 0 sees it: snapshots are written by all ranks into one folder.
/// `option`: the option that names it. Throws CommonError: mismatch naming the ranks and hosts that have another folder
/// or none under this name, io if rank 0 cannot write.
void prove_shared_folder(const std::string& folder, std::string_view option, Scalars& scalars, std::string_view host);

}  // namespace trireme
