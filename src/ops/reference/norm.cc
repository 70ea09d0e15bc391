#include <cmath>

#include "ops/reference/reference_ops.h"

namespace trireme {

void ReferenceOps::do_layer_norm(Context&, ConstView x, ConstView w, ConstView b, float eps, View y, View mean,
                                 View rstd) {
  const int64_t rows = x.shape()[0], width = x.shape()[1];
  const double* weight = w.as<double>();
  for (int64_t row = 0; row < rows; ++row) {
    const double* in = x.as<double>() + row * width;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < width; ++i) sum += in[i];
    const double m = sum / static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i) squares += (in[i] - m) * (in[i] - m);
    const double r = 1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(eps));
    for (int64_t i = 0; i < width; ++i)
      y.as<double>()[row * width + i] = (in[i] - m) * r * weight[i] + (b.empty() ? 0 : b.as<double>()[i]);
    mean.as<double>()[row] = m;
    rstd.as<double>()[row] = r;
  }
}

void ReferenceOps::do_layer_norm_backward(Context&, ConstView dy, ConstView x, ConstView w, ConstView mean,
                                          ConstView rstd, View dx, View dw, View db, Write write) {
  const int64_t rows = x.shape()[0], width = x.shape()[1];
  const double* weight = w.as<double>();
  if (write == Write::overwrite) {
    for (double& value : dw.values<double>()) value = 0;
    if (!db.empty())
      for (double& value : db.values<double>()) value = 0;
  }
  for (int64_t row = 0; row < rows; ++row) {
    const double *in = x.as<double>() + row * width, *dout = dy.as<double>() + row * width;
    const double m = mean.as<double>()[row], r = rstd.as<double>()[row];
    double g_mean = 0, gx_mean = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double xhat = (in[i] - m) * r, g = dout[i] * weight[i];
      g_mean += g / static_cast<double>(width);
      gx_mean += g * xhat / static_cast<double>(width);
      dw.as<double>()[i] += dout[i] * xhat;
      if (!db.empty()) db.as<double>()[i] += dout[i];
    }
    for (int64_t i = 0; i < width; ++i) {
      const double xhat = (in[i] - m) * r, g = dout[i] * weight[i];
      dx.as<double>()[row * width + i] += r * (g - g_mean - xhat * gx_mean);
    }
  }
}

}  // namespace trireme
