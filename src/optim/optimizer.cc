#include "optim/optimizer.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/error.h"
#include "optim/gradient_norm.h"

namespace trireme {
namespace {

/// The embedding's gradient comes last, and few of its rows are touched.
SparseRows embedding_rows(const ParameterTable& table) {
  const Parameter& matrix = table.find("embedding.token.weight");
  return {table.tied() ? table.flat_count() : matrix.offset, matrix.shape[0], matrix.shape[1], matrix.offset};
}

ReducerOptions reducer_options(const ParameterTable& table, const OptimizerOptions& options) {
  return {.wire = options.wire,
          .sums = SumsAt::everyone,
          .cpus = options.progress_cpus,
          .rows = embedding_rows(table),
          .chunk_bytes = options.one_host ? kHostChunkBytes : kNetworkChunkBytes};
}

/// Pieces of about one chunk; whole values of the norm.
Ownership ownership_of(const ParameterTable& table, const OptimizerOptions& options, int ranks) {
  const auto elements = [&](size_t bytes) { return static_cast<int64_t>(bytes / size_of(options.wire)); };
  return {norm_borders(table), ranks, elements(options.bucket_bytes),
          elements(options.one_host ? kHostChunkBytes : kNetworkChunkBytes)};
}

std::span<float> f32_gradients(const TrainingState& state, const Communicator& group) {
  require(!state.gradients().empty(), ErrorKind::shape,
          "an optimizer needs a training state with gradients and moments");
  if (state.gradients().dtype() == DType::f32) return state.gradients().values<float>();
  require(group.size() == 1, ErrorKind::config,
          "gradients of {} cannot be exchanged between {} ranks; the reference operators train on one rank",
          name_of(state.gradients().dtype()), group.size());
  return {};
}

View slice(View flat, int64_t begin, int64_t count) { return flat.rows_slice(begin, count); }

/// 1 - beta^t without losing digits while beta^t is near 1.
float correction(float beta, int64_t t) {
  return static_cast<float>(-std::expm1(static_cast<double>(t) * std::log(static_cast<double>(beta))));
}

}  // namespace

struct Optimizer::Implementation {
  Implementation(const ParameterTable& t, TrainingState& s, Ops& o, Communicator& group, const OptimizerOptions& given)
      : table(t),
        state(s),
        ops(o),
        options(given),
        rank(group.rank()),
        ownership(ownership_of(t, given, group.size())),
        norm(t, ownership),
        reducer(f32_gradients(s, group), group, ownership, reducer_options(t, given)) {}

  const ParameterTable& table;
  TrainingState& state;
  Ops& ops;
  OptimizerOptions options;
  int rank;
  Ownership ownership;
  GradientNorm norm;
  Reducer reducer;

  /// The tied matrix has one gradient from the head, at its own offset, and one from the embedding, behind all others.
  void add_tied_sum(Context& context) {
    if (!table.tied()) return;
    const Parameter& matrix = table.find("embedding.token.weight");
    ops.add(context, slice(state.gradients(), table.flat_count(), matrix.count()),
            slice(state.gradients(), matrix.offset, matrix.count()));
  }
};

size_t exchange_bytes(const ParameterTable& table, const OptimizerOptions& options, int ranks) {
  return Reducer::buffer_bytes(ownership_of(table, options, ranks), reducer_options(table, options));
}

Optimizer::Optimizer(const ParameterTable& table, TrainingState& state, Ops& ops, Communicator& data_group,
                     const OptimizerOptions& options)
    : implementation_(std::make_unique<Implementation>(table, state, ops, data_group, options)) {}

Optimizer::~Optimizer() = default;

void Optimizer::begin_exchange() { implementation_->reducer.begin(); }

void Optimizer::ready(ParameterRange range) { implementation_->reducer.ready(range.end); }

std::span<const double> Optimizer::finish_exchange(Context& context) {
  Implementation& own = *implementation_;
  own.reducer.finish();
  own.add_tied_sum(context);
  return own.norm.values_of(own.rank, own.state.gradients(), own.ops, context);
}

double Optimizer::squared_norm(std::span<const double> values) const { return implementation_->norm.squared(values); }

void Optimizer::update(Context& context, double learning_rate, int64_t t, double norm) {
  assert(t >= 1);
  const Implementation& own = *implementation_;
  AdamW adamw = own.options.adamw;
  adamw.learning_rate = static_cast<float>(learning_rate);
  adamw.correction1 = correction(adamw.beta1, t);
  adamw.correction2 = correction(adamw.beta2, t);
  // The rule of torch.nn.utils.clip_grad_norm_, its 1e-6 included.
  const double factor = own.options.clip > 0 ? std::min(1.0, own.options.clip / (norm + 1e-6)) : 1.0;
  adamw.gradient_scale = static_cast<float>(factor);
  for (const Parameter& parameter : own.table.all()) {
    AdamW of_parameter = adamw;
    if (!parameter.decays && !own.options.decay_all) of_parameter.weight_decay = 0;
    const auto flat = [&](View array) {
      return array.empty() ? View() : slice(array, parameter.offset, parameter.count());
    };
    own.ops.adamw(context, of_parameter, flat(own.state.gradients()), flat(own.state.moment1()),
                  flat(own.state.moment2()), flat(own.state.weights()), flat(own.state.remainder()));
  }
}

const ExchangeTimes& Optimizer::last_exchange() const { return implementation_->reducer.times(); }

}  // namespace trireme
