#pragma once
#include <string_view>

#include "comm/scalars.h"
#include "train/glue/job.h"

namespace trireme {

/// Collective. Checks that all ranks have read and encoded the same rows and labels of every set. Throws CommonError
/// (mismatch) naming ranks, hosts, file and the rows that differ.
void prove_same_rows(const GlueJob& job, Scalars& scalars, std::string_view host);

}  // namespace trireme
