#include "model/mesh_stage.h"

namespace trireme {
namespace {

constexpr int kTag = 1;  // one message at a time between two stages and in one direction
constexpr const char* kWhat = "a neighbour stage";

/// A group of the axis for its own thread; nullptr: one rank.
std::unique_ptr<Communicator> own_group(Communicator* axis) {
  if (!axis || axis->size() == 1) return nullptr;
  auto group = axis->split(0, axis->rank());
  group->report_to(axis->heartbeat());
  return group;
}

size_t buffers_bytes(bool any, DType dtype, int64_t rows, int64_t width) {
  Arena measure;
  measure.take(DType::f64, {1});
  if (!any) return measure.peak();
  for (int i = 0; i < 2; ++i) measure.take(dtype, {rows, width});
  return measure.peak();
}

}  // namespace

MeshStage::MeshStage(const Spec& spec, const ParameterViews& views, DType dtype, const ModelShape& shape, Ops& ops,
                     int threads, Mesh* mesh, WeightSource* weights)
    : pipeline_(own_group(mesh ? &mesh->pipeline() : nullptr)),
      arena_(buffers_bytes(pipeline_ != nullptr, dtype, shape.rows, spec.width), ops.device()),
      ops_(ops),
      loss_(arena_.take(DType::f64, {1})),
      stage_(spec, views, dtype, shape, ops, threads,
             mesh && mesh->tensor().size() > 1
                 ? &tensor_.emplace(mesh->tensor(), ops, tensor_sizes(spec, dtype, shape, ops))
                 : nullptr,
             weights) {
  if (!pipeline_) return;
  for (View* view : {&in_, &out_}) *view = arena_.take(dtype, {shape.rows, spec.width});
}

View MeshStage::arrival(bool from_before, int64_t rows) {
  if (from_before ? first() : last()) return {};
  const View to = in_.rows_slice(0, rows);
  context().stream->finish();  // who read it before has
  pipeline_->receive(to, pipeline_->rank() + (from_before ? -1 : 1), kTag).wait(kWhat);
  return to;
}

void MeshStage::hand_on(ConstView rows, bool to_behind) {
  if (rows.empty()) return;
  context().stream->finish();
  pipeline_->send(rows, pipeline_->rank() + (to_behind ? 1 : -1), kTag).wait(kWhat);
}

void MeshStage::forward(const Batch& batch, const KeyValueCache* cache) {
  const ConstView in = arrival(true, batch.rows());
  const View out = buffer(!last(), out_, batch.rows());
  if (cache) {
    stage_.part().decode(0, batch, *cache, in, out);
  } else {
    stage_.part().forward(0, batch, {}, in, out);
  }
  hand_on(out, true);
}

void MeshStage::share(View of_last_stage) {
  if (!pipeline_) return;
  context().stream->finish();
  pipeline_->broadcast(of_last_stage, pipeline_->size() - 1).wait(kWhat);
}

double MeshStage::loss_and_backward(const Batch& batch, float scale) {
  forward(batch, nullptr);
  const ConstView dy = arrival(false, batch.rows());
  const View dx = buffer(!first(), out_, batch.rows());
  ops_.zero(context(), loss_);
  stage_.part().backward(0, {.scale = scale, .loss = loss_}, dy, dx);
  hand_on(dx, false);
  share(loss_);
  return HostValues<double>(loss_).get()[0];
}

void MeshStage::logits(const Batch& batch, View logits) {
  forward(batch, nullptr);
  if (last()) stage_.part().logits(0, logits);
  share(logits);
}

void MeshStage::decode(const Batch& batch, const KeyValueCache& cache, View logits) {
  forward(batch, &cache);
  if (last()) stage_.part().next_logits(0, logits);
  share(logits);
}

}  // namespace trireme
