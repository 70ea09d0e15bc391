#pragma once
// The checks, in the order in which they run. Each returns what it found and throws nothing itself: check.cc turns
// an error of the device into a failed check.

#include <functional>
#include <string>

#include "bench/device/report.h"
#include "bench/device/sides.h"
#include "comm/rank_context.h"
#include "ops/backend.h"

namespace trireme::device_check {

/// What checks work with. Borrows.
struct Bench {
  Backend& gpu;
  Backend& cpu;
  const Sizes& sizes;
  int64_t steps = 50;                    ///< of training
  size_t copy_bytes = size_t{64} << 20;  ///< of the copies that are measured
  bool judges_rates = true;              ///< false: too few bytes for that
  double longest_sum = 60;               ///< seconds until a sum over GPUs, which takes milliseconds, is given up
  const RankContext& rank;
  std::string why_no_network = {};                             ///< why NCCL was not loaded; empty: it was
  std::function<Backend()> open_with_cudnn;                    ///< the same GPU again, attention by cuDNN
  std::function<void(const std::string&)> say = [](auto&) {};  ///< a line for who waits
};

/// Bytes that go to the GPU and back, through pageable and pinned memory, and on the GPU, are the same; the rates of
/// pinned memory are those of the PCIe link. Collective: the ranks of a host copy one after the other, because GPUs
/// share links.
Result check_copies(const Bench&);

// Of one GPU. No rank waits for another one.
/// A stream that waits for an event of another one sees its work; times of events are positive and those of the host.
Result check_events(const Bench&);
/// Products (cuBLASLt) against the CPU's, f32 and bf16.
Result check_products(const Bench&);
/// All other operators of a layer, of decoders' layers, the embedding and the loss.
Result check_operators(const Bench&);
/// What has the CPU's bits by definition: AdamW, values of norms, dropout's masks, casts, sums of contributions,
/// hashes.
Result check_bits(const Bench&);
/// Attention by cuDNN against this program's kernels and the CPU.
Result check_cudnn(const Bench&);
/// Losses of steps in f32 and bf16 against those of the CPU in f32.
Result check_training(const Bench&);
/// Snapshots go from the GPU to the CPU and back, and the losses go on as those of the CPU.
Result check_resume(const Bench&);

// Collective over the ranks, each with a GPU.
/// Sums and gathers between all GPUs; of one rank that NCCL connects.
Result check_links(const Bench&);

/// failed, with the text.
Result failed(std::string text);
Result not_checked(std::string reason);

}  // namespace trireme::device_check
