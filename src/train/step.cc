#include "train/step.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/exact_sum.h"
#include "base/hash.h"
#include "comm/agreement.h"
#include "comm/stream_group.h"
#include "train/progress_log.h"

namespace trireme {
namespace {

uint64_t hash_of(const Batch& batch) {
  const auto hash = [](ConstView x) { return xxh3(HostBytes(x).get()); };
  return hash(batch.tokens) ^ 3 * hash(batch.targets);
}

/// The divisor of a micro-batch's sum of losses before it is added to others; a micro-batch without targets adds 0.
double divisor(double counted) { return std::max(counted, 1.0); }

void add_rows(const Batch& batch, StepRows& sum) {
  ++sum.micro_batches;
  sum.rows += static_cast<double>(batch.rows());
  const auto* offsets = batch.offsets.as<int32_t>();
  for (int64_t i = 0; i < batch.sequences(); ++i) {
    const auto length = static_cast<double>(offsets[i + 1] - offsets[i]);
    sum.squares += length * length;
  }
  sum.counted += static_cast<double>(batch.counted.empty() ? batch.rows() : batch.counted.rows());
}

}  // namespace

TrainStep::TrainStep(Session& session, StepBatches& batches, uint64_t seed, LossMean mean)
    : session_(session), batches_(batches), seed_(seed), mean_(mean) {}

StagePart& TrainStep::part_of(const PipelineAction& action) {
  return session_.stage().part(static_cast<size_t>(action.chunk));
}

void TrainStep::forward(const PipelineAction& action, const StepStart& start) {
  const int64_t m = action.micro_batch, rows = part_.rows[static_cast<size_t>(m)];
  StagePart& part = part_of(action);
  const bool there =
      m == 0 && next_.number > 0 && next_.consumed == start.consumed && part.holds(slot_of(action), next_.number);
  Held own = next_;
  if (!there) {
    const Batch& batch = fill(part_, m);
    if (rows == 0) return part.forward_without_rows();
    own = put(action, batch, start.consumed);
  }
  if (shares_batch() && action.chunk == 0) batch_hash_ = own.hash + 31 * batch_hash_;
  if (mean_ == LossMean::micro_batches) counted_[static_cast<size_t>(m)] = own.terms;
  const StagePart::Step numbers{
      .seed = seed_, .step = static_cast<uint64_t>(start.step), .dropout = session_.stage().spec().has_dropout()};
  StageLinks& links = session_.links();
  const int64_t own_rows = session_.own_rows(rows);
  const ConstView in = links.receive_input(action, own_rows);
  part.forward(slot_of(action), numbers, in, links.output_buffer(action, own_rows));
  links.send_output(action, own_rows);
}

TrainStep::Held TrainStep::put(const PipelineAction& action, const Batch& batch, uint64_t consumed) {
  if (action.chunk == 0) add_rows(batch, rows_);
  return {.consumed = consumed,
          .number = part_of(action).put(slot_of(action), batch, session_.stage().spec().has_dropout()),
          .hash = shares_batch() && action.chunk == 0 ? hash_of(batch) : 0,
          .terms = mean_ == LossMean::micro_batches ? loss_terms(batch) : 0};
}

/// While the device computes what was issued. Chunks of a pipeline each take the batch when its turn comes.
void TrainStep::put_next() {
  next_ = {};
  if (session_.links().chunks() > 1) return;
  next_part_ = batches_.part(part_.consumed + static_cast<uint64_t>(part_.samples));
  const Batch& batch = fill(*next_part_, 0);
  if (batch.rows() > 0) next_ = put({PipelinePass::forward, 0, 0}, batch, next_part_->consumed);
}

/// Batches of earlier micro-batches that are not yet computed stay valid.
const Batch& TrainStep::fill(const StepPart& step, int64_t micro_batch) {
  return batches_.fill(step, micro_batch, filled_++ % slots_);
}

double TrainStep::mean_of(int64_t micro_batch) const {
  return mean_ == LossMean::tokens ? 1 : divisor(counted_[static_cast<size_t>(micro_batch)]);
}

void TrainStep::backward(const PipelineAction& action, float scale) {
  const int64_t m = action.micro_batch, rows = part_.rows[static_cast<size_t>(m)];
  Optimizer& optimizer = session_.optimizer();
  const Write write = m == 0 ? Write::overwrite : Write::add;
  const bool each = optimizer.exchanges_every_micro_batch(), exchanged = each || m + 1 == part_.micro_batches();
  StageLinks& links = session_.links();
  if (exchanged && action.chunk + 1 == links.chunks())  // the first chunk that completes
    optimizer.begin_exchange(each ? write : Write::overwrite);
  StagePart::Gradients gradients{.write = each ? Write::overwrite : write,
                                 .sink = exchanged ? &session_.gradient_sink() : nullptr};
  // The global batch does not divide evenly and this rank has no sample left: it contributes zeros.
  if (rows == 0) return part_of(action).backward_without_rows(gradients);
  gradients.scale = static_cast<float>(scale / mean_of(m));
  gradients.loss = results_.rows_slice(m, 1);
  const int64_t own = session_.own_rows(rows);
  const ConstView dy = links.receive_input(action, own);
  part_of(action).backward(slot_of(action), gradients, dy, links.output_buffer(action, own));
  links.send_output(action, own);
}

void TrainStep::run_micro_batches(const StepStart& start, float scale) {
  StageLinks& links = session_.links();
  const int64_t count = part_.micro_batches();
  ProgressLog progress("this step");
  const auto rows = [&](int64_t m) { return session_.own_rows(part_.rows[static_cast<size_t>(m)]); };
  const auto act = [&](const PipelineAction& action) {
    if (action.pass == PipelinePass::forward) return forward(action, start);
    backward(action, scale);
    if (action.chunk == 0) progress.report(action.micro_batch + 1, count);
  };
  run_in_order(links, pipeline_order(links.stage(), links.stages(), links.chunks(), count), rows, act);
}

/// Zeros for what a step computes. They are one array, which the host reads at once.
void TrainStep::make_results() {
  const int64_t count = part_.micro_batches() + session_.optimizer().norm_values();
  const size_t bytes = static_cast<size_t>(count) * sizeof(double);
  Device& device = session_.ops().device();
  if (memory_.capacity() < bytes) {
    memory_ = Arena(bytes, device);
    if (!device.is_host()) read_ = std::make_unique<PinnedMemory>(bytes, device);
  }
  memory_.release(0);
  results_ = memory_.take(DType::f64, {count});
  session_.ops().zero(session_.stage().context(), results_);
}

/// The one time of a step that the host waits for the device, which meanwhile gets the next batch.
std::span<const double> TrainStep::read_results(const StepStart& start) {
  if (!results_.device()) return results_.values<double>();
  DeviceStream& stream = *session_.stage().context().stream;
  const View read(read_->data(), results_.dtype(), results_.shape());
  stream.copy_later(results_, read);
  const Event there = stream.record();
  if (start.next) put_next();
  wait_watching(there, *results_.device(), session_.rank().heartbeat);
  return read.values<double>();
}

/// Sum of the losses of this rank's micro-batches, or of their means; 0 if another rank counts them.
double TrainStep::sum_of(std::span<const double> losses) const {
  if (!session_.counts_loss()) return 0;
  double sum = 0;
  int64_t m = 0;
  for (const double loss : losses) sum += loss / mean_of(m++);
  return sum;
}

/// The ranks of one data rank each build the same batch.
bool TrainStep::shares_batch() const {
  const MeshShape& mesh = session_.mesh().shape();
  return mesh.tensor * mesh.pipeline > 1;
}

/// Throws CommonError (mismatch) before any weight changes.
void TrainStep::compare_batches(int64_t step) {
  const MeshShape& mesh = session_.mesh().shape();
  const std::vector<uint64_t> hashes = session_.scalars().gather_values(batch_hash_);
  for (int rank = 0; rank < session_.rank().size(); ++rank) {
    const int first = place_of(mesh, rank).data * static_cast<int>(mesh.tensor);  // first rank of its data rank
    if (hashes[static_cast<size_t>(rank)] == hashes[static_cast<size_t>(first)]) continue;
    throw CommonError(ErrorKind::mismatch,
                      fmt::format("step {}: rank {} ({}) has other tokens than rank {} ({}), but both compute the same "
                                  "batch: their data files differ; copy the data again. No weight was changed",
                                  step + 1, rank, describe_place(mesh, rank), first, describe_place(mesh, first)));
  }
}

/// Sums the results of a step over ranks: a message whose size depends neither on the model nor on the number of ranks.
/// norms: this rank's values of the squared norm.
StepResult TrainStep::agree(double loss, std::span<const double> norms, double counted, const StepStart& start) {
  if (shares_batch()) compare_batches(start.step);
  ExactSum own_loss, own_norm;
  own_loss.add(loss);
  for (const double value : norms) own_norm.add(value);
  std::vector<int64_t> sums{session_.rank().stop_requested(), !start.saved, !start.copied};
  const size_t counts = sums.size();
  for (const ExactSum& own : {own_loss, own_norm}) sums.insert(sums.end(), own.digits().begin(), own.digits().end());
  session_.scalars().sum(sums);
  const auto sum_at = [&](size_t at) {
    return ExactSum(std::span(sums).subspan(at).first<ExactSum::kDigits>()).value();
  };
  const double squared_norm = sum_at(counts + ExactSum::kDigits);
  StepResult result{.loss = sum_at(counts) / counted,
                    .norm = std::sqrt(squared_norm) / start.loss_scale,
                    .stop = sums[0] > 0,
                    .saved = sums[1] == 0,
                    .copied = sums[2] == 0};
  result.finite = std::isfinite(result.loss) && std::isfinite(squared_norm);
  result.overflow = !result.finite && session_.state().weights().dtype() == DType::f16;
  result.skipped = !result.finite || result.loss > start.most_loss;
  return result;
}

/// The number that the sum of all ranks' losses is divided by.
double TrainStep::count() {
  const bool means = mean_ == LossMean::micro_batches;
  if (means) counted_.assign(part_.rows.size(), 0);
  if (!means && part_.counted) return *part_.counted;
  double own = 0;
  for (int64_t m = 0; m < part_.micro_batches(); ++m) {
    if (part_.rows[static_cast<size_t>(m)] > 0) own += means ? 1 : loss_terms(batches_.fill(part_, m));
  }
  return session_.scalars().sum(session_.counts_batch() ? own : 0);
}

StepResult TrainStep::run(const StepStart& start) {
  batch_hash_ = 0;
  rows_ = {};
  const bool known = next_part_ && next_part_->consumed == start.consumed;
  part_ = known ? *std::exchange(next_part_, std::nullopt) : batches_.part(start.consumed);
  const StageLinks& links = session_.links();
  // Every chunk's forward fills a batch again.
  slots_ = static_cast<size_t>(
      links.chunks() == 1
          ? session_.stage().part().slots()
          : forwards_kept(pipeline_order(links.stage(), links.stages(), links.chunks(), part_.micro_batches())));
  const double counted = count();
  make_results();
  run_micro_batches(start, static_cast<float>(start.loss_scale / counted));
  Context& context = session_.stage().context();
  const int64_t losses = part_.micro_batches();
  session_.optimizer().finish_exchange(context, results_.rows_slice(losses, results_.rows() - losses));
  const std::span<const double> results = read_results(start);
  const auto first_norm = static_cast<size_t>(losses);
  const StepResult result = agree(sum_of(results.first(first_norm)), results.subspan(first_norm), counted, start);
  if (!result.skipped)
    session_.optimizer().update(context, start.learning_rate, start.update, result.norm, start.loss_scale);
  return result;
}

namespace {

/// A batch without rows on this rank, while ranks that share weights with it may have some.
void pass_without_rows(Session& session) {
  const int64_t chunks = session.links().chunks();
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    session.stage().part(static_cast<size_t>(chunk)).forward_without_rows();
  if (session.links().last()) session.stage().part(static_cast<size_t>(chunks - 1)).loss_without_rows();
}

/// Loss of a batch, with a forward through all stages; 0 on ranks whose loss does not count.
double loss_of(Session& session, const Batch& batch, int64_t number) {
  constexpr int64_t kSlot = 0;
  StageLinks& links = session.links();
  const int64_t own = session.own_rows(batch.rows()), chunks = links.chunks();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const PipelineAction action{PipelinePass::forward, chunk, number};
    links.post_receive(action, own);
    const ConstView in = links.receive_input(action, own);
    session.stage().part(static_cast<size_t>(chunk)).forward(kSlot, batch, {}, in, links.output_buffer(action, own));
    links.send_output(action, own);
  }
  if (!links.last()) return 0;
  Arena memory(sizeof(double), session.ops().device());
  const View loss = memory.take(DType::f64, {1});
  session.stage().part(static_cast<size_t>(chunks - 1)).loss(kSlot, loss);
  session.wait_for_ranks();
  return session.counts_loss() ? HostValues<double>(loss).get()[0] : 0;
}

}  // namespace

std::optional<double> evaluate(Session& session, StepBatches& batches, int64_t steps, int64_t samples, LossMean mean,
                               int64_t from) {
  Scalars& scalars = session.scalars();
  double loss = 0, counted = 0;
  ProgressLog progress("evaluation");
  for (int64_t step = 0; step < steps; ++step) {
    const StepPart part = batches.part(static_cast<uint64_t>((from + step) * samples));
    const int64_t micro_batches = part.micro_batches();
    for (int64_t m = 0; m < micro_batches; ++m) {
      if (part.rows[static_cast<size_t>(m)] == 0) {
        pass_without_rows(session);
        continue;
      }
      const Batch& batch = batches.fill(part, m);
      const double terms = loss_terms(batch);
      const bool by_tokens = mean == LossMean::tokens;
      loss += loss_of(session, batch, m) / (by_tokens ? 1 : divisor(terms));
      if (session.counts_batch()) counted += by_tokens ? terms : 1;
      progress.report(step * micro_batches + m + 1, steps * micro_batches);
    }
    session.links().flush();
    if (scalars.any(session.rank().stop_requested())) return std::nullopt;
  }
  return scalars.sum(loss) / scalars.sum(counted);
}

std::optional<double> evaluate(Session& session, const SampleSource& data, const BatchShape& shape, int64_t batches,
                               LossMean mean, int64_t from) {
  SampleBatches windows(data, shape, SampleStream::evaluation);
  return evaluate(session, windows, batches, shape.global, mean, from);
}

}  // namespace trireme
