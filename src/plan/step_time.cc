#include "plan/step_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
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

  /// The gradients of the input and of a share of the matrix.
  double linear_backward(double rows, double in, double out, double share) const {
    return linear(GemmKind::input, rows, in, out) + share * linear(GemmKind::weight, rows, in, out);
  }

  /// Products of `count` heads' scores and values, half of each kind. pairs: of a row and one that it sees, twice.
  double attention(double length, double pairs, double head_size, double count, double products) const {
    if (!machine_.fused_attention) {
      const double scores = product(length, length, head_size, count),
                   values = product(length, head_size, length, count);
      return products / 2 * (scores + values);
    }
    return products * pairs * head_size * count /
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
        scores(heads * sequence * sequence),
        pairs(sequence * (model.attended > 0 ? model.attended : sequence) * (model.full_mask ? 2 : 1)),
        trained(model.trained),
        head_rows(rows * model.head_rows) {}
  double rows, width, sequence, tensor, head_size;
  double heads;                     ///< that a rank computes for all sequences of its micro-batch
  double qkv, mixed, inner, first;  ///< columns of the rank's matrices
  double vocabulary, own_rows, scores, pairs, trained, head_rows;
};

constexpr double kForwardKernels = 25, kBackwardKernels = 40;  ///< of a layer without fused attention

LayerTime attention_forward(const Sizes& s, const Kernels& k) {
  return {.products = k.attention(s.sequence, s.pairs, s.head_size, s.heads, 2),
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
  for (const auto& [out, in] : matrices_of(s)) time.products += k.linear_backward(s.rows, in, out, s.trained);
  time.products += k.attention(s.sequence, s.pairs, s.head_size, s.heads, k.fused() ? 5 : 4);
  const double x = s.own_rows * s.width, attention = s.rows * s.mixed;
  time.passes = 2 * k.elements(3 * x) + 2 * k.elements(2.5 * x) + k.elements(s.rows * (2 * s.first + s.inner)) +
                2 * k.elements(3 * attention) + (k.fused() ? 0 : k.elements(3 * s.scores) + k.elements(2.5 * s.scores));
  time.sums = 2 * sum;
  time.kernels = kBackwardKernels;
  return time;
}

/// Rates and latencies of the links that a layout uses.
struct Links {
  double tied = 0;      ///< between the first and the last stage
  bool across = false;  ///< stages are on several nodes
  bool near = false;    ///< data ranks are on one node
  double exchange = 0, exchange_latency = 0;
};

GroupTraffic of_sums(const MachineRates& machine) {
  return machine.direct_sums ? GroupTraffic::direct : GroupTraffic::ring;
}
double inside(const MachineRates& machine) { return machine.inner_bytes * machine.inner_share; }
double between(const MachineRates& machine) { return machine.node_bytes * machine.node_share; }

/// data_share: MeshPlacement::data_share() of the stages that count.
Links links_of(const StepLayout& layout, const MachineRates& machine, double data_share) {
  const auto node_ranks = static_cast<double>(machine.node_ranks);
  Links links;
  links.near = data_share == 0 || keeps_data_on_a_node(layout, machine);
  links.across = layout.ranks() > machine.node_ranks;
  // The other stages' ranks of a node send nothing then.
  links.tied = links.across ? between(machine) / std::min(node_ranks, static_cast<double>(layout.data * layout.tensor))
                            : inside(machine);
  const auto data = static_cast<double>(layout.data);
  const double shared = links.near ? 0 : 2 * (data - 1) / data / data_share * between(machine);  // as a ring's rate
  links.exchange = links.near ? inside(machine) : machine.node_ranks > 1 ? std::min(inside(machine), shared) : shared;
  links.exchange_latency = links.near ? machine.inner_latency : machine.node_latency;
  return links;
}

/// A sum of so many bytes over a tensor group. share: MeshPlacement::tensor_share().
double tensor_sum(double bytes, int64_t members, double share, const MachineRates& machine) {
  if (members == 1) return 0;
  const auto n = static_cast<double>(members);
  const double here = machine.node_ranks > 1 ? 2 * (n - 1) / n * bytes / inside(machine) : 0;
  const double network = share > 0 ? share * bytes / between(machine) : 0;
  return std::max(here, network) + 2 * (n - 1) * (share > 0 ? machine.node_latency : machine.inner_latency);
}

/// Messages between stages, in seconds.
struct StageMessages {
  double mean = 0;    ///< of one, from one stage to the next one or back
  double pair = 0;    ///< a stage's messages of a micro-batch from both neighbours
  double node = 0;    ///< all messages of a micro-batch of the node that sends most
  double shared = 0;  ///< as mean, if they all leave the nodes at the same time
};

/// bytes: of a rank.
StageMessages messages_of(const StepLayout& layout, const MachineRates& machine, double bytes) {
  StageMessages messages;
  if (layout.pipeline == 1) return messages;
  const MeshPlacement placement = layout.on(machine.node_ranks);
  const auto seconds = [&](int64_t leaving) {
    const double here = machine.node_ranks > 1 ? bytes / inside(machine) : 0;
    return leaving == 0 ? here : std::max(here, static_cast<double>(leaving) * bytes / between(machine));
  };
  const int64_t borders =
      layout.pipeline - (layout.chunks > 1 ? 0 : 1);  // with chunks from the last stage to the first
  double before = seconds(placement.leaving(borders - 1));
  for (int64_t border = 0; border < borders; ++border) {
    const double one = seconds(placement.leaving(border));
    messages.mean += one / static_cast<double>(borders);
    messages.pair = std::max(messages.pair, border > 0 || borders == 1 || layout.chunks > 1 ? before + one : 0);
    before = one;
  }
  messages.node = seconds(placement.leaving_both_ways());
  for (int64_t border = 0; border < borders; ++border) {
    const bool leaves = placement.leaving(border) > 0;
    messages.shared += (leaves ? messages.node : seconds(0)) / static_cast<double>(borders);
  }
  return messages;
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
  double after = 0;  ///< of these bytes: weights that travel after the update
};

Exchange exchange_of(const StepLayout& layout, const MachineRates& machine, double held) {
  const double gradients = machine.gradient_bytes * held, weights = machine.element_bytes * held;
  const auto steps = static_cast<double>(layout.micro_batches());
  switch (layout.shard) {
    case ShardChoice::none:
      return {gradients, 1};
    case ShardChoice::optimizer:  // sums to their owners, weights from them
      return {(gradients + weights) / 2, 1, weights / 2};
    case ShardChoice::gradients:
      return {(gradients * steps + weights) / 2, steps, weights / 2};
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

/// The stage that takes longest for a micro-batch, and the others.
struct SlowestStage {
  double layers = 0;
  bool head = true;
  double others = 0;         ///< layers of all other stages together
  bool others_head = false;  ///< one of them has the head
};

/// layer, head: their seconds.
SlowestStage slowest_stage(const ModelSize& model, const StepLayout& layout, const MachineRates& machine, double layer,
                           double head) {
  const auto stages = static_cast<double>(layout.pipeline), chunks = static_cast<double>(layout.chunks);
  SlowestStage slowest{largest_stage(model, layout), true, (stages - 1) * largest_stage(model, layout)};
  const int64_t others = layout.pipeline * layout.chunks - 1;
  if (!machine.balanced_stages || layout.pipeline == 1 || others < 1) return slowest;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t last = 1; last <= model.layers - others; ++last) {  // layers of the part with the head
    const int64_t each = (model.layers - last + others - 1) / others;
    const auto other = static_cast<double>(each);
    const double first_stage = other * chunks, last_stage = other * (chunks - 1) + static_cast<double>(last);
    const bool at_end = last_stage * layer + head > first_stage * layer;
    const double seconds = at_end ? last_stage * layer + head : first_stage * layer;
    if (seconds >= least) continue;
    least = seconds;
    slowest = at_end ? SlowestStage{last_stage, true, (stages - 1) * first_stage, false}
                     : SlowestStage{first_stage, false, (stages - 2) * first_stage + last_stage, true};
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
  /// sum_share: of the tensor groups, MeshPlacement::tensor_share().
  Parts(const ModelSize& model, const StepLayout& layout, const MachineRates& machine, double sum_share)
      : kernels(machine),
        links(links_of(layout, machine, layout.on(machine.node_ranks).data_share(gradient_traffic(layout, machine)))),
        held(held_parameters(model, layout)),
        matrix(static_cast<double>(model.vocabulary * model.width) / static_cast<double>(layout.tensor)),
        exchange(exchange_of(layout, machine, model.trained * held)) {
    const Sizes sizes(model, layout);
    const double x_bytes = machine.element_bytes * sizes.rows * sizes.width;
    across_sums = sum_share > 0;
    sum_with = [=, &machine, members = layout.tensor](double share) {
      return tensor_sum(x_bytes, members, share, machine);
    };
    sum = sum_with(sum_share);
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
    if (sizes.head_rows > 0) {
      head_forward = kernels.linear(GemmKind::forward, sizes.head_rows, sizes.width, sizes.vocabulary);
      head_backward = kernels.linear_backward(sizes.head_rows, sizes.width, sizes.vocabulary, sizes.trained);
      head_passes = kernels.pass(machine.logit_bytes * sizes.head_rows * sizes.vocabulary);
    }
    const bool split = layout.sequence_parallel || links.across;  // parts of a message that leaves the node
    message_bytes = split ? x_bytes / sizes.tensor : x_bytes;
    const double all = layout.pipeline == 1 && !model.tied ? held + matrix : held;
    const double updated =
        model.trained * (layout.shard == ShardChoice::none ? all : all / static_cast<double>(layout.data));
    update = kernels.pass(machine.update_bytes * updated);
    if (layout.pipeline > 1 && model.tied) tied = machine.tied_bytes * model.trained * matrix / links.tied;
  }
  double launches() const { return forward_launches + backward_launches; }

  Kernels kernels;
  Links links;
  double held, matrix;  ///< weights; of the token matrix
  Exchange exchange;
  double sum = 0;  ///< of tensor ranks
  bool across_sums = false;
  std::function<double(double share)> sum_with;
  LayerTime forward, backward, again;
  double forward_launches = 0, backward_launches = 0, head_forward = 0, head_backward = 0, head_passes = 0;
  double message_bytes = 0, update = 0;
  double tied = 0;  ///< of the sum of a tied matrix between two stages
};

/// How data ranks' exchange and a step's backward share time.
struct ExchangeTime {
  double exposed = 0;                                             ///< of the step, what computing loses included
  double first_bucket = 0, last_bucket = 1, lost = 0, after = 0;  ///< as in StageTimes
};

/// layers: of the stage. head: it has the head, whose gradients are ready first.
ExchangeTime exchange_time(const ModelSize& model, const StepLayout& layout, const MachineRates& machine,
                           const Parts& parts, const Links& links, double layers, bool head) {
  const double whole = ring(parts.exchange.bytes, layout.data, links.exchange, links.exchange_latency);
  if (layout.data == 1 || !machine.exchange_overlaps) return {.exposed = whole};
  ExchangeTime time;
  time.after = whole * parts.exchange.after / parts.exchange.bytes;
  const bool holds_embedding = layout.pipeline == 1, sums_stay = layout.shard >= ShardChoice::gradients;
  if (machine.embedding_apart && holds_embedding && !sums_stay) {
    const auto tokens = static_cast<double>(layout.global_batch * model.sequence);
    const double share = machine.all_rows ? 1 : touched_share(tokens, model.vocabulary);
    const double bytes =
        share * machine.gradient_bytes * model.trained * parts.matrix * (layout.shard == ShardChoice::none ? 1 : 0.5);
    time.after += ring(bytes, layout.data, links.exchange, links.exchange_latency);
  }
  // One exchange: what travels beside backward, in buckets that start when they are complete.
  const double times = parts.exchange.times,
               travels = (whole - whole * parts.exchange.after / parts.exchange.bytes) / times;
  double beside = layers * (parts.backward.busy() + parts.again.busy());
  if (layout.shard == ShardChoice::parameters) beside += layers * parts.forward.busy();
  const double first = head ? parts.matrix / parts.held : 0;  // share that is ready when the layers' backward begins
  const double of_layers = layers > 0 ? (1 - first) / layers : 1;
  const double bucket = machine.bucket_bytes > 0
                            ? std::min(1.0, machine.bucket_bytes / (machine.gradient_bytes * parts.held))
                            : std::min(1.0, of_layers);
  const double buckets = std::ceil(1 / bucket - 1e-9);
  const auto ready = [&](double share) { return beside * std::clamp((share - first) / (1 - first + 1e-12), 0.0, 1.0); };
  time.first_bucket = ready(bucket);
  time.last_bucket = 1 - (buckets - 1) * bucket;
  const double sent =
      2 * static_cast<double>(layout.data - 1) / static_cast<double>(layout.data) * parts.exchange.bytes / times;
  const double work = sent * (links.near ? machine.inner_work : machine.node_work);
  constexpr double kMostOfCore = 0.5;  // two threads share a core evenly
  const double taken = travels > 0 ? std::min(kMostOfCore, work / travels) : 0;
  time.lost = std::min(work, (beside - time.first_bucket) * taken / (1 - taken));
  const double end =
      std::max({time.first_bucket + travels, beside + time.lost + time.last_bucket * travels,
                ready((buckets - 1) * bucket) + time.lost + std::min(1.0, time.last_bucket + bucket) * travels});
  time.exposed = times * (end - beside) + time.after;
  time.lost *= times;
  return time;
}

}  // namespace

bool keeps_data_on_a_node(const StepLayout& layout, const MachineRates& machine) {
  return !machine.by_rank && layout.data <= std::max<int64_t>(1, machine.node_ranks / layout.tensor);
}

GroupTraffic gradient_traffic(const StepLayout& layout, const MachineRates& machine) {
  const bool flat = machine.sends_if_uneven && !layout.on(machine.node_ranks).is_even();
  return machine.every_rank_sends || flat ? GroupTraffic::direct : GroupTraffic::ring;
}

double touched_share(double tokens, int64_t vocabulary) {
  const auto rows = static_cast<double>(vocabulary);
  constexpr double kEuler = 0.5772;
  const double expected = tokens / (std::log(rows) + kEuler);  // times the most frequent one occurs
  double touched = 0;
  for (double rank = 1; rank <= rows;) {
    const double width = std::min(std::max(1.0, std::floor(rank / 16)), rows - rank + 1);
    touched += width * -std::expm1(-expected / (rank + (width - 1) / 2));
    rank += width;
  }
  return touched / rows;
}

namespace {

/// Seconds in which stages wait for messages that travel beside computing. The q-th stage from the end has at most q
/// micro-batches under way, so that the last stage begins one no earlier than the q-th before it has gone back through
/// these stages and made room for another: q - 1 messages each way, less what the slowest stage computes longer than
/// the others. others, own: of a micro-batch, all other stages' seconds and the slowest one's.
double waits_for_messages(const StepLayout& layout, const StageMessages& messages, double others, double own) {
  const double message = messages.mean;
  const auto stages = static_cast<double>(layout.pipeline), chunks = static_cast<double>(layout.chunks);
  const double filling = 2 * (stages - 1) * message;
  if (layout.chunks > 1) {  // each chunk of a round waits for the chunk before on the last stage
    const double rounds = std::ceil(static_cast<double>(layout.micro_batches()) / stages);
    return filling + (rounds * chunks - 1) * std::max(0.0, 2 * stages * message - own / chunks);
  }
  const int64_t before = layout.micro_batches() - 1;  // the last one
  const int64_t whole = before / layout.pipeline, left = before % layout.pipeline;
  const auto rounds = static_cast<double>(whole), rest = static_cast<double>(left);
  // Where messages fill more than half of the time, those of a node share its network part of it: as much as brings
  // plans nearest to simulations.
  constexpr double kIdle = 0.5, kTogether = 0.4;
  const double use = kTogether * std::clamp(messages.node / own - kIdle, 0.0, 1.0);
  const double steady = message + use * (messages.shared - message);
  const double way = std::max(0.0, 2 * steady + others / std::max(1.0, stages - 1) - own);
  const double links = stages * (messages.node - own);
  return filling + rounds * std::max((stages - 1) * way, links) + std::max(0.0, rest - 1) * way;
}

}  // namespace

PlannedTime step_time(const ModelSize& model, const StepLayout& layout, const MachineRates& machine) {
  require_rates(machine, layout);
  const MeshPlacement placement = layout.on(machine.node_ranks);
  const Parts parts(model, layout, machine, placement.tensor_share(of_sums(machine)));
  const LayerTime layer = parts.forward + parts.backward + parts.again;
  const double launches = parts.launches();
  const auto stages = static_cast<double>(layout.pipeline), chunks = static_cast<double>(layout.chunks);
  const auto micro_batches = static_cast<double>(layout.micro_batches());
  const double head_products = parts.head_forward + parts.head_backward;
  const double layer_seconds = layer.busy() + launches, head_seconds = head_products + parts.head_passes;
  const auto [layers, has_head, others, others_head] =
      slowest_stage(model, layout, machine, layer_seconds, head_seconds);
  const double head = has_head ? 1 : 0;
  const StageMessages messages = messages_of(layout, machine, parts.message_bytes);

  PlannedTime time;
  time.products = micro_batches * (layers * layer.products + head * head_products);
  time.passes = micro_batches * (layers * layer.passes + head * parts.head_passes);
  // The embedding's outputs and the gradient of the head's input are sums, too.
  const double ends = layout.pipeline == 1 ? 2 : head;
  time.tensor_sums = micro_batches * (layers * layer.sums + ends * parts.sum);
  time.launches = micro_batches * layers * launches;
  time.bubble = (others * layer_seconds + (others_head ? head_seconds : 0)) / chunks;
  if (const double sums = layer.sums / std::max(parts.sum, 1e-300); parts.across_sums) {  // not all stages' are so slow
    double less = 0;
    for (int64_t stage = 0; stage < layout.pipeline; ++stage)
      less += parts.sum - parts.sum_with(placement.tensor_share_of_stage(of_sums(machine), stage));
    time.bubble -= sums * layers * less / chunks;
  }
  if (machine.messages_overlap && layout.pipeline > 1) {
    const double own = layers * layer_seconds + head * head_seconds;
    time.stage_messages = waits_for_messages(layout, messages, time.bubble * chunks, own);
  } else {
    // A message forward and one backward per chunk.
    time.stage_messages = micro_batches * chunks * messages.pair;
    time.bubble += (stages - 1) * 2 * messages.mean;
  }
  // The first stage and the last one add a tied matrix after their exchange, whatever the others still do.
  const GroupTraffic traffic = gradient_traffic(layout, machine);
  const double of_ends =
      std::max(placement.data_share_of_stage(traffic, 0), placement.data_share_of_stage(traffic, layout.pipeline - 1));
  const auto exchange = [&, layers = layers, has_head = has_head](const Links& links) {
    return exchange_time(model, layout, machine, parts, links, layers, has_head).exposed;
  };
  time.exchange = std::max(exchange(parts.links), exchange(links_of(layout, machine, of_ends)) + parts.tied);
  time.update = parts.update;
  return time;
}

StageTimes stage_times(const ModelSize& model, const StepLayout& layout, const MachineRates& machine, int64_t first) {
  require_rates(machine, layout);
  const Parts parts(model, layout, machine, layout.on(machine.node_ranks).tensor_share(of_sums(machine), first));
  const auto data = static_cast<double>(layout.data);
  StageTimes times;
  times.layer_forward = parts.forward.busy() + parts.forward_launches;
  times.layer_backward = parts.backward.busy() + parts.again.busy() + parts.backward_launches;
  constexpr double kForward = 1.0 / 3;  // of the passes over the logits
  const double sums =
      layout.pipeline == 1 ? 2 : 1;  // of the embedding's outputs and of the gradient of the head's input
  times.head_forward = parts.head_forward + kForward * parts.head_passes + sums * parts.sum;
  times.head_backward = parts.head_backward + (1 - kForward) * parts.head_passes;
  times.message_bytes = parts.message_bytes;
  times.exchange_bytes = 2 * (data - 1) / data * parts.exchange.bytes;
  times.exchange_latency = 2 * (data - 1) * parts.links.exchange_latency;
  const ExchangeTime exchange =
      exchange_time(model, layout, machine, parts, parts.links, largest_stage(model, layout), layout.pipeline == 1);
  times.first_bucket = exchange.first_bucket;
  times.last_bucket = exchange.last_bucket;
  times.exchange_lost = exchange.lost;
  times.exchange_after = exchange.after;
  times.exchange_bytes *= 1 - parts.exchange.after / parts.exchange.bytes;
  times.tied = parts.tied;
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

}  // namespace trireme
