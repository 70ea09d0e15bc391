#pragma once
// The values of options with a fixed set of values, each with its name.

#include <cstdint>

#include "base/names.h"

namespace trireme {

/// Standard deviations of a new model's matrices. L: layers, C: width. "Residual": of both linears that write to the
/// residual stream; scaled, its variance does not grow with depth.
enum class InitScheme : uint8_t {
  gpt2,  ///< 0.02; residual 0.02 / sqrt(2 L). Source: Radford et al. 2019
  bert,  ///< 0.02 for all. Source: Devlin et al. 2019
  opt,   ///< 0.006; residual 0.006 / sqrt(2 L). Source: Zhang et al. 2022
  neox,  ///< sqrt(2 / (5 C)); residual 2 / (L sqrt C). Source: Black et al. 2022
};
template <>
struct Names<InitScheme> {
  static constexpr Named<InitScheme> kAll[] = {
      {"gpt2", InitScheme::gpt2}, {"bert", InitScheme::bert}, {"opt", InitScheme::opt}, {"neox", InitScheme::neox}};
};

enum class NormPlace : uint8_t {
  pre,     ///< x += branch(norm(x))
  post,    ///< x = norm(x + branch(x))
  branch,  ///< x += norm(branch(x))
  both,    ///< x += norm(branch(norm(x)))
};
template <>
struct Names<NormPlace> {
  static constexpr Named<NormPlace> kAll[] = {
      {"pre", NormPlace::pre}, {"post", NormPlace::post}, {"branch", NormPlace::branch}, {"both", NormPlace::both}};
};

enum class Residual : uint8_t {
  sequential,  ///< x += attention(x), then x += mlp(x)
  parallel,    ///< x += attention(x) + mlp(x); pre-norm only
};
template <>
struct Names<Residual> {
  static constexpr Named<Residual> kAll[] = {{"sequential", Residual::sequential}, {"parallel", Residual::parallel}};
};

enum class Position : uint8_t {
  learned,  ///< a table added to the token embedding
  rotary,   ///< queries and keys are rotated
};
template <>
struct Names<Position> {
  static constexpr Named<Position> kAll[] = {{"learned", Position::learned}, {"rotary", Position::rotary}};
};

enum class NormKind : uint8_t {
  layer,  ///< by mean and variance
  rms,    ///< by the mean square, without bias
};
template <>
struct Names<NormKind> {
  static constexpr Named<NormKind> kAll[] = {{"layer", NormKind::layer}, {"rms", NormKind::rms}};
};

/// Which queries and keys are normalised together before they turn; by the mean square.
enum class QueryKeys : uint8_t {
  plain,       ///< they are not normalised
  head,        ///< those of each head, with one gain per value of a head
  projection,  ///< all queries of a row, and all keys, with one gain per value of the projection
};
template <>
struct Names<QueryKeys> {
  static constexpr Named<QueryKeys> kAll[] = {
      {"plain", QueryKeys::plain}, {"head", QueryKeys::head}, {"projection", QueryKeys::projection}};
};

/// How the frequencies of a longer context are made from those w_i = base^(-2i / dims) of a shorter one. O: the
/// original context. The names are those of rope_type.
enum class RotaryKind : uint8_t {
  none,
  linear,    ///< w / factor. Source: Chen et al. 2023
  dynamic,   ///< w of a larger base, where the context is above O; up to O unchanged
  llama3,    ///< waves longer than O / low: w / factor; shorter than O / high: w; between them interpolated
  yarn,      ///< w / factor for few turns within O, w for many, between them interpolated. Source: Peng et al. 2023
  longrope,  ///< w / one factor per frequency: a list for contexts up to O, one for longer. Source: Ding et al. 2024
};
template <>
struct Names<RotaryKind> {
  static constexpr Named<RotaryKind> kAll[] = {{"default", RotaryKind::none},    {"linear", RotaryKind::linear},
                                               {"dynamic", RotaryKind::dynamic}, {"llama3", RotaryKind::llama3},
                                               {"yarn", RotaryKind::yarn},       {"longrope", RotaryKind::longrope}};
};

/// What the backward pass recomputes instead of keeping it: nothing, attention's output, or a block's whole forward
/// pass.
enum class Recompute : uint8_t { none, attention, full };
template <>
struct Names<Recompute> {
  static constexpr Named<Recompute> kAll[] = {
      {"none", Recompute::none}, {"attention", Recompute::attention}, {"full", Recompute::full}};
};

/// The schedule of the learning rate after warm-up.
enum class RateCourse : uint8_t {
  constant,
  cosine,
  linear,
  exponential,
  polynomial,
  cosine_with_restarts,
  inverse_sqrt,
  stable_decay
};
template <>
struct Names<RateCourse> {
  static constexpr Named<RateCourse> kAll[] = {{"cosine", RateCourse::cosine},
                                               {"linear", RateCourse::linear},
                                               {"constant", RateCourse::constant},
                                               {"exponential", RateCourse::exponential},
                                               {"polynomial", RateCourse::polynomial},
                                               {"cosine-with-restarts", RateCourse::cosine_with_restarts},
                                               {"inverse-sqrt", RateCourse::inverse_sqrt},
                                               {"stable-decay", RateCourse::stable_decay}};
};

/// How the rate of the schedule stable-decay falls.
enum class DecayShape : uint8_t { cosine, linear, sqrt };
template <>
struct Names<DecayShape> {
  static constexpr Named<DecayShape> kAll[] = {
      {"cosine", DecayShape::cosine}, {"linear", DecayShape::linear}, {"sqrt", DecayShape::sqrt}};
};

/// Which program's formulas the schedule follows: optim/schedule.h has them.
enum class ScheduleForm : uint8_t { nanogpt, neox };
template <>
struct Names<ScheduleForm> {
  static constexpr Named<ScheduleForm> kAll[] = {{"nanogpt", ScheduleForm::nanogpt}, {"neox", ScheduleForm::neox}};
};

/// What is sharded over data-parallel ranks: ZeRO's stages 0 to 3.
enum class ShardChoice : uint8_t { none, optimizer, gradients, parameters };
template <>
struct Names<ShardChoice> {
  static constexpr Named<ShardChoice> kAll[] = {{"none", ShardChoice::none},
                                                {"optimizer", ShardChoice::optimizer},
                                                {"gradients", ShardChoice::gradients},
                                                {"parameters", ShardChoice::parameters}};
};

/// Which ranks shard together: all data-parallel ranks, or those of each host.
enum class ShardGroup : uint8_t { all, host };
template <>
struct Names<ShardGroup> {
  static constexpr Named<ShardGroup> kAll[] = {{"all", ShardGroup::all}, {"host", ShardGroup::host}};
};

/// How the factor of the loss in f16 follows overflows: DeepSpeed's and GPT-NeoX's way, or metaseq's.
enum class LossScaleRule : uint8_t { deepspeed, metaseq };
template <>
struct Names<LossScaleRule> {
  static constexpr Named<LossScaleRule> kAll[] = {{"deepspeed", LossScaleRule::deepspeed},
                                                  {"metaseq", LossScaleRule::metaseq}};
};

/// How gradients of data-parallel ranks are added.
enum class ReduceOrder : uint8_t {
  automatic,  ///< hosts or flat (train/plan.h)
  flat,       ///< all in rank order
  hosts,      ///< first those of each host
  nccl,       ///< as NCCL does it
};
template <>
struct Names<ReduceOrder> {
  static constexpr Named<ReduceOrder> kAll[] = {{"auto", ReduceOrder::automatic},
                                                {"flat", ReduceOrder::flat},
                                                {"hosts", ReduceOrder::hosts},
                                                {"nccl", ReduceOrder::nccl}};
};

/// What the loss of a step is averaged over: its tokens, or its micro-batches, each of which is a mean over its tokens.
enum class LossMean : uint8_t { tokens, micro_batches };
template <>
struct Names<LossMean> {
  static constexpr Named<LossMean> kAll[] = {{"tokens", LossMean::tokens}, {"micro-batches", LossMean::micro_batches}};
};

/// What is minimised of a pair of answers: a function of d, how much more than the reference the model prefers the
/// chosen answer, in nats; of s, the sigmoid; of b, beta; of e, the label smoothing. d_ids: with log-probabilities
/// divided by their number of ids. The names are those of TRL's loss_type.
enum class PairLoss : uint8_t {
  sigmoid,       ///< -(1 - e) log s(b d) - e log s(-b d). Source: Rafailov et al. 2023; e: Mitchell 2023
  robust,        ///< (-(1 - e) log s(b d) + e log s(-b d)) / (1 - 2 e). Source: Chowdhury et al. 2024
  ipo,           ///< (d_ids - 1 / (2 b))^2. Source: Azar et al. 2023
  hinge,         ///< max(0, 1 - b d). Source: Zhao et al. 2023
  sigmoid_norm,  ///< -log s(b d_ids)
};
template <>
struct Names<PairLoss> {
  static constexpr Named<PairLoss> kAll[] = {{"sigmoid", PairLoss::sigmoid},
                                             {"robust", PairLoss::robust},
                                             {"ipo", PairLoss::ipo},
                                             {"hinge", PairLoss::hinge},
                                             {"sigmoid-norm", PairLoss::sigmoid_norm}};
};

/// What to do when a snapshot cannot be written.
enum class OnError : uint8_t { keep_training, stop };
template <>
struct Names<OnError> {
  static constexpr Named<OnError> kAll[] = {{"continue", OnError::keep_training}, {"stop", OnError::stop}};
};

/// What to do when the parameters of a minority of ranks differ.
enum class OnDifference : uint8_t { heal, stop };
template <>
struct Names<OnDifference> {
  static constexpr Named<OnDifference> kAll[] = {{"heal", OnDifference::heal}, {"stop", OnDifference::stop}};
};

/// What to do when a step's loss is far above those before it.
enum class OnSpike : uint8_t { warn, skip, roll_back };
template <>
struct Names<OnSpike> {
  static constexpr Named<OnSpike> kAll[] = {
      {"warn", OnSpike::warn}, {"skip", OnSpike::skip}, {"roll-back", OnSpike::roll_back}};
};

/// A column of the lines of steps, after the step.
enum class LogColumn : uint8_t {
  epoch,
  loss,
  mean,
  rate,
  gradient,
  tokens_per_second,
  measures,  ///< all of the task
  ms_per_step,
  wait,
  mfu,
  perplexity,
  memory,
  samples,
  samples_per_second,
  flops,
  slowest
};
/// In the order of the lines.
template <>
struct Names<LogColumn> {
  static constexpr Named<LogColumn> kAll[] = {
      {"epoch", LogColumn::epoch},       {"loss", LogColumn::loss},
      {"mean", LogColumn::mean},         {"lr", LogColumn::rate},
      {"grad", LogColumn::gradient},     {"tok/s", LogColumn::tokens_per_second},
      {"measures", LogColumn::measures}, {"ms/step", LogColumn::ms_per_step},
      {"wait", LogColumn::wait},         {"mfu", LogColumn::mfu},
      {"ppl", LogColumn::perplexity},    {"memory", LogColumn::memory},
      {"samples", LogColumn::samples},   {"samples/s", LogColumn::samples_per_second},
      {"flop/s", LogColumn::flops},      {"slowest", LogColumn::slowest}};
};

enum class Binding : uint8_t { automatic, inherit };
template <>
struct Names<Binding> {
  static constexpr Named<Binding> kAll[] = {{"auto", Binding::automatic}, {"inherit", Binding::inherit}};
};

}  // namespace trireme
