#include "model/stage.h"

namespace trireme {

Stage::Stage(const Spec& spec, const ParameterViews& views, DType dtype, const ModelShape& shape, Ops& ops, int threads,
             TensorGroup* tensor, WeightSource* weights)
    : spec_(spec),
      workspace_(spec_, views.table->layout(), dtype, shape, ops, threads, tensor),
      arena_(sizeof(double), ops.device()),
      loss_(arena_.take(DType::f64, {1})) {
  const Layout& layout = views.table->layout();
  for (size_t chunk = 0; chunk < layout.parts().size(); ++chunk)
    parts_.emplace_back(spec_, layout.chunk(chunk), views, dtype, shape.of_chunk(chunk), workspace_, weights);
}

/// The value, which is 0 again.
double Stage::read_loss() {
  const double loss = HostValues<double>(loss_).get()[0];
  workspace_.ops().zero(context(), loss_);
  return loss;
}

double Stage::loss(const Batch& batch) {
  part().forward(0, batch, {}, {}, {});
  part().loss(0, loss_);
  return read_loss();
}

double Stage::loss_and_backward(const Batch& batch, const Step& step, float scale, Write write, GradientSink* sink) {
  part().forward(0, batch, step, {}, {});
  part().backward(0, {.scale = scale, .loss = loss_, .write = write, .sink = sink}, {}, {});
  return read_loss();
}

void Stage::logits(const Batch& batch, View logits) {
  part().forward(0, batch, {}, {}, {});
  part().logits(0, logits);
}

void Stage::logits_without_rows() {
  part().forward_without_rows();
  part().loss_without_rows();
}

void Stage::decode(const Batch& batch, const KeyValueCache& cache, View logits) {
  part().decode(0, batch, cache, {}, {});
  part().next_logits(0, logits);
}

}  // namespace trireme
