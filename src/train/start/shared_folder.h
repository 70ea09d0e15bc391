#pragma once
#include <string>
#include <string_view>

#include "comm/scalars.h"

namespace trireme {

/// Collective. Whether every rank sees `folder` as rank 0 sees it, as it must where all ranks write their part of a
/// snapshot into it: empty, or which ranks and hosts have another folder or none under this name. `option`: the option
/// that names it. Throws CommonError (io) if rank 0 cannot write.
std::string folder_apart(const std::string& folder, std::string_view option, Scalars& scalars, std::string_view host);

}  // namespace trireme
