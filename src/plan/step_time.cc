#include "plan/step_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace trireme {
namespace {

constexpr double kElement = 2;  ///< bytes of a 16-bit activation or weight

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
    const double flops = 2 * rows * columns * inner * count;
    const double bytes = kElement * (rows * inner + inner * columns + rows * columns) * count;
    const double rate = machine_.peak_flops * machine_.product_share * filled(rows, columns, count);
    const double fill = machine_.units > 0 ? 1 + static_cast<double>(machine_.tile_fill) / inner : 1;
    return std::max(flops / rate * fill, pass(bytes));
  }

  /// Products of `count` heads' scores and values, half of each kind.
  double attention(double length, double head_size, double count, double products) const {
    if (!machine_.fused_attention) {
      const double scores = product(length, length, head_size, count),
                   values = product(length, head_size, length, count);
      return products / 2 * (scores + values);
    }
    return products * length * length * head_size * count / (machine_.peak_flops * machine_.product_share);
  }
  bool fused() const { return machine_.fused_attention; }

  double pass(double bytes) const {
    const size_t size = bytes >= 1e8 ? 0 : bytes >= 1e7 ? 1 : bytes >= 1e6 ? 2 : 3;
    return bytes / (machine_.memory_bytes * machine_.pass_shares[size]);
  }

 private:
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
        head_size(width / static_cast<double>(model.heads)),
        heads(static_cast<double>(layout.micro_batch * model.heads) / tensor),
        qkv(static_cast<double>(model.heads + 2 * model.key_heads()) * head_size / tensor),
        inner(static_cast<double>(model.inner_width()) / tensor),
        first(inner * (model.gated ? 2 : 1)),
        vocabulary(static_cast<double>(model.vocabulary) / tensor),
        own_rows(layout.sequence_parallel ? rows / tensor : rows),
        scores(heads * sequence * sequence) {}
  double rows, width, sequence, tensor, head_size;
  double heads;              ///< that a rank computes for all sequences of its micro-batch
  double qkv, inner, first;  ///< columns of the rank's matrices
  double vocabulary, own_rows, scores;
};

constexpr double kForwardKernels = 25, kBackwardKernels = 40;  ///< of a layer without fused attention

LayerTime attention_forward(const Sizes& s, const Kernels& k) {
  return {.products = k.attention(s.sequence, s.head_size, s.heads, 2),
          .passes = k.fused() ? 0 : k.pass(4 * s.scores) + k.pass(5 * s.scores)};  // softmax; dropout and its mask
}

LayerTime forward_of(const Sizes& s, const Kernels& k, double sum) {
  LayerTime time = attention_forward(s, k);
  time.products += k.product(s.rows, s.qkv, s.width) + k.product(s.rows, s.width, s.width / s.tensor) +
                   k.product(s.rows, s.first, s.width) + k.product(s.rows, s.width, s.inner);
  const double x = s.own_rows * s.width, attention = s.rows * s.width / s.tensor;
  // Two norms, two dropouts with their residuals, the activation, queries and values turned.
  time.passes += 2 * k.pass(4 * x) + 2 * k.pass(7 * x) + k.pass(kElement * s.rows * (s.first + s.inner)) +
                 2 * k.pass(6 * attention);
  time.sums = 2 * sum;
  time.kernels = kForwardKernels;
  return time;
}

LayerTime backward_of(const Sizes& s, const Kernels& k, double sum) {
  LayerTime time;
  const std::array<std::pair<double, double>, 4> matrices{
      {{s.qkv, s.width}, {s.width, s.width / s.tensor}, {s.first, s.width}, {s.width, s.inner}}};
  for (const auto& [out, in] : matrices) time.products += k.product(s.rows, in, out) + k.product(out, in, s.rows);
  time.products += k.attention(s.sequence, s.head_size, s.heads, k.fused() ? 5 : 4);
  const double x = s.own_rows * s.width, attention = s.rows * s.width / s.tensor;
  time.passes = 2 * k.pass(6 * x) + 2 * k.pass(5 * x) + k.pass(kElement * s.rows * (2 * s.first + s.inner)) +
                2 * k.pass(6 * attention) + (k.fused() ? 0 : k.pass(6 * s.scores) + k.pass(5 * s.scores));
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
  const double shared = node / groups;
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
  const double attention = c * c * 2 + 2 * c * c * static_cast<double>(key_heads()) / static_cast<double>(heads);
  return attention + (gated ? 3 : 2) * c * i + 13 * c;
}

double ModelSize::parameters() const {
  return layer_parameters() * static_cast<double>(layers) + static_cast<double>(vocabulary * width);
}

StepTime step_time(const ModelSize& model, const StepLayout& layout, const MachineRates& machine) {
  require_rates(machine, layout);
  const Sizes sizes(model, layout);
  const Kernels kernels(machine);
  const Links links = links_of(layout, machine);
  const double x_bytes = kElement * sizes.rows * sizes.width;
  const double sum = ring(x_bytes, layout.tensor, links.tensor, links.tensor_latency);
  const LayerTime forward = forward_of(sizes, kernels, sum), backward = backward_of(sizes, kernels, sum);
  LayerTime again;
  if (layout.recomputed == Recomputed::layers) again = forward;
  if (layout.recomputed == Recomputed::attention) again = attention_forward(sizes, kernels);
  const double launches = std::max(0.0, forward.kernels * machine.launch_seconds - forward.busy()) +
                          std::max(0.0, backward.kernels * machine.launch_seconds - backward.busy()) +
                          std::max(0.0, again.kernels * machine.launch_seconds - again.busy());
  const LayerTime layer = forward + backward + again;

  const auto stages = static_cast<double>(layout.pipeline), chunks = static_cast<double>(layout.chunks);
  const auto micro_batches = static_cast<double>(layout.micro_batches());
  const double layers = static_cast<double>(model.layers) / stages;
  // Forward, gradient of the input, gradient of the matrix; softmax in f32 and its gradient pass over the logits.
  const double head_products = kernels.product(sizes.rows, sizes.vocabulary, sizes.width) +
                               kernels.product(sizes.rows, sizes.width, sizes.vocabulary) +
                               kernels.product(sizes.vocabulary, sizes.width, sizes.rows);
  const double head_passes = kernels.pass(30 * sizes.rows * sizes.vocabulary);
  // A message forward and one backward per chunk; tensor ranks send a part each where it leaves the node.
  const double message = links.across || layout.sequence_parallel ? x_bytes / sizes.tensor : x_bytes;
  const double messages = layout.pipeline > 1 ? 2 * chunks * message / links.stages : 0;

  StepTime time;
  time.products = micro_batches * (layers * layer.products + head_products);
  time.passes = micro_batches * (layers * layer.passes + head_passes);
  time.tensor_sums = micro_batches * (layers * layer.sums + sum);
  time.launches = micro_batches * layers * launches;
  time.stage_messages = micro_batches * messages;
  time.bubble = (stages - 1) / chunks * (layers * (layer.busy() + launches) + messages);
  const double held = held_parameters(model, layout);
  time.exchange = ring(machine.gradient_bytes * held, layout.data, links.exchange, links.exchange_latency);
  if (machine.exchange_overlaps) {
    const double hidden = layers * (backward.busy() + again.busy());
    time.exchange = std::max(time.exchange - hidden, time.exchange / std::max(1.0, layers + 1));
  }
  time.update = kernels.pass(machine.update_bytes * held);
  return time;
}

LinkBytes link_bytes(const ModelSize& model, const StepLayout& layout, double gradient_bytes) {
  const auto tensor = static_cast<double>(layout.tensor), data = static_cast<double>(layout.data);
  const auto micro_batches = static_cast<double>(layout.micro_batches());
  const double x_bytes = kElement * static_cast<double>(layout.micro_batch * model.sequence * model.width);
  const double layers = static_cast<double>(model.layers) / static_cast<double>(layout.pipeline);
  const double sums = layout.recomputed == Recomputed::layers ? 6 : 4;
  LinkBytes bytes;
  bytes.tensor = 2 * (tensor - 1) / tensor * x_bytes * sums * layers * micro_batches;
  if (layout.pipeline > 1) bytes.stages = 2 * x_bytes * micro_batches * static_cast<double>(layout.chunks);
  bytes.exchange = 2 * (data - 1) / data * gradient_bytes * held_parameters(model, layout);
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
