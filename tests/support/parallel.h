#pragma once
// Tests that run on several ranks: every rank runs the same test binary under mpirun, and rank 0 prints.

#include "comm/process.h"

namespace trireme {

/// The job that this test binary runs in; made by tests/parallel/main.cc.
Process& test_process();

}  // namespace trireme
