#include "model/stage.h"

namespace trireme {

Stage::Stage(const Spec& spec, const ParameterViews& views, DType dtype, const ModelShape& shape, Ops& ops, int threads,
             TensorGroup* tensor)
    : spec_(spec),
      workspace_(spec_, views.table->layout(), dtype, shape, ops, threads, tensor),
      part_(spec_, views.table->layout(), views, dtype, shape, workspace_) {}

double Stage::loss(const Batch& batch) {
  part_.forward(0, batch, {}, {}, {});
  return part_.loss(0);
}

double Stage::loss_and_backward(const Batch& batch, const Step& step, float scale, Write write, GradientSink* sink) {
  part_.forward(0, batch, step, {}, {});
  return part_.backward(0, {.scale = scale, .write = write, .sink = sink}, {}, {});
}

void Stage::logits(const Batch& batch, View logits) {
  part_.forward(0, batch, {}, {}, {});
  part_.logits(0, logits);
}

void Stage::decode(const Batch& batch, const KeyValueCache& cache, View logits) {
  part_.decode(0, batch, cache, {}, {});
  part_.next_logits(0, logits);
}

}  // namespace trireme
