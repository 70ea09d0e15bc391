#pragma once
// The time of one training step from the sizes of a model, a layout of ranks and the rates of a machine. Every term is
// the larger of arithmetic and memory traffic, or a message over one of two kinds of links; docs/planner.md has the
// formulas, the sources of the constants and how far the result is from measured runs.

#include <array>
#include <cstdint>
#include <vector>

#include "config/choices.h"
#include "ops/gemm_shape.h"
#include "plan/mesh_placement.h"

namespace trireme {

/// The sizes of a decoder that its time depends on.
struct ModelSize {
  int64_t layers = 0, width = 0, heads = 0, sequence = 0, vocabulary = 0;
  int64_t inner = 0;       ///< 0: 4 x width
  int64_t kv_heads = 0;    ///< 0: heads
  int64_t head_size = 0;   ///< 0: width / heads
  bool gated = false;      ///< the MLP has a third matrix
  bool tied = true;        ///< the head has the token matrix
  bool full_mask = false;  ///< rows see later ones, too
  double trained = 1;      ///< share of the weights that have gradients
  // Where sequences differ in length, a micro-batch counts as one sequence of all its rows.
  double attended = 0;   ///< rows of a row's own sequence, on average over rows; 0: sequence
  double head_rows = 1;  ///< share of the rows that go through the head

  int64_t inner_width() const { return inner > 0 ? inner : 4 * width; }
  int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  double head_width() const {
    return head_size > 0 ? static_cast<double>(head_size) : static_cast<double>(width) / static_cast<double>(heads);
  }
  /// Weights of one layer: matrices, their biases and the norms.
  double layer_parameters() const;
  /// Those of all layers and the token matrix.
  double parameters() const;
};

/// What backward computes again.
enum class Recomputed : uint8_t {
  nothing,
  attention,  ///< scores, softmax and their product with the values
  layers,     ///< every layer's forward
};

/// How a step is spread over ranks. Ranks of one tensor group are neighbours, then come data ranks, then stages.
struct StepLayout {
  int64_t data = 1, tensor = 1, pipeline = 1;
  int64_t chunks = 1;                         ///< of the model per stage: interleaved 1F1B
  int64_t global_batch = 1, micro_batch = 1;  ///< sequences; micro_batch: of one data rank
  Recomputed recomputed = Recomputed::nothing;
  bool sequence_parallel = false;
  ShardChoice shard = ShardChoice::none;  ///< what data ranks share

  int64_t ranks() const { return data * tensor * pipeline; }
  int64_t micro_batches() const { return global_batch / (data * micro_batch); }
  /// On nodes of so many ranks each.
  MeshPlacement on(int64_t node_ranks) const { return {data, tensor, pipeline, node_ranks}; }
};

/// A product of a linear layer as `trireme bench node` measured it.
struct MeasuredProduct {
  GemmKind kind = GemmKind::forward;
  int64_t in = 0, out = 0;  ///< columns of the layer's input and output
  double flops = 0;         ///< per second of the whole node
  DType dtype = DType::f32;
};

/// What one rank computes with and what connects ranks. Rates in units per second, times in seconds.
struct MachineRates {
  double peak_flops = 0;     ///< of matrix products, of one rank
  double product_share = 1;  ///< of the peak that large products reach
  double memory_bytes = 0;   ///< bandwidth of one rank's memory
  /// Share of it that a pass over at least 100 MB, 10 MB, 1 MB or less reaches.
  std::array<double, 4> pass_shares{1, 1, 1, 1};
  int64_t units = 0;  ///< processors that compute tiles of a product at the same time; 0: products have no tiles
  std::vector<MeasuredProduct> products{};  ///< rates of one rank; empty: peak_flops x product_share
  int64_t tile_rows = 256, tile_columns = 128, tile_fill = 192;  ///< fill: terms' worth of time before the first one
  double launch_seconds = 0;                                     ///< of the processor that starts a kernel
  int64_t node_ranks = 1;                                        ///< ranks of one node
  double inner_bytes = 0;                                        ///< from one rank to others of its node
  double inner_share = 1;
  double inner_latency = 0;  ///< per message
  double node_bytes = 0;     ///< from one node to the others, all its ranks together
  double node_share = 1;
  double node_latency = 0;
  double element_bytes = 2;        ///< of a weight and an activation
  double gradient_bytes = 2;       ///< per gradient on the link
  double logit_bytes = 30;         ///< of memory traffic per logit, forward and backward, beside the products
  double update_bytes = 36;        ///< of memory traffic per weight that a rank updates
  bool exchange_overlaps = false;  ///< gradients travel while the last micro-batch's backward runs
  double bucket_bytes = 0;         ///< on the link, of gradients that start together; 0: those of a layer
  /// A rank with embedding and head sends the embedding's gradient apart from the head's, after backward: rows of
  /// tokens that occur, or all of them.
  bool embedding_apart = false, all_rows = false;
  double tied_bytes = 2;  ///< per weight of a tied matrix, between the stages that hold it
  /// Seconds of computing that a rank loses for each byte of gradients that it sends inside a node, to other nodes.
  double inner_work = 0, node_work = 0;
  bool messages_overlap = false;  ///< a stage computes while its messages travel, and waits only for what it needs
  bool every_rank_sends = false;  ///< gradients, to the ranks of all other nodes, instead of a ring through the nodes
  bool sends_if_uneven = false;   ///< so does every rank where nodes have different numbers of ranks of a data group
  bool by_rank = false;           ///< data ranks are on nodes by their number; else a group that fits is on one node
  bool direct_sums = false;       ///< tensor ranks send to each other instead of around a ring
  /// Scores stay in the processor and those above the diagonal are not computed; backward computes them once more.
  bool fused_attention = false;
  /// The stage with the head has fewer layers, so that the slowest one has the least work.
  bool balanced_stages = false;
  double attention_share = 1;  ///< of a product's rate that fused attention reaches
};

/// Seconds of a step by cause; the largest stage's, and what waits for it.
struct PlannedTime {
  double products = 0;        ///< matrix products, those that are repeated included
  double passes = 0;          ///< everything else that reads and writes memory
  double tensor_sums = 0;     ///< between tensor ranks
  double launches = 0;        ///< kernels start more slowly than they run
  double stage_messages = 0;  ///< between pipeline stages
  double bubble = 0;          ///< the pipeline fills and drains
  double exchange = 0;        ///< of gradients, as far as nothing hides it, and what computing loses to it
  double update = 0;
  double total() const {
    return products + passes + tensor_sums + launches + stage_messages + bubble + exchange + update;
  }
};

/// layout: sizes that divide the model. Throws Error::config for rates that are not positive, naming them.
PlannedTime step_time(const ModelSize& model, const StepLayout& layout, const MachineRates& machine);

/// What a step consists of, for the simulator: seconds of a micro-batch on one rank, and bytes.
struct StageTimes {
  double layer_forward = 0, layer_backward = 0;  ///< of one layer; backward: what is computed again included
  double head_forward = 0, head_backward = 0;
  double message_bytes = 0;     ///< between stages, of one rank
  double exchange_bytes = 0;    ///< of one rank, for all gradients, in a ring
  double exchange_latency = 0;  ///< seconds of all messages' starts
  double first_bucket = 0;      ///< seconds of the last backward before the exchange begins
  double last_bucket = 1;       ///< share of the exchange that begins when backward has ended
  double exchange_lost = 0;     ///< seconds that the last backward loses to the exchange
  double exchange_after = 0;    ///< seconds of what travels after the exchange: touched rows, updated weights
  double tied = 0;              ///< seconds in which the first and the last stage add the gradients of a tied matrix
  double update = 0;
};
/// The times of the tensor group that begins at rank `first`. Throws as step_time().
StageTimes stage_times(const ModelSize& model, const StepLayout& layout, const MachineRates& machine, int64_t first);

/// Whether the ranks of every data group are counted on one node (MachineRates::by_rank).
bool keeps_data_on_a_node(const StepLayout& layout, const MachineRates& machine);
/// How data ranks add gradients up.
GroupTraffic gradient_traffic(const StepLayout& layout, const MachineRates& machine);

/// Expected share of a vocabulary's rows that so many tokens of text contain, their frequencies by Zipf's law: the r-th
/// most frequent one has the probability 1 / (r x sum of 1 / r).
double touched_share(double tokens, int64_t vocabulary);

/// Bytes that one rank sends in a step.
struct LinkBytes {
  double tensor = 0, stages = 0, exchange = 0;
};
LinkBytes link_bytes(const ModelSize& model, const StepLayout& layout, const MachineRates& machine);

/// Operations of a step in all ranks together that training needs, without what is repeated: 6 per weight and token and
/// 12 x layers x width x sequence per token of attention.
double model_flops(const ModelSize& model, int64_t sequences);

/// Bytes of a GPU's memory as Megatron-LM uses it with 16-bit weights: weights, gradients and Adam's state take 18
/// bytes per weight; activations as Korthikanti et al. 2022 (arXiv 2205.05198) count them.
struct MegatronMemory {
  double state = 0, activations = 0;
};
/// The memory of a middle stage (no token matrix) or of the first stage, which keeps most micro-batches.
MegatronMemory megatron_memory(const ModelSize& model, const StepLayout& layout, bool token_matrix);

}  // namespace trireme
