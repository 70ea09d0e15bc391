#include "train/step.h"

#include <cmath>
#include <vector>

#include "train/sign_of_life.h"

namespace trireme {
namespace {

constexpr int64_t kSlot = 0;  // one stage runs each backward right after its forward

}  // namespace

void TrainStep::forward(const PipelineAction& action, const StepStart& start) {
  const Batch& batch = batches_.fill(start.consumed, action.micro_batch);
  has_rows_ = batch.rows() > 0;
  if (!has_rows_) return;
  const StagePart::Step numbers{
      .seed = seed_, .step = static_cast<uint64_t>(start.step), .dropout = session_.stage().spec().has_dropout()};
  session_.stage().part().forward(kSlot, batch, numbers, {}, {});
}

double TrainStep::backward(const PipelineAction& action, float scale) {
  Stage& stage = session_.stage();
  Optimizer& optimizer = session_.optimizer();
  const Write write = action.micro_batch == 0 ? Write::overwrite : Write::add;
  const bool last = action.micro_batch + 1 == batches_.micro_batches();
  if (last) optimizer.begin_exchange();
  if (has_rows_)
    return stage.part().backward(kSlot, {.scale = scale, .write = write, .sink = last ? &optimizer : nullptr}, {}, {});
  // The global batch does not divide evenly and this rank has no sample left: it contributes zeros.
  if (write == Write::overwrite) session_.ops().zero(stage.context(), session_.state().gradients());
  if (last) {
    for (const ParameterRange& range : session_.table().ready_ranges()) optimizer.ready(range);
  }
  return 0;
}

/// Sum of the losses of this rank's micro-batches.
double TrainStep::run_micro_batches(const StepStart& start, float scale) {
  const int64_t count = batches_.micro_batches();
  double loss = 0;
  SignOfLife sign("this step");
  for (const PipelineAction& action : pipeline_order(0, 1, 1, count)) {
    if (action.pass == PipelinePass::forward) {
      forward(action, start);
    } else {
      loss += backward(action, scale);
      sign.tell(action.micro_batch + 1, count);
    }
  }
  return loss;
}

/// One message: what ranks have to tell each other after a step. norms: this rank's values of the squared norm.
StepResult TrainStep::agree(double loss, std::span<const double> norms, double counted, const StepStart& start) {
  const bool stop = session_.rank().stop_requested();
  std::vector<double> own{loss, stop ? 1.0 : 0.0, start.saved ? 0.0 : 1.0};
  const size_t counts = own.size();
  own.insert(own.end(), norms.begin(), norms.end());
  const std::vector<double> all = session_.scalars().gather(own);
  std::vector<double> sums(counts), all_norms;
  for (size_t row = 0; row < all.size(); row += own.size()) {  // one per rank
    for (size_t i = 0; i < counts; ++i) sums[i] += all[row + i];
    all_norms.insert(all_norms.end(), &all[row + counts], &all[row] + own.size());
  }
  const double squared_norm = session_.optimizer().squared_norm(all_norms);
  StepResult result{
      .loss = sums[0] / counted, .norm = std::sqrt(squared_norm), .stop = sums[1] > 0, .saved = sums[2] == 0};
  result.finite = std::isfinite(result.loss) && std::isfinite(squared_norm);
  result.skipped = !result.finite || result.loss > start.most_loss;
  return result;
}

/// What the losses of all ranks' micro-batches are a sum over.
double TrainStep::count(uint64_t consumed) {
  const double own = batches_.counted(consumed);
  const auto all = batches_.counted_by_all(consumed);
  return all ? *all : session_.scalars().sum(own);
}

StepResult TrainStep::run(const StepStart& start) {
  const double counted = count(start.consumed);
  const double loss = run_micro_batches(start, static_cast<float>(1.0 / counted));
  Context& context = session_.stage().context();
  const std::span<const double> norms = session_.optimizer().finish_exchange(context);
  const StepResult result = agree(loss, norms, counted, start);
  if (!result.skipped) session_.optimizer().update(context, start.learning_rate, start.update, result.norm);
  return result;
}

std::optional<double> evaluate(Session& session, const SampleSource& data, const BatchShape& shape, int64_t batches) {
  Batcher batcher(shape.largest_micro(), shape.sequence);
  Scalars& scalars = session.scalars();
  double loss = 0, tokens = 0;
  SignOfLife sign("evaluation");
  for (int64_t b = 0; b < batches; ++b) {
    const auto first = static_cast<uint64_t>(b * shape.global);
    for (int64_t m = 0; m < shape.micro_batches; ++m) {
      const BatchSlice slice = batch_slice(first, shape, m);
      if (slice.count == 0) continue;
      const Batch& batch = batcher.fill(data, Stream::evaluation, slice);
      loss += session.stage().loss(batch);
      tokens += counted_rows(batch);
      sign.tell(b * shape.micro_batches + m + 1, batches * shape.micro_batches);
    }
    if (scalars.any(session.rank().stop_requested())) return std::nullopt;
  }
  return scalars.sum(loss) / scalars.sum(tokens);
}

}  // namespace trireme
