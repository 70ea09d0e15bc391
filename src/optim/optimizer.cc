#include "optim/optimizer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "exchange/device_group.h"
#include "exchange/message_group.h"

namespace trireme {
namespace {

bool counts_elsewhere(const ParameterTable& table, const Parameter& parameter) {
  const Layout& layout = table.layout();
  return (layout.tensor_rank > 0 && parameter.is_whole()) ||
         (!layout.part.embedding && parameter.name == "embedding.token.weight");
}

int64_t chunks(const ParameterRange& part) { return (part.end - part.begin + kNormChunk - 1) / kNormChunk; }

}  // namespace

GradientNorm::GradientNorm(const ParameterTable& table, const Ownership& ownership, int rank) {
  const std::vector<ParameterRange> owned = ownership.owned_by(rank);
  for (const Parameter& parameter : table.all()) {
    if (!parameter.trained() || counts_elsewhere(table, parameter)) continue;
    const int64_t end = parameter.offset + parameter.count();
    auto own = std::ranges::upper_bound(owned, parameter.offset, {}, &ParameterRange::end);
    for (bool first = true; own != owned.end() && own->begin < end; ++own, first = false) {
      const ParameterRange part{std::max(own->begin, parameter.offset), std::min(own->end, end)};
      if (!first && parts_.back().end == part.begin) {
        parts_.back().end = part.end;
      } else {
        parts_.push_back(part);
      }
    }
  }
  for (const ParameterRange& part : parts_) count_ += chunks(part);
}

void GradientNorm::write_values(const std::function<View(int64_t, int64_t)>& summed, Ops& ops, Context& context,
                                View values) const {
  int64_t next = 0;
  for (const ParameterRange& part : parts_) {
    ops.squared_norms(context, summed(part.begin, part.end - part.begin), values.rows_slice(next, chunks(part)));
    next += chunks(part);
  }
}

namespace {

/// The embedding's gradient is last, and few of its rows are nonzero.
SparseRows embedding_rows(const ParameterTable& table) {
  if (!table.layout().part.embedding) return {};
  const Parameter& matrix = table.find("embedding.token.weight");
  if (!matrix.trained()) return {};
  return {table.sums_twice() ? table.trained_count() : matrix.offset, matrix.shape[0], matrix.shape[1], matrix.offset};
}

SumsAt sums_of(const ParameterTable& table, const OptimizerOptions& options) {
  // Two stages that hold a tied matrix add each other's sums, and own different elements of it.
  if (options.shard == ShardChoice::none || is_tied_across(table)) return SumsAt::everyone;
  return options.shard_group == ShardGroup::host ? SumsAt::owners_of_hosts : SumsAt::owners;
}

size_t chunk_bytes(const OptimizerOptions& options) {
  return options.devices ? kDeviceChunkBytes : options.one_host ? kHostChunkBytes : kNetworkChunkBytes;
}

ReducerOptions reducer_options(const ParameterTable& table, const OptimizerOptions& options) {
  return {.wire = options.wire,
          .sums = sums_of(table, options),
          .cpus = options.exchange_cores,
          .rows = embedding_rows(table),
          .chunk_bytes = chunk_bytes(options),
          .devices = options.devices,
          .one_host = options.one_host,
          .hosts = options.hosts,
          .by_library = options.by_library};
}

View f32_gradients(const TrainingState& state, const Communicator& group) {
  require(state.trains(), ErrorKind::shape, "an optimizer needs a training state with gradients and moments");
  if (state.gradients().empty()) return {};  // every parameter here is frozen
  if (state.gradients().dtype() == DType::f32) return state.gradients();
  require(group.size() == 1, ErrorKind::config,
          "cannot exchange gradients of type {} between {} ranks; the reference operators train on one rank only",
          name_of(state.gradients().dtype()), group.size());
  return {};
}

View slice(View flat, int64_t begin, int64_t count) { return flat.rows_slice(begin, count); }

/// Pieces of about one chunk; complete values of the norm.
Ownership pieces_between(const std::vector<int64_t>& borders, const OptimizerOptions& options, int ranks) {
  const auto elements = [&](size_t bytes) { return static_cast<int64_t>(bytes / size_of(options.wire)); };
  return {borders, ranks, elements(options.bucket_bytes), elements(chunk_bytes(options))};
}

/// 1 - beta^t without losing digits while beta^t is near 1.
float correction(float beta, int64_t t) {
  return static_cast<float>(-std::expm1(static_cast<double>(t) * std::log(static_cast<double>(beta))));
}

}  // namespace

bool is_tied_across(const ParameterTable& table) {
  const ModelPart& part = table.layout().part;
  return table.spec().tied_head && part.embedding != part.head && table.find("embedding.token.weight").trained();
}

Ownership ownership_of(const ParameterTable& table, const OptimizerOptions& options, int ranks) {
  return pieces_between(norm_borders(table), options, ranks);
}

Ownership state_ownership(const ParameterTable& table, const OptimizerOptions& options, int ranks) {
  const Ownership all = pieces_between(norm_borders(table), options, ranks)
                            .followed_by(pieces_between(frozen_borders(table), options, ranks));
  return options.shard_group == ShardGroup::host ? ownership_in_hosts(all, options.hosts) : all;
}

KeptState kept_states(const ParameterTable& table, const OptimizerOptions& options, int ranks, int rank) {
  if (options.shard == ShardChoice::none || ranks == 1) return {};
  const int member = options.shard_group == ShardGroup::host ? options.hosts.local_rank(rank) : rank;
  return {.owned = state_ownership(table, options, ranks).owned_by(member),
          .gradients = exchanges_every_micro_batch(options.shard, ranks),
          .weights = options.shard == ShardChoice::parameters};
}

size_t exchange_bytes(const ParameterTable& table, const OptimizerOptions& options, int ranks) {
  const size_t tied = is_tied_across(table) ? TiedSum::buffer_bytes() : 0;
  return tied + Reducer::buffer_bytes(ownership_of(table, options, ranks), reducer_options(table, options));
}

int connected_peers(const ParameterTable& table, const OptimizerOptions& options, int ranks, int rank) {
  int peers = Reducer::peers(reducer_options(table, options), ranks, rank);
  if (is_tied_across(table)) peers += 2;  // a connection for each direction
  if (options.shard == ShardChoice::none || ranks == 1) return peers;
  return peers + (options.shard_group == ShardGroup::host ? options.hosts.local_size(rank) : ranks) - 1;
}

Optimizer::Optimizer(const ParameterTable& table, TrainingState& state, Ops& ops, Communicator& data_group,
                     const OptimizerOptions& options, Communicator* tied_pair, Communicator* weights_group)
    : table_(table),
      state_(state),
      ops_(ops),
      options_(options),
      ownership_(ownership_of(table, options, data_group.size())),
      norm_(table, ownership_, data_group.rank()),
      reducer_(f32_gradients(state, data_group), data_group, ops, ownership_, [&] {
        ReducerOptions reduction = reducer_options(table, options);
        if (state.shards_gradients())
          reduction.summed = [this](Context& context, ParameterRange range) { add_to_sums(context, range); };
        return reduction;
      }()) {
  assert((tied_pair != nullptr) == is_tied_across(table));
  if (tied_pair) other_stage_.emplace(*tied_pair, ops);
  assert(state.is_sharded() == !kept_states(table, options, data_group.size(), data_group.rank()).owned.empty());
  assert(!(tied_pair && state.shards_gradients()));
  assert((weights_group != nullptr) == (state.is_sharded() && !state.shards_weights()));
  if (!weights_group) return;
  weights_group_ = make_stream_group(*weights_group, ops, {.thread = reducer_.thread()});
  gatherer_.emplace(*weights_group_, state_ownership_ = state_ownership(table, options, data_group.size()));
}

void Optimizer::begin_exchange(Write write) {
  finish_reduction();
  if (write == Write::overwrite) times_ = {};
  write_ = write;
  last_ready_ = {};
  exchanging_ = true;
  reducer_.begin();
}

void Optimizer::begin(ParameterRange) {
  if (state_.shards_gradients()) reducer_.wait_until_summed(last_ready_.begin);
}

void Optimizer::ready(ParameterRange range) {
  last_ready_ = range;
  reducer_.ready(range.end);
}

void Optimizer::finish_reduction() {
  reducer_.finish();
  if (!std::exchange(exchanging_, false)) return;
  const ExchangeTimes& last = reducer_.times();
  times_.exposed_seconds += last.exposed_seconds;
  times_.total_seconds += last.total_seconds;
  times_.wire_bytes += last.wire_bytes;
}

/// Beside compute: moves owned elements of a range of the flat array to their sums. Adds the embedding's
/// gradient of a tied matrix, which is last in the array, to the head's.
void Optimizer::add_to_sums(Context& context, ParameterRange range) {
  const bool second = range.begin >= table_.trained_count();
  const int64_t offset = second ? table_.trained_count() - table_.find("embedding.token.weight").offset : 0;
  state_.for_owned(range.begin - offset, range.end - offset, [&](int64_t first, int64_t count, int64_t) {
    const View from = slice(state_.gradients(), first + offset, count), to = state_.summed_gradient(first, count);
    if (second || write_ == Write::add) return ops_.add(context, from, to);
    context.stream->copy(from, to);
  });
  context.stream->finish();
  release(slice(state_.gradients(), range.begin, range.end - range.begin));
}

/// The tied matrix has one gradient from the head, at its own offset, and one from the embedding, after all others. If
/// two stages hold the matrix, each sends its sum to the other.
void Optimizer::add_tied_sum(Context& context) {
  if ((!table_.sums_twice() && !other_stage_) || state_.shards_gradients()) return;
  const Parameter& matrix = table_.find("embedding.token.weight");
  if (other_stage_) return other_stage_->add_other(context, slice(state_.gradients(), matrix.offset, matrix.count()));
  ops_.add(context, slice(state_.gradients(), table_.trained_count(), matrix.count()),
           slice(state_.gradients(), matrix.offset, matrix.count()));
}

void Optimizer::finish_exchange(Context& context, View norms) {
  finish_reduction();
  add_tied_sum(context);
  const auto summed = [&](int64_t first, int64_t count) { return state_.summed_gradient(first, count); };
  norm_.write_values(summed, ops_, context, norms);
}

void Optimizer::update(Context& context, double learning_rate, int64_t t, double norm, double loss_scale) {
  assert(t >= 1);
  AdamW adamw = options_.adamw;
  adamw.learning_rate = static_cast<float>(learning_rate);
  adamw.correction1 = correction(adamw.beta1, t);
  adamw.correction2 = correction(adamw.beta2, t);
  // The rule of torch.nn.utils.clip_grad_norm_, its 1e-6 included.
  const double factor = options_.clip > 0 ? std::min(1.0, options_.clip / (norm + 1e-6)) : 1.0;
  adamw.gradient_scale = static_cast<float>(factor / loss_scale);
  for (const Parameter& parameter : table_.all()) {
    if (!parameter.trained()) continue;
    AdamW own = adamw;
    if (parameter.rule == UpdateRule::adamw_no_decay && !options_.decay_all) own.weight_decay = 0;
    const auto update_run = [&](int64_t first, int64_t count, int64_t place) {
      const auto state = [&](std::string_view name) {
        return state_.state(name, parameter, first - parameter.offset, count);
      };
      ops_.adamw(context, own, state_.summed_gradient(first, count), state(kAdamM), state(kAdamV),
                 slice(state_.weights(), first, count), state_.owned_remainder(count, place));
    };
    state_.for_owned(parameter.offset, parameter.offset + parameter.count(), update_run);
  }
  if (!gatherer_) return;
  const Event everywhere = gatherer_->gather(state_.weights(), {0, table_.trained_count()}, context.stream->record());
  weights_group_->wait(everywhere, "the weights of their owners", state_.weights().bytes());
}

}  // namespace trireme
