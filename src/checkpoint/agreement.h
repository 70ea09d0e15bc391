#pragma once
// Ranks agree on whether all of them succeeded, so that an error of one is the same error on all.

#include <string>

#include "comm/communicator.h"

namespace trireme {

/// Collective. `failure`: what went wrong on this rank, empty: nothing. Throws Error::io on every rank with the text of
/// the lowest rank that failed.
void agree_on_success(Communicator& group, const std::string& failure);

}  // namespace trireme
