#include <cmath>
#include <initializer_list>

#include "ops/reference/reference_ops.h"

namespace trireme {
namespace {

/// Of those that are wanted.
void zero_all(std::initializer_list<View> gradients) {
  for (const View& gradient : gradients) {
    if (gradient.empty()) continue;
    for (double& value : gradient.values<double>()) value = 0;
  }
}

}  // namespace

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
  if (write == Write::overwrite) zero_all({dw, db});
  for (int64_t row = 0; row < rows; ++row) {
    const double *in = x.as<double>() + row * width, *dout = dy.as<double>() + row * width;
    const double m = mean.as<double>()[row], r = rstd.as<double>()[row];
    double g_mean = 0, gx_mean = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double xhat = (in[i] - m) * r, g = dout[i] * weight[i];
      g_mean += g / static_cast<double>(width);
      gx_mean += g * xhat / static_cast<double>(width);
      if (!dw.empty()) dw.as<double>()[i] += dout[i] * xhat;
      if (!db.empty()) db.as<double>()[i] += dout[i];
    }
    for (int64_t i = 0; i < width; ++i) {
      const double xhat = (in[i] - m) * r, g = dout[i] * weight[i];
      dx.as<double>()[row * width + i] += r * (g - g_mean - xhat * gx_mean);
    }
  }
}

void ReferenceOps::do_rms_norm(Context&, ConstView x, ConstView w, float offset, float eps, View y, View rstd) {
  const int64_t rows = x.shape()[0], width = x.shape()[1];
  for (int64_t row = 0; row < rows; ++row) {
    const double* in = x.as<double>() + row * width;
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += in[i] * in[i];
    const double r = 1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(eps));
    for (int64_t i = 0; i < width; ++i)
      y.as<double>()[row * width + i] = in[i] * r * (static_cast<double>(offset) + w.as<double>()[i]);
    rstd.as<double>()[row] = r;
  }
}

void ReferenceOps::do_rms_norm_backward(Context&, ConstView dy, ConstView x, ConstView w, float offset, ConstView rstd,
                                        View dx, View dw, Write write) {
  const int64_t rows = x.shape()[0], width = x.shape()[1];
  if (write == Write::overwrite) zero_all({dw});
  for (int64_t row = 0; row < rows; ++row) {
    const double *in = x.as<double>() + row * width, *dout = dy.as<double>() + row * width;
    const double r = rstd.as<double>()[row];
    const auto gradient = [&](int64_t i) { return dout[i] * (static_cast<double>(offset) + w.as<double>()[i]); };
    double mean = 0;
    for (int64_t i = 0; i < width; ++i) {
      mean += gradient(i) * in[i] * r / static_cast<double>(width);
      if (!dw.empty()) dw.as<double>()[i] += dout[i] * in[i] * r;
    }
    for (int64_t i = 0; i < width; ++i) dx.as<double>()[row * width + i] += r * (gradient(i) - in[i] * r * mean);
  }
}

namespace {

/// A query or a key of a row, and what the normalisation takes for it.
struct HeadVector {
  int64_t at;  ///< of its first value in qkv
  bool key;
  int64_t statistic;  ///< its place in squares and products
  int64_t gain;       ///< its first gain's
};

template <class Do>
void for_each_query_and_key(ConstView qkv, const QueryKeyNorm& norm, Do action) {
  const int64_t kv_heads = qkv.shape()[1], parts = qkv.shape()[2], head_dim = qkv.shape()[3], group = parts - 2;
  for (int64_t row = 0; row < qkv.rows(); ++row)
    for (int64_t head = 0; head < kv_heads; ++head)
      for (int64_t part = 0; part <= group; ++part) {
        const bool key = part == group;
        const int64_t of_heads = (row * kv_heads + head) * (group + 1) + part,
                      number = key ? head : head * group + part;
        action(HeadVector{.at = ((row * kv_heads + head) * parts + part) * head_dim,
                          .key = key,
                          .statistic = norm.whole ? 2 * row + (key ? 1 : 0) : of_heads,
                          .gain = norm.whole ? number * head_dim : 0});
      }
}

double gain_of(const QueryKeyNorm& norm, const HeadVector& v, int64_t i) {
  return static_cast<double>(norm.offset) + (v.key ? norm.k : norm.q).as<double>()[v.gain + i];
}

double count_of(const QueryKeyNorm& norm, const HeadVector& v) {
  return static_cast<double>(v.key ? norm.k_count : norm.q_count);
}

double rstd_of(const QueryKeyNorm& norm, const HeadVector& v, ConstView squares) {
  const double mean = squares.as<double>()[v.statistic] / count_of(norm, v);
  return 1 / std::sqrt(mean + static_cast<double>(norm.epsilon));
}

}  // namespace

void ReferenceOps::do_query_key_squares(Context&, ConstView qkv, const QueryKeyNorm& norm, View squares) {
  for (double& value : squares.values<double>()) value = 0;
  for_each_query_and_key(qkv, norm, [&](const HeadVector& v) {
    const double* x = qkv.as<double>() + v.at;
    for (int64_t i = 0; i < qkv.shape()[3]; ++i) squares.as<double>()[v.statistic] += x[i] * x[i];
  });
}

void ReferenceOps::do_query_key_norm(Context&, ConstView qkv, const QueryKeyNorm& norm, ConstView squares, View y) {
  for (int64_t i = 0; i < qkv.count(); ++i) y.as<double>()[i] = qkv.as<double>()[i];
  for_each_query_and_key(qkv, norm, [&](const HeadVector& v) {
    for (int64_t i = 0; i < qkv.shape()[3]; ++i)
      y.as<double>()[v.at + i] *= rstd_of(norm, v, squares) * gain_of(norm, v, i);
  });
}

void ReferenceOps::do_query_key_products(Context&, ConstView dqkv, ConstView qkv, const QueryKeyNorm& norm,
                                         View products) {
  for (double& value : products.values<double>()) value = 0;
  for_each_query_and_key(qkv, norm, [&](const HeadVector& v) {
    for (int64_t i = 0; i < qkv.shape()[3]; ++i)
      products.as<double>()[v.statistic] +=
          dqkv.as<double>()[v.at + i] * gain_of(norm, v, i) * qkv.as<double>()[v.at + i];
  });
}

void ReferenceOps::do_query_key_norm_backward(Context&, View dqkv, ConstView qkv, const QueryKeyNorm& norm,
                                              ConstView squares, ConstView products, View dq, View dk, Write write) {
  if (write == Write::overwrite) zero_all({dq, dk});
  for_each_query_and_key(qkv, norm, [&](const HeadVector& v) {
    const double r = rstd_of(norm, v, squares), mean = products.as<double>()[v.statistic] * r / count_of(norm, v);
    const View gains = v.key ? dk : dq;
    for (int64_t i = 0; i < qkv.shape()[3]; ++i) {
      const double xhat = qkv.as<double>()[v.at + i] * r;
      double& d = dqkv.as<double>()[v.at + i];
      if (!gains.empty()) gains.as<double>()[v.gain + i] += d * xhat;
      d = r * (d * gain_of(norm, v, i) - xhat * mean);
    }
  });
}

}  // namespace trireme
