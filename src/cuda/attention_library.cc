#include "cuda/attention_library.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/log.h"
#include "cuda/cuda_ops.h"
#include "cuda/scratch.h"

namespace trireme {

AttentionCall attention_call(DType dtype, int64_t rows, const AttentionShape& shape, bool backward) {
  return {.dtype = dtype,
          .sequences = rows / shape.equal_length,
          .length = shape.equal_length,
          .heads = shape.heads(),
          .head_dim = shape.head_dim,
          .causal = shape.causal,
          .backward = backward,
          .scale = shape.scale};
}

std::string_view reason_for_own_kernels(int capability, DType dtype, const AttentionShape& shape, float dropout_rate) {
  constexpr int kCapabilities[] = {80, 86, 90};  // for which every graph was built: tests/gpu/cudnn_graphs.cc
  constexpr int kTile = 64;                      // rows: cuDNN pads other lengths, which is another graph
  if (std::ranges::find(kCapabilities, capability) == std::end(kCapabilities)) return "this GPU";
  if (dtype != DType::bf16 && dtype != DType::f16) return "f32";
  if (dropout_rate > 0) return "dropout";
  if (shape.equal_length == 0) return "sequences of different lengths";
  if (shape.equal_length % kTile != 0 || shape.equal_length < 2 * kTile) return "the sequences' length";
  if (shape.group > 1) return "groups of query heads";
  if (shape.window > 0 && shape.window < shape.equal_length) return "a window";
  if (shape.soft_cap > 0) return "a soft cap";
  if (shape.head_dim % 16 != 0 || shape.head_dim < 32 || shape.head_dim > 128) return "the head size";
  return {};
}

std::optional<CudaOps::LibraryCall> CudaOps::library_call(Context& context, ConstView qkv, const AttentionShape& shape,
                                                          const Dropout& dropout, bool backward) {
  if (!attention_ || qkv.rows() == 0) return std::nullopt;
  std::string reason(reason_for_own_kernels(attention_->capability(), qkv.dtype(), shape, dropout.rate));
  std::optional<LibraryCall> taken;
  if (reason.empty()) {
    const AttentionCall call = attention_call(qkv.dtype(), qkv.rows(), shape, backward);
    const std::optional<size_t> bytes = attention_->workspace_bytes(call);
    Arena& scratch = *context.scratch;
    if (!bytes) {
      reason = "no deterministic method";
    } else if (scratch.used() + scratch_size(DType::u8, static_cast<int64_t>(*bytes)) > scratch.capacity()) {
      reason = "no memory was planned for these lengths";
    } else {
      taken = LibraryCall{call, *bytes > 0 ? scratch.take(DType::u8, {static_cast<int64_t>(*bytes)}) : View()};
    }
  }
  const std::string text =
      reason.empty() ? "by " + attention_->name() : fmt::format("by this program's kernels: {}", reason);
  if (said_.insert(text).second) log::info("attention  {}", text);
  return taken;
}

size_t CudaOps::library_scratch_bytes(const CallSizes& s) const {
  if (!attention_ || s.attention.equal_length == 0 || s.rows % s.attention.equal_length != 0) return 0;
  if (!reason_for_own_kernels(attention_->capability(), s.dtype, s.attention, 0).empty()) return 0;
  size_t most = 0;
  for (const bool backward : {false, true})
    if (const auto bytes = attention_->workspace_bytes(attention_call(s.dtype, s.rows, s.attention, backward)))
      most = std::max(most, scratch_size(DType::u8, static_cast<int64_t>(*bytes)));
  return most;
}

}  // namespace trireme
