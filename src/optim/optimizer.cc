#include "optim/optimizer.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/error.h"

namespace trireme {
namespace {

/// The embedding's gradient comes last, and few of its rows are touched.
SparseRows embedding_rows(const ParameterTable& table) {
  const Parameter& matrix = table.find("embedding.token.weight");
  return {table.tied() ? table.flat_count() : matrix.offset, matrix.shape[0], matrix.shape[1]};
}

ExchangeOptions exchange_options(const ParameterTable& table, const OptimizerOptions& options) {
  return {options.wire, options.bucket_bytes, options.progress_cpus, embedding_rows(table),
          options.one_host ? kHostChunkBytes : kNetworkChunkBytes};
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
  const ParameterTable& table;
  TrainingState& state;
  Ops& ops;
  OptimizerOptions options;
  Exchange exchange;

  /// The tied matrix has one gradient from the head, at its own offset, and one from the embedding, behind all others.
  void add_tied_sum(Context& context) {
    if (!table.tied()) return;
    const Parameter& matrix = table.find("embedding.token.weight");
    ops.add(context, slice(state.gradients(), table.flat_count(), matrix.count()),
            slice(state.gradients(), matrix.offset, matrix.count()));
  }

  double squared_norm(Context& context) {
    double sum = 0;
    for (const Parameter& parameter : table.all()) {
      sum += ops.squared_norm(context, view_of(state.gradients(), parameter));
    }
    return sum;
  }
};

Optimizer::Optimizer(const ParameterTable& table, TrainingState& state, Ops& ops, Communicator& data_group,
                     const OptimizerOptions& options)
    : implementation_(new Implementation{
          table, state, ops, options,
          Exchange(f32_gradients(state, data_group), data_group, exchange_options(table, options))}) {}

Optimizer::~Optimizer() = default;

void Optimizer::begin_exchange() { implementation_->exchange.begin(); }

void Optimizer::ready(ParameterRange range) { implementation_->exchange.ready(range.end); }

double Optimizer::finish_exchange(Context& context) {
  implementation_->exchange.finish();
  implementation_->add_tied_sum(context);
  return implementation_->squared_norm(context);
}

void Optimizer::update(Context& context, double learning_rate, int64_t t, double norm) {
  assert(t >= 1);
  auto& [table, state, ops, options, exchange] = *implementation_;
  AdamW adamw = options.adamw;
  adamw.learning_rate = static_cast<float>(learning_rate);
  adamw.correction1 = correction(adamw.beta1, t);
  adamw.correction2 = correction(adamw.beta2, t);
  // The rule of torch.nn.utils.clip_grad_norm_, its 1e-6 included.
  const double factor = options.clip > 0 ? std::min(1.0, options.clip / (norm + 1e-6)) : 1.0;
  adamw.gradient_scale = static_cast<float>(factor);
  for (const Parameter& parameter : table.all()) {
    AdamW own = adamw;
    if (!parameter.decays && !options.decay_all) own.weight_decay = 0;
    const auto flat = [&](View array) {
      return array.empty() ? View() : slice(array, parameter.offset, parameter.count());
    };
    ops.adamw(context, own, flat(state.gradients()), flat(state.moment1()), flat(state.moment2()),
              flat(state.weights()), flat(state.remainder()));
  }
}

const ExchangeTimes& Optimizer::last_exchange() const { return implementation_->exchange.times(); }

}  // namespace trireme
