#pragma once
// Times every operator call of another backend: what it took, how many FLOPs or bytes it was. Nothing else changes, and
// nothing is paid where no profile is asked for.

#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace trireme {

/// One call of an operator.
struct OpCall {
  std::string op;    ///< with its sizes where they tell calls apart: "linear 768->3072"
  double start = 0;  ///< seconds since the recorder was made
  double seconds = 0;
  double flops = 0;  ///< of products and attention; else 0
  double bytes = 0;  ///< of all tensors of the call, each counted once
};

class OpRecorder {
 public:
  virtual ~OpRecorder() = default;
  virtual bool recording() const = 0;
  virtual double now() const = 0;  ///< seconds since it was made
  virtual void add(OpCall call) = 0;
};

/// Forwards every call to `inner`, a backend of f32 and bf16, and tells `recorder` about it while it records. Borrows
/// the recorder.
std::unique_ptr<Ops> make_profiled_ops(std::unique_ptr<Ops> inner, OpRecorder& recorder);

}  // namespace trireme
