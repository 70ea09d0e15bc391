#pragma once
// The backend that a model computes with. The only place that chooses it: all other code gets a Backend or its
// operators.

#include <memory>
#include <string>

#include "ops/ops.h"

namespace trireme {

struct Backend {
  std::unique_ptr<Ops> ops;
  std::string hardware;          ///< "AMD EPYC 9654"
  std::string kernels;           ///< the instruction set in use: "avx512bf16"
  bool has_bf16 = false;         ///< it has instructions for bf16
  bool multiplies_bf16 = false;  ///< bf16 products are made by them; else their operands are widened to f32
};

/// The fast operators of this machine. Throws Error::usage when TRIREME_ISA names an instruction set that it lacks.
Backend make_backend();

/// Lines for --version: the libraries and the hardware that backends of this build use.
std::string backend_versions();

}  // namespace trireme
