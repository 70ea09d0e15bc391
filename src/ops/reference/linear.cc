#include <vector>

#include "ops/reference/reference_ops.h"

namespace trireme {

void ReferenceOps::do_linear(Context&, ConstView x, ConstView w, ConstView bias, View y) {
  const int64_t rows = x.shape()[0], in = x.shape()[1], out = w.shape()[0];
  const double *px = x.as<double>(), *pw = w.as<double>();
  double* py = y.as<double>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < out; ++o) {
      double sum = bias.empty() ? 0 : bias.as<double>()[o];
      for (int64_t i = 0; i < in; ++i) sum += px[r * in + i] * pw[o * in + i];
      py[r * out + o] = sum;
    }
}

void ReferenceOps::do_linear_activation(Context& context, ConstView x, ConstView w, ConstView bias, Activation f,
                                        View pre, View y) {
  do_linear(context, x, w, bias, pre);
  do_activation(context, pre, f, y);
}

void ReferenceOps::do_linear_backward_input(Context&, ConstView dy, ConstView w, View dx) {
  const int64_t rows = dy.shape()[0], out = dy.shape()[1], in = w.shape()[1];
  const double *pdy = dy.as<double>(), *pw = w.as<double>();
  double* pdx = dx.as<double>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < out; ++o) sum += pdy[r * out + o] * pw[o * in + i];
      pdx[r * in + i] = sum;
    }
}

void ReferenceOps::do_linear_backward_weight(Context&, ConstView dy, ConstView x, View dw, Write write) {
  const int64_t rows = dy.shape()[0], out = dy.shape()[1], in = x.shape()[1];
  const double *pdy = dy.as<double>(), *px = x.as<double>();
  double* pdw = dw.as<double>();
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += pdy[r * out + o] * px[r * in + i];
      double& target = pdw[o * in + i];
      target = write != Write::overwrite ? target + sum : sum;
    }
}

void ReferenceOps::do_bias_backward(Context&, ConstView dy, View db, Write write) {
  const int64_t rows = dy.shape()[0], out = dy.shape()[1];
  const double* pdy = dy.as<double>();
  double* pdb = db.as<double>();
  for (int64_t o = 0; o < out; ++o) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += pdy[r * out + o];
    pdb[o] = write != Write::overwrite ? pdb[o] + sum : sum;
  }
}

}  // namespace trireme
