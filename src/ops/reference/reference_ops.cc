#include "ops/reference/reference_ops.h"

namespace trireme {

// The reference keeps its scratch in its own vectors: it is never timed.
size_t ReferenceOps::scratch_bytes(const CallSizes&) const { return 0; }

std::unique_ptr<Ops> make_reference_ops() { return std::make_unique<ReferenceOps>(); }

}  // namespace trireme
