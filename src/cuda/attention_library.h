#pragma once
// The seam to a library of attention: cuDNN (attention_cudnn.cc), or plain loops in the tests of the executor.

#include <compare>
#include <optional>
#include <string>

#include "cuda/stream.h"
#include "ops/ops.h"

namespace trireme {

/// Sequences of one length, packed; a key and a value head for each query head; no dropout, window or soft cap.
struct AttentionCall {
  DType dtype = DType::bf16;  ///< bf16 or f16
  int64_t sequences = 0, length = 0;
  int heads = 0, head_dim = 0;
  bool causal = true, backward = false;
  float scale = 0;
  auto operator<=>(const AttentionCall&) const = default;
};

class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  /// "cuDNN 9.19.0"
  virtual std::string name() const = 0;
  /// The GPU's compute capability: 90 for 9.0.
  virtual int capability() const = 0;
  /// Bytes of device memory that the call needs while it runs, for which it is made ready. Nothing: it has no
  /// deterministic method for this call.
  virtual std::optional<size_t> workspace_bytes(const AttentionCall&) = 0;
  /// Ops::attention(). workspace: workspace_bytes(). Throws Error::io naming the library's answer.
  virtual void forward(gpu::Stream, const AttentionCall&, ConstView qkv, View out, View lse, View workspace) = 0;
  /// Ops::attention_backward(), after any forward pass.
  virtual void backward(gpu::Stream, const AttentionCall&, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                        View dqkv, View workspace) = 0;
};

/// The call of an operator's arguments.
AttentionCall attention_call(DType dtype, int64_t rows, const AttentionShape&, bool backward);

/// Why a library must not compute this attention on a GPU of this compute capability (90 for 9.0); empty: it may.
/// Depends on nothing else, so that a shape always has one method.
std::string_view reason_for_own_kernels(int capability, DType dtype, const AttentionShape&, float dropout_rate);

}  // namespace trireme
