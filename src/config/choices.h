#pragma once
// What options with a fixed set of values may be. config/config.h binds each value to its name, once.

#include <cstdint>

namespace trireme {

enum class InitChoice : uint8_t { preset, gpt2, bert, opt, neox };
enum class MlpActivation : uint8_t { gelu_tanh, gelu_erf, relu };
enum class NormChoice : uint8_t { pre, post };
enum class ResidualChoice : uint8_t { sequential, parallel };
/// What backward computes again instead of keeping it: nothing, attention's output, or a block's whole forward.
enum class Recompute : uint8_t { none, attention, full };
enum class PositionChoice : uint8_t { learned, rotary };
/// The learning rate's course after warm-up.
enum class RateCourse : uint8_t {
  constant,
  cosine,
  linear,
  exponential,
  polynomial,
  cosine_with_restarts,
  inverse_sqrt
};
/// Whose formulas the course follows: optim/schedule.h has them.
enum class ScheduleForm : uint8_t { nanogpt, neox };
/// What is sharded over data-parallel ranks: ZeRO's stages 0 to 3.
enum class ShardChoice : uint8_t { none, optimizer, gradients, parameters };
/// Among whom it is sharded: all data-parallel ranks, or those of each host.
enum class ShardGroup : uint8_t { all, host };
/// Which data-parallel ranks' gradients are added first: all in rank order, or those of each host.
enum class ReduceOrder : uint8_t { flat, hosts };
/// What the loss of a step is a mean over: its tokens, or its micro-batches, each of which is a mean over its tokens.
enum class LossMean : uint8_t { tokens, micro_batches };
/// When a snapshot cannot be written.
enum class OnError : uint8_t { go_on, stop };
/// When a minority of ranks holds other parameters.
enum class OnDifference : uint8_t { heal, stop };
/// When a step's loss is far above those before it.
enum class OnSpike : uint8_t { warn, skip, roll_back };
enum class Binding : uint8_t { automatic, inherit };

}  // namespace trireme
