#pragma once
// The checks, in the order in which they run. Each returns what it found and throws nothing itself: check.cc turns
// an error of the device into a failed check.

#include <functional>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "bench/device/report.h"
#include "comm/rank_context.h"
#include "model/spec.h"
#include "ops/backend.h"
#include "ops/ops.h"

namespace trireme::device_check {

// Operators of the GPU and of the CPU, called in the same way with the same values, and what they gave compared.

/// The sizes of the calls.
struct Sizes {
  Spec spec;
  int64_t batch = 1, sequence = 256;  ///< sequences, tokens of each
  int64_t rows() const { return batch * sequence; }
  AttentionShape attention() const;  ///< of the model's layers, without offsets
};

/// One side: operators, and tensors that exist until the next call of begin().
class Side {
 public:
  /// dtype: of activations and weights as the operators take them. values: the type to which the values of inputs are
  /// rounded first. Borrows the operators.
  Side(Ops& ops, int threads, DType dtype, DType values, const Sizes& sizes);
  /// Ends the tensors and the results of the calls before.
  void begin();
  /// The rest of what was issued has run.
  void finish() { context.stream->finish(); }

  // Tensors of the device. Values are a pure function of the seed.
  View input(Shape shape, uint64_t seed, double scale = 1, double shift = 0);  ///< of the activation type
  View input_f32(Shape shape, uint64_t seed, double scale = 1, double shift = 0);
  View ids(DType dtype, Shape shape, int64_t bound);  ///< i32 or i64, below the bound
  View place(DType dtype, Shape shape, std::span<const std::byte> bytes);
  View empty(Shape shape) { return empty(dtype, shape); }  ///< zeros, of the activation type
  View empty(DType type, Shape shape);

  /// What a call wrote.
  struct Output {
    std::string name;
    DType dtype = DType::f32;
    std::vector<std::byte> bytes;
    double at(size_t i) const;
    size_t size() const { return bytes.size() / size_of(dtype); }
  };
  /// Keeps the tensor's values, after the calls so far.
  void keep(std::string name, ConstView tensor);

  /// A constant.
  const Sizes& sizes;
  Ops& ops;
  const DType dtype;
  Context context;
  std::vector<Output> outputs;

 private:
  View filled(DType type, Shape shape, uint64_t seed, double scale, double shift);

  DType values_;
  Arena scratch_;
  std::list<Arena> memory_;
};

/// How far two sides are apart, in units of the root mean square of the wanted values.
struct Difference {
  double worst = 0;       ///< of all elements |got - want| / (that + |want|); infinite for NaN
  double typical = 0;     ///< root mean square of the differences, of the output in which it is largest
  std::string text = {};  ///< of the worst: "y[17] is 2.5, not 0.1"
};
/// The difference of all outputs, which have the same names and sizes.
Difference difference(const Side& got, const Side& want);
/// The first output whose bits differ: "m: 3 of 1000 elements have other bits, the first is [17]: 0.5, on the CPU
/// 0.25"; empty: none.
std::string other_bits(const Side& got, const Side& want);

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

// Checks of one GPU. No rank waits for another one.
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
