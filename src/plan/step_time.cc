#include "plan/step_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace trireme {
namespace {

void require_rates(const MachineRates& machine, const StepLayout& layout) {
  const auto positive = [](double value, const char* what) {
    require(value > 0, ErrorKind::config, "{} is {}, expected a positive number; correct the node type", what, value);
  };
  positive(machine.peak_flops, "the peak of matrix products");
  positive(machine.product_share, "the share of the peak that products reach");
  positive(machine.memory_bytes, "the memory bandwidth");
  if (layout.ranks() > 1 && std::min(layout.ranks(), machine.node_ranks) > 1)
    positive(machine.inner_bytes * machine.inner_share, "the bandwidth inside a node");
  if (layout.ranks() > machine.node_ranks)
    positive(machine.node_bytes * machine.node_share, "the network bandwidth of a node");
}

/// Times of kernels on one rank.
class Kernels {
 public:
  explicit Kernels(const MachineRates& machine) : machine_(machine) {}

  /// count products [rows, inner] x [inner, columns].
  double product(double rows, double columns, double inner, double count = 1) const {
    return product_at(machine_.peak_flops * machine_.product_share, rows, columns, inner, count);
  }

  /// One product of a linear layer.
  double linear(GemmKind kind, double rows, double in, double out) const {
    const double rate = measured_rate(kind, in, out);
    if (kind == GemmKind::forward) return product_at(rate, rows, out, in, 1);
    return kind == GemmKind::input ? product_at(rate, rows, in, out, 1) : product_at(rate, out, in, rows, 1);
  }

  /// The gradients of the input and of the matrix.
  double linear_backward(double rows, double in, double out) const {
    return linear(GemmKind::input, rows, in, out) + linear(GemmKind::weight, rows, in, out);
  }

  /// Products of `count` heads' scores and values, half of each kind.
  double attention(double length, double head_size, double count, double products) const {
    if (!machine_.fused_attention) {
      const double scores = product(length, length, head_size, count),
                   values = product(length, head_size, length, count);
      return products / 2 * (scores + values);
    }
    return products * length * length * head_size * count /
           (machine_.peak_flops * machine_.product_share * machine_.attention_share);
  }
  bool fused() const { return machine_.fused_attention; }

  /// A pass that reads and writes so many weights or activations. A dropout's mask is half a 16-bit element.
  double elements(double count) const { return pass(machine_.element_bytes * count); }
  double pass(double bytes) const {
    const size_t size = bytes >= 1e8 ? 0 : bytes >= 1e7 ? 1 : bytes >= 1e6 ? 2 : 3;
    return bytes / (machine_.memory_bytes * machine_.pass_shares[size]);
  }

 private:
  double product_at(double reached, double rows, double columns, double inner, double count) const {
    const double flops = 2 * rows * columns * inner * count;
    const double bytes = machine_.element_bytes * (rows * inner + inner * columns + rows * columns) * count;
    const double fill = machine_.units > 0 ? 1 + static_cast<double>(machine_.tile_fill) / inner : 1;
    return std::max(flops / (reached * filled(rows, columns, count)) * fill, pass(bytes));
  }

  /// That of the measured layer whose sizes are nearest by ratio.
  double measured_rate(GemmKind kind, double in, double out) const {
    double rate = machine_.peak_flops * machine_.product_share, least = std::numeric_limits<double>::infinity();
    for (const MeasuredProduct& known : machine_.products) {
      if (known.kind != kind) continue;
      const double away = std::abs(std::log(in / static_cast<double>(known.in))) +
                          std::abs(std::log(out / static_cast<double>(known.out)));
      if (away < least) least = away, rate = known.flops;
    }
    return rate;
  }

  /// Share of the tiles' places that hold results, with the better one of two orientations of the tile: the edges of a
  /// product cover a tile in part, and the last round of tiles uses some of the units only.
  double filled(double rows, double columns, double count) const {
    if (machine_.units == 0) return 1;
    double best = 0;
    const auto one = static_cast<double>(machine_.tile_rows), other = static_cast<double>(machine_.tile_columns);
    for (const auto& [high, wide] : {std::pair{one, other}, std::pair{other, one}, std::pair{other, other}}) {
      const double tiles = std::ceil(rows / high) * std::ceil(columns / wide) * count;
      const auto units = static_cast<double>(machine_.units);
      const double places = std::ceil(tiles / units) * units * high * wide;
      best = std::max(best, rows * columns * count / places);
    }
    return best;
  }

  const MachineRates& machine_;
};

/// One layer's time on one rank for one micro-batch.
struct LayerTime {
  double products = 0, passes = 0, sums = 0, kernels = 0;
  double busy() const { return products + passes + sums; }
};

LayerTime operator+(const LayerTime& a, const LayerTime& b) {
  return {a.products + b.products, a.passes + b.passes, a.sums + b.sums, a.kernels + b.kernels};
}

/// The sizes that the times of a micro-batch depend on, as doubles.
struct Sizes {
  Sizes(const ModelSize& model, const StepLayout& layout)
      : rows(static_cast<double>(layout.micro_batch * model.sequence)),
        width(static_cast<double>(model.width)),
        sequence(static_cast<double>(model.sequence)),
        tensor(static_cast<double>(layout.tensor)),
        head_size(model.head_width()),
        heads(static_cast<double>(layout.micro_batch * model.heads) / tensor),
        qkv(static_cast<double>(model.heads + 2 * model.key_heads()) * head_size / tensor),
        mixed(static_cast<double>(model.heads) * head_size / tensor),
        inner(static_cast<double>(model.inner_width()) / tensor),
        first(inner * (model.gated ? 2 : 1)),
        vocabulary(static_cast<double>(model.vocabulary) / tensor),
        own_rows(layout.sequence_parallel ? rows / tensor : rows),
        scores(heads * sequence * sequence) {}
  double rows, width, sequence, tensor, head_size;
  double heads;                     ///< that a rank computes for all sequences of its micro-batch
  double qkv, mixed, inner, first;  ///< columns of the rank's matrices
  double vocabulary, own_rows, scores;
};

constexpr double kForwardKernels = 25, kBackwardKernels = 40;  ///< of a layer without fused attention

LayerTime attention_forward(const Sizes& s, const Kernels& k) {
  return {.products = k.attention(s.sequence, s.head_size, s.heads, 2),
          .passes =
              k.fused() ? 0 : k.elements(2 * s.scores) + k.elements(2.5 * s.scores)};  // softmax; dropout and its mask
}

/// Columns of the output and the input of a layer's matrices.
std::array<std::pair<double, double>, 4> matrices_of(const Sizes& s) {
  return {{{s.qkv, s.width}, {s.width, s.mixed}, {s.first, s.width}, {s.width, s.inner}}};
}

LayerTime forward_of(const Sizes& s, const Kernels& k, double sum) {
  LayerTime time = attention_forward(s, k);
  for (const auto& [out, in] : matrices_of(s)) time.products += k.linear(GemmKind::forward, s.rows, in, out);
  const double x = s.own_rows * s.width, attention = s.rows * s.mixed;
  // Two norms, two dropouts with their residuals, the activation, queries and values turned.
  time.passes += 2 * k.elements(2 * x) + 2 * k.elements(3.5 * x) + k.elements(s.rows * (s.first + s.inner)) +
                 2 * k.elements(3 * attention);
  time.sums = 2 * sum;
  time.kernels = kForwardKernels;
  return time;
}

LayerTime backward_of(const Sizes& s, const Kernels& k, double sum) {
  LayerTime time;
  for (const auto& [out, in] : matrices_of(s)) time.products += k.linear_backward(s.rows, in, out);
  time.products += k.attention(s.sequence, s.head_size, s.heads, k.fused() ? 5 : 4);
  const double x = s.own_rows * s.width, attention = s.rows * s.mixed;
  time.passes = 2 * k.elements(3 * x) + 2 * k.elements(2.5 * x) + k.elements(s.rows * (2 * s.first + s.inner)) +
                2 * k.elements(3 * attention) + (k.fused() ? 0 : k.elements(3 * s.scores) + k.elements(2.5 * s.scores));
  time.sums = 2 * sum;
  time.kernels = kBackwardKernels;
  return time;
}

/// Rates and latencies of the links that a layout uses.
struct Links {
  double tensor = 0, tensor_latency = 0;
  double stages = 0;    ///< of one rank's messages
  bool across = false;  ///< stages are on several nodes
  double exchange = 0, exchange_latency = 0;
};

Links links_of(const StepLayout& layout, const MachineRates& machine) {
  const auto node_ranks = static_cast<double>(machine.node_ranks), tensor = static_cast<double>(layout.tensor);
  const double inner = machine.inner_bytes * machine.inner_share, node = machine.node_bytes * machine.node_share;
  const bool wide = layout.tensor > machine.node_ranks;
  const double groups = std::min(tensor, node_ranks);  // data groups that leave a node together
  const bool near = layout.data <= std::max<int64_t>(1, machine.node_ranks / layout.tensor);
  Links links;
  const double slower = machine.node_ranks > 1 ? std::min(inner, node) : node;
  links.tensor = wide ? slower : inner;
  links.tensor_latency = wide ? machine.node_latency : machine.inner_latency;
  links.across = layout.ranks() > machine.node_ranks;
  links.stages = links.across ? node / node_ranks : inner;
  double shared = node / groups;
  if (machine.every_rank_sends && !near) {
    const auto data = static_cast<double>(layout.data);
    const double here = std::max(1.0, std::floor(node_ranks / tensor));  // of a data group on one node
    shared = shared / here * (data - 1) / (data - here);
  }
  links.exchange = near ? inner : machine.node_ranks > 1 ? std::min(inner, shared) : shared;
  links.exchange_latency = near ? machine.inner_latency : machine.node_latency;
  return links;
}

/// A ring's all-reduce, or its two halves.
double ring(double bytes, int64_t members, double rate, double latency) {
  if (members <= 1) return 0;
  const auto n = static_cast<double>(members);
  return 2 * (n - 1) / n * bytes / rate + 2 * (n - 1) * latency;
}

/// What data ranks exchange: the bytes of a ring's all-reduce that sends the same, and how often in a step.
struct Exchange {
  double bytes = 0, times = 1;
};

Exchange exchange_of(const StepLayout& layout, const MachineRates& machine, double held) {
  const double gradients = machine.gradient_bytes * held, weights = machine.element_bytes * held;
  const auto steps = static_cast<double>(layout.micro_batches());
  switch (layout.shard) {
    case ShardChoice::none:
      return {gradients, 1};
    case ShardChoice::optimizer:  // sums to their owners, weights from them
      return {(gradients + weights) / 2, 1};
    case ShardChoice::gradients:
      return {(gradients * steps + weights) / 2, steps};
    default:  // weights for each forward and each backward
      return {(gradients + 2 * weights) * steps / 2, steps};
  }
}

/// Layers of the stage that has most.
double largest_stage(const ModelSize& model, const StepLayout& layout) {
  const int64_t parts = layout.pipeline * layout.chunks;
  const int64_t layers = (model.layers + parts - 1) / parts * layout.chunks;
  return static_cast<double>(layers);
}

/// The stage that takes longest for a micro-batch.
struct SlowestStage {
  double layers = 0;
  bool head = true;
};

/// layer, head: their seconds.
SlowestStage slowest_stage(const ModelSize& model, const StepLayout& layout, const MachineRates& machine, double layer,
                           double head) {
  SlowestStage slowest{largest_stage(model, layout), true};
  const int64_t others = layout.pipeline * layout.chunks - 1;
  if (!machine.balanced_stages || layout.pipeline == 1 || others < 1) return slowest;
  const auto chunks = static_cast<double>(layout.chunks);
  double least = std::numeric_limits<double>::infinity();
  for (int64_t last = 1; last <= model.layers - others; ++last) {  // layers of the part with the head
    const int64_t each = (model.layers - last + others - 1) / others;
    const auto other = static_cast<double>(each);
    const double first_stage = other * chunks, last_stage = other * (chunks - 1) + static_cast<double>(last);
    const bool at_end = last_stage * layer + head > first_stage * layer;
    const double seconds = at_end ? last_stage * layer + head : first_stage * layer;
    if (seconds < least) least = seconds, slowest = {at_end ? last_stage : first_stage, at_end};
  }
  return slowest;
}

/// Weights that a rank of the first or the last stage holds.
double held_parameters(const ModelSize& model, const StepLayout& layout) {
  const auto tensor = static_cast<double>(layout.tensor);
  return model.layer_parameters() * static_cast<double>(model.layers) /
             (static_cast<double>(layout.pipeline) * tensor) +
         static_cast<double>(model.vocabulary * model.width) / tensor;
}

}  // namespace

double ModelSize::layer_parameters() const {
  const auto c = static_cast<double>(width), i = static_cast<double>(inner_width());
  const double attention = 2 * c * head_width() * static_cast<double>(heads + key_heads());
  return attention + (gated ? 3 : 2) * c * i + 13 * c;
}

double ModelSize::parameters() const {
  return layer_parameters() * static_cast<double>(layers) + static_cast<double>(vocabulary * width);
}

namespace {

/// What the time of a step and the simulator are made of.
struct Parts {
  Parts(const ModelSize& model, const StepLayout& layout, const MachineRates& machine)
      : kernels(machine),
        links(links_of(layout, machine)),
        held(held_parameters(model, layout)),
        exchange(exchange_of(layout, machine, held)) {
    const Sizes sizes(model, layout);
    const double x_bytes = machine.element_bytes * sizes.rows * sizes.width;
    sum = ring(x_bytes, layout.tensor, links.tensor, links.tensor_latency);
    forward = forward_of(sizes, kernels, sum);
    backward = backward_of(sizes, kernels, sum);
    if (layout.recomputed == Recomputed::layers) again = forward;
    if (layout.recomputed == Recomputed::attention) again = attention_forward(sizes, kernels);
    const auto late = [&](const LayerTime& time) {
      return std::max(0.0, time.kernels * machine.launch_seconds - time.busy());
    };
    forward_launches = late(forward);
    backward_launches = late(backward) + late(again);
    // Forward, gradient of the input, gradient of the matrix; softmax and its gradient pass over the logits.
    head_forward = kernels.linear(GemmKind::forward, sizes.rows, sizes.width, sizes.vocabulary);
    head_backward = kernels.linear_backward(sizes.rows, sizes.width, sizes.vocabulary);
    head_passes = kernels.pass(machine.logit_bytes * sizes.rows * sizes.vocabulary);
    // Tensor ranks send a part each where it leaves the node.
    message_bytes = links.across || layout.sequence_parallel ? x_bytes / sizes.tensor : x_bytes;
    const double updated = layout.shard == ShardChoice::none ? held : held / static_cast<double>(layout.data);
    update = kernels.pass(machine.update_bytes * updated);
  }
  double launches() const { return forward_launches + backward_launches; }

  Kernels kernels;
  Links links;
  double held;
  Exchange exchange;
  double sum = 0;  ///< of tensor ranks
  LayerTime forward, backward, again;
  double forward_launches = 0, backward_launches = 0, head_forward = 0, head_backward = 0, head_passes = 0;
  double message_bytes = 0, update = 0;
};

}  // namespace

PlannedTime step_time(const ModelSize& model, const StepLayout& layout, const MachineRates& machine) {
  require_rates(machine, layout);
  const Parts parts(model, layout, machine);
  const LayerTime layer = parts.forward + parts.backward + parts.again;
  const double launches = parts.launches();
  const auto stages = static_cast<double>(layout.pipeline), chunks = static_cast<double>(layout.chunks);
  const auto micro_batches = static_cast<double>(layout.micro_batches());
  const double head_products = parts.head_forward + parts.head_backward;
  const auto [layers, has_head] =
      slowest_stage(model, layout, machine, layer.busy() + launches, head_products + parts.head_passes);
  const double head = has_head ? 1 : 0;
  // A message forward and one backward per chunk.
  const double messages = layout.pipeline > 1 ? 2 * chunks * parts.message_bytes / parts.links.stages : 0;

  PlannedTime time;
  time.products = micro_batches * (layers * layer.products + head * head_products);
  time.passes = micro_batches * (layers * layer.passes + head * parts.head_passes);
  time.tensor_sums = micro_batches * (layers * layer.sums + head * parts.sum);
  time.launches = micro_batches * layers * launches;
  time.stage_messages = micro_batches * messages;
  time.bubble = (stages - 1) / chunks * (layers * (layer.busy() + launches) + messages);
  time.exchange = ring(parts.exchange.bytes, layout.data, parts.links.exchange, parts.links.exchange_latency);
  if (machine.exchange_overlaps) {
    const double hidden = parts.exchange.times * layers * (parts.backward.busy() + parts.again.busy());
    time.exchange = std::max(time.exchange - hidden, time.exchange / std::max(1.0, layers + 1));
  }
  time.update = parts.update;
  return time;
}

StageTimes stage_times(const ModelSize& model, const StepLayout& layout, const MachineRates& machine) {
  require_rates(machine, layout);
  const Parts parts(model, layout, machine);
  const auto data = static_cast<double>(layout.data);
  const auto here = static_cast<double>(std::max<int64_t>(1, machine.node_ranks / layout.tensor));
  StageTimes times;
  times.layer_forward = parts.forward.busy() + parts.forward_launches;
  times.layer_backward = parts.backward.busy() + parts.again.busy() + parts.backward_launches;
  constexpr double kForward = 1.0 / 3;  // of the passes over the logits
  times.head_forward = parts.head_forward + kForward * parts.head_passes + parts.sum;
  times.head_backward = parts.head_backward + (1 - kForward) * parts.head_passes;
  times.message_bytes = parts.message_bytes;
  times.exchange_bytes = 2 * (data - 1) / data * parts.exchange.bytes;
  times.exchange_inside = data <= here;
  if (!times.exchange_inside)
    times.exchange_crossing = machine.every_rank_sends ? (data - here) / (data - 1) : 1 / here;
  times.exchange_latency = 2 * (data - 1) * parts.links.exchange_latency;
  times.last_bucket = 1 / (largest_stage(model, layout) + 1);
  times.update = parts.update;
  return times;
}

LinkBytes link_bytes(const ModelSize& model, const StepLayout& layout, const MachineRates& machine) {
  const auto tensor = static_cast<double>(layout.tensor), data = static_cast<double>(layout.data);
  const auto micro_batches = static_cast<double>(layout.micro_batches());
  const double x_bytes = machine.element_bytes * static_cast<double>(layout.micro_batch * model.sequence * model.width);
  const double layers = largest_stage(model, layout);
  const double sums = layout.recomputed == Recomputed::layers ? 6 : 4;
  LinkBytes bytes;
  bytes.tensor = 2 * (tensor - 1) / tensor * x_bytes * sums * layers * micro_batches;
  if (layout.pipeline > 1) bytes.stages = 2 * x_bytes * micro_batches * static_cast<double>(layout.chunks);
  bytes.exchange = 2 * (data - 1) / data * exchange_of(layout, machine, held_parameters(model, layout)).bytes;
  return bytes;
}

double model_flops(const ModelSize& model, int64_t sequences) {
  const double tokens = static_cast<double>(sequences * model.sequence);
  const double attention = 12.0 * static_cast<double>(model.layers * model.width) * static_cast<double>(model.sequence);
  return tokens * (6 * model.parameters() + attention);
}

MegatronMemory megatron_memory(const ModelSize& model, const StepLayout& layout, bool token_matrix) {
  const auto tensor = static_cast<double>(layout.tensor), stages = static_cast<double>(layout.pipeline);
  const auto chunks = static_cast<double>(layout.chunks);
  const double rows = static_cast<double>(layout.micro_batch * model.sequence),
               width = static_cast<double>(model.width);
  const double scores = 5.0 * static_cast<double>(model.heads * model.sequence) / width / tensor;
  constexpr double kStateBytes = 18;  // weight and gradient in 16 bits and f32, f32 master weight, two moments
  MegatronMemory memory;
  memory.state = kStateBytes * model.layer_parameters() * static_cast<double>(model.layers) / (stages * tensor);
  if (token_matrix) memory.state += kStateBytes * static_cast<double>(model.vocabulary) * width / tensor;
  const double linear = layout.sequence_parallel ? 34 / tensor : 10 + 24 / tensor;
  const double whole = linear + (layout.recomputed == Recomputed::nothing ? scores : 0);
  const double kept = layout.recomputed == Recomputed::layers ? (layout.sequence_parallel ? 2 / tensor : 2) : whole;
  // The first stage keeps `stages` micro-batches of its layers, more where they are interleaved.
  const double in_flight = std::min(static_cast<double>(layout.micro_batches()),
                                    layout.chunks > 1 ? stages * (1 + (stages - 1) / (stages * chunks)) : stages);
  const double layers = static_cast<double>(model.layers) / stages;
  memory.activations = rows * width * kept * layers * in_flight;
  if (layout.recomputed == Recomputed::layers) memory.activations += rows * width * whole;  // one layer at a time
  return memory;
}

}  // namespace trireme
