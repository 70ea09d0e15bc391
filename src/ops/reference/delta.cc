// Gates of attention and heads with a state, as the recurrence is written: one row after the other.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/reference/reference_ops.h"

namespace trireme {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double silu_slope(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }

void begin(View sums, Write write) {
  if (!sums.empty() && write == Write::overwrite) std::fill_n(sums.as<double>(), sums.count(), 0.0);
}

/// Calls move(vector of x, vector of qkv, vector of gates), each counted in its tensor; -1: of the other one.
template <class Move>
void for_each_vector(ConstView x, Move move) {
  const int64_t parts = x.shape()[2], group = (parts - 2) / 2;
  for (int64_t of = 0; of < x.rows() * x.shape()[1]; ++of)
    for (int64_t part = 0; part < parts; ++part) {
      const bool gate = part < 2 * group && part % 2 == 1;
      const int64_t in_qkv = part < 2 * group ? part / 2 : part - group;
      move(of * parts + part, gate ? -1 : of * (group + 2) + in_qkv, gate ? of * group + part / 2 : -1);
    }
}

/// x of a channel at a row, and where it is in y's row; rows of a sequence begin at `first`.
struct Channels {
  int64_t groups, channels, stride, taps;
  Channels(ConstView x, ConstView w, ConstView y)
      : groups(x.shape()[1]), channels(y.shape()[2]), stride(x.shape()[2]), taps(w.shape()[2]) {}
  int64_t all() const { return groups * channels; }
  int64_t x_at(int64_t row, int64_t c) const { return (row * groups + c / channels) * stride + c % channels; }
  int64_t y_at(int64_t row, int64_t c) const { return row * all() + c; }
};

/// sum_k w_k x(t - taps + 1 + k), where value(row) of a row before the sequence gives what is kept.
template <class Value>
double convolved(const double* w, int64_t taps, int64_t row, Value value) {
  double sum = 0;
  for (int64_t k = 0; k < taps; ++k) sum += w[k] * value(row - taps + 1 + k);
  return sum;
}

/// One value head of one sequence, with its queries and keys normalised.
struct DeltaHead {
  int64_t key_size, value_size, length;
  std::vector<double> q, k, q_scale, k_scale, v, beta, g, slope;  ///< slope: of g by the decay
  DeltaHead(ConstView mixed, ConstView projected, ConstView decay_log, ConstView decay_bias, const DeltaShape& s,
            int64_t head, int64_t begin, int64_t end)
      : key_size(s.key_size), value_size(s.value_size), length(end - begin) {
    const int64_t group = head / s.group, member = head % s.group;
    const double a = -std::exp(decay_log.as<double>()[head]), bias = decay_bias.as<double>()[head];
    for (int64_t row = begin; row < end; ++row) {
      const double* m = mixed.as<double>() + (row * s.key_heads + group) * s.mixed_width();
      const double* p = projected.as<double>() + (row * s.key_heads + group) * s.width();
      const auto scale_of = [&](const double* x) {
        double squares = 1e-6;
        for (int64_t i = 0; i < key_size; ++i) squares += x[i] * x[i];
        return 1 / std::sqrt(squares);
      };
      q_scale.push_back(scale_of(m));
      k_scale.push_back(scale_of(m + key_size));
      const double root = 1 / std::sqrt(static_cast<double>(key_size));
      for (int64_t i = 0; i < key_size; ++i) {
        q.push_back(m[i] * q_scale.back() * root);
        k.push_back(m[key_size + i] * k_scale.back());
      }
      v.insert(v.end(), m + 2 * key_size + member * value_size, m + 2 * key_size + (member + 1) * value_size);
      const double* logits = p + s.width() - 2 * s.group;
      const double x = logits[s.group + member] + bias;
      beta.push_back(sigmoid(logits[member]));
      g.push_back(a * (std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)))));
      slope.push_back(a * sigmoid(x));
    }
  }
  /// S = e^g S, in place.
  void decay(std::vector<double>& state, int64_t t) const {
    for (double& value : state) value *= std::exp(g[static_cast<size_t>(t)]);
  }
  /// v - S^T k of a decayed state.
  std::vector<double> error(const std::vector<double>& state, int64_t t) const {
    std::vector<double> e(v.begin() + t * value_size, v.begin() + (t + 1) * value_size);
    for (int64_t i = 0; i < key_size; ++i)
      for (int64_t j = 0; j < value_size; ++j) e[static_cast<size_t>(j)] -= at(state, i, j) * key(t, i);
    return e;
  }
  void update(std::vector<double>& state, const std::vector<double>& e, int64_t t) const {
    for (int64_t i = 0; i < key_size; ++i)
      for (int64_t j = 0; j < value_size; ++j)
        state[static_cast<size_t>(i * value_size + j)] +=
            key(t, i) * beta[static_cast<size_t>(t)] * e[static_cast<size_t>(j)];
  }
  double key(int64_t t, int64_t i) const { return k[static_cast<size_t>(t * key_size + i)]; }
  double query(int64_t t, int64_t i) const { return q[static_cast<size_t>(t * key_size + i)]; }
  double at(const std::vector<double>& state, int64_t i, int64_t j) const {
    return state[static_cast<size_t>(i * value_size + j)];
  }
  std::vector<double> empty_state() const { return std::vector<double>(static_cast<size_t>(key_size * value_size)); }
};

/// The rule over a head's rows from a state on; before(t, state) is called before each row.
template <class Before>
void run(const DeltaHead& head, std::vector<double>& state, double* out, int64_t out_stride, Before before) {
  for (int64_t t = 0; t < head.length; ++t) {
    before(t, state);
    head.decay(state, t);
    head.update(state, head.error(state, t), t);
    for (int64_t j = 0; j < head.value_size; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < head.key_size; ++i) sum += head.at(state, i, j) * head.query(t, i);
      out[t * out_stride + j] = sum;
    }
  }
}

/// dx += the gradient through x scale, scale = 1 / sqrt(|x|^2 + 1e-6), of `d` by x scale times `root`.
void add_through_length(const double* x, const double* d, int64_t size, double scale, double root, double* dx) {
  double product = 0;
  for (int64_t i = 0; i < size; ++i) product += d[i] * x[i];
  for (int64_t i = 0; i < size; ++i) dx[i] += root * (scale * d[i] - scale * scale * scale * product * x[i]);
}

/// What a row's backward gives beside the state's gradient.
struct DeltaRow {
  std::vector<double> dq, dk, dv;
  double dbeta = 0, dg = 0;
};

/// dstate: of the state after the row in, before it out.  before: the state before the row.
DeltaRow row_backward(const DeltaHead& head, int64_t t, std::vector<double> before, const double* dout,
                      std::vector<double>& dstate) {
  const auto n = static_cast<size_t>(head.key_size), m = static_cast<size_t>(head.value_size);
  DeltaRow row{std::vector<double>(n), std::vector<double>(n), std::vector<double>(m)};
  head.decay(before, t);
  const std::vector<double> e = head.error(before, t);
  std::vector<double> after = before, du(m);
  head.update(after, e, t);
  const double beta = head.beta[static_cast<size_t>(t)];
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) {
      row.dq[i] += after[i * m + j] * dout[j];
      dstate[i * m + j] += head.query(t, static_cast<int64_t>(i)) * dout[j];
    }
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) {
      du[j] += dstate[i * m + j] * head.key(t, static_cast<int64_t>(i));
      row.dk[i] += dstate[i * m + j] * beta * e[j];
    }
  for (size_t j = 0; j < m; ++j) {
    row.dbeta += du[j] * e[j];
    row.dv[j] = beta * du[j];
  }
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) {
      dstate[i * m + j] -= head.key(t, static_cast<int64_t>(i)) * row.dv[j];
      row.dk[i] -= before[i * m + j] * row.dv[j];
      row.dg += dstate[i * m + j] * before[i * m + j];
    }
  head.decay(dstate, t);
  return row;
}

/// Of a head of a row: gain and rstd x, and the gate.
struct NormedHead {
  int64_t size, at, gate;
  double rstd;
  NormedHead(ConstView x, ConstView gates, int64_t column, float eps, int64_t row, int64_t head)
      : size(x.shape()[2]), at((row * x.shape()[1] + head) * size) {
    const int64_t groups = gates.shape()[1], group = x.shape()[1] / groups;
    gate = (row * groups + head / group) * gates.shape()[2] + column + head % group * size;
    double squares = 0;
    for (int64_t i = 0; i < size; ++i) squares += x.as<double>()[at + i] * x.as<double>()[at + i];
    rstd = 1 / std::sqrt(squares / static_cast<double>(size) + static_cast<double>(eps));
  }
};

}  // namespace

void ReferenceOps::do_split_gates(Context&, ConstView x, View qkv, View gates) {
  const int64_t dim = x.shape()[3];
  for_each_vector(x, [&](int64_t of, int64_t in_qkv, int64_t in_gates) {
    double* to = in_gates < 0 ? qkv.as<double>() + in_qkv * dim : gates.as<double>() + in_gates * dim;
    std::copy_n(x.as<double>() + of * dim, dim, to);
  });
}

void ReferenceOps::do_join_gates(Context&, ConstView qkv, ConstView gates, View x) {
  const int64_t dim = x.shape()[3];
  for_each_vector(x, [&](int64_t of, int64_t in_qkv, int64_t in_gates) {
    const double* from = in_gates < 0 ? qkv.as<double>() + in_qkv * dim : gates.as<double>() + in_gates * dim;
    std::copy_n(from, dim, x.as<double>() + of * dim);
  });
}

void ReferenceOps::do_sigmoid_gate(Context&, ConstView x, ConstView gates, View y) {
  for (int64_t i = 0; i < x.count(); ++i) y.as<double>()[i] = x.as<double>()[i] * sigmoid(gates.as<double>()[i]);
}

void ReferenceOps::do_sigmoid_gate_backward(Context&, ConstView dy, ConstView x, ConstView gates, View dx,
                                            View dgates) {
  for (int64_t i = 0; i < x.count(); ++i) {
    const double s = sigmoid(gates.as<double>()[i]), d = dy.as<double>()[i];
    dgates.as<double>()[i] = d * x.as<double>()[i] * s * (1 - s);
    dx.as<double>()[i] = d * s;
  }
}

void ReferenceOps::do_short_convolution(Context&, ConstView x, ConstView w, ConstView offsets, bool with_silu, View y) {
  const Channels at(x, w, y);
  const auto offset = offsets.values<int32_t>();
  for (size_t s = 0; s + 1 < offset.size(); ++s)
    for (int64_t row = offset[s]; row < offset[s + 1]; ++row)
      for (int64_t c = 0; c < at.all(); ++c) {
        const double sum = convolved(w.as<double>() + c * at.taps, at.taps, row,
                                     [&](int64_t r) { return r < offset[s] ? 0 : x.as<double>()[at.x_at(r, c)]; });
        y.as<double>()[at.y_at(row, c)] = with_silu ? silu(sum) : sum;
      }
}

void ReferenceOps::do_short_convolution_backward(Context&, ConstView dy, ConstView x, ConstView w, ConstView offsets,
                                                 bool with_silu, View dx, View dw, Write write) {
  const Channels at(x, w, dy);
  const auto offset = offsets.values<int32_t>();
  begin(dw, write);
  for (size_t s = 0; s + 1 < offset.size(); ++s)
    for (int64_t c = 0; c < at.all(); ++c) {
      const double* taps = w.as<double>() + c * at.taps;
      for (int64_t row = offset[s]; row < offset[s + 1]; ++row) dx.as<double>()[at.x_at(row, c)] = 0;
      for (int64_t row = offset[s]; row < offset[s + 1]; ++row) {
        const auto value = [&](int64_t r) { return r < offset[s] ? 0 : x.as<double>()[at.x_at(r, c)]; };
        double d = dy.as<double>()[at.y_at(row, c)];
        if (with_silu) d *= silu_slope(convolved(taps, at.taps, row, value));
        for (int64_t k = 0; k < at.taps; ++k) {
          const int64_t r = row - at.taps + 1 + k;
          if (r < offset[s]) continue;
          dx.as<double>()[at.x_at(r, c)] += taps[k] * d;
          if (!dw.empty()) dw.as<double>()[c * at.taps + k] += d * value(r);
        }
      }
    }
}

void ReferenceOps::do_short_convolution_cached(Context&, ConstView x, ConstView w, ConstView offsets, bool with_silu,
                                               ConstView past, View window, View y) {
  const Channels at(x, w, y);
  const auto offset = offsets.values<int32_t>();
  for (size_t s = 0; s + 1 < offset.size(); ++s)
    for (int64_t c = 0; c < at.all(); ++c) {
      const int64_t kept = at.taps - 1;
      double* own = window.as<double>() + static_cast<int64_t>(s) * kept * at.all() + c;
      const bool starts = past.as<int32_t>()[s] == 0;
      const auto value = [&](int64_t r) {
        if (r >= offset[s]) return x.as<double>()[at.x_at(r, c)];
        return starts ? 0 : own[(r - offset[s] + kept) * at.all()];
      };
      for (int64_t row = offset[s]; row < offset[s + 1]; ++row) {
        const double sum = convolved(w.as<double>() + c * at.taps, at.taps, row, value);
        y.as<double>()[at.y_at(row, c)] = with_silu ? silu(sum) : sum;
      }
      std::vector<double> last;
      for (int64_t i = 0; i < kept; ++i) last.push_back(value(offset[s + 1] - kept + i));
      for (int64_t i = 0; i < kept; ++i) own[i * at.all()] = last[static_cast<size_t>(i)];
    }
}

void ReferenceOps::do_delta_rule(Context&, ConstView mixed, ConstView projected, ConstView decay_log,
                                 ConstView decay_bias, const DeltaShape& shape, View out, View states) {
  const auto offset = shape.offsets.values<int32_t>();
  const int64_t row_width = int64_t{shape.heads()} * shape.value_size, state_size = shape.key_size * shape.value_size;
  for (int64_t h = 0; h < shape.heads(); ++h) {
    int64_t border = 0;
    for (size_t s = 0; s + 1 < offset.size(); ++s) {
      const DeltaHead head(mixed, projected, decay_log, decay_bias, shape, h, offset[s], offset[s + 1]);
      std::vector<double> state = head.empty_state();
      run(head, state, out.as<double>() + offset[s] * row_width + h * shape.value_size, row_width,
          [&](int64_t t, const std::vector<double>& before) {
            if (states.empty() || t == 0 || t % kDeltaChunk != 0) return;
            std::ranges::copy(before, states.as<double>() + (border++ * shape.heads() + h) * state_size);
          });
    }
  }
}

void ReferenceOps::do_delta_rule_backward(Context&, ConstView dout, ConstView mixed, ConstView projected,
                                          ConstView decay_log, ConstView decay_bias, const DeltaShape& shape, ConstView,
                                          View dmixed, View dprojected, View ddecay_log, View ddecay_bias,
                                          Write write) {
  const auto offset = shape.offsets.values<int32_t>();
  const int64_t n = shape.key_size, m = shape.value_size, row_width = shape.heads() * m;
  begin(ddecay_log, write);
  begin(ddecay_bias, write);
  std::fill_n(dmixed.as<double>(), dmixed.count(), 0.0);
  for (int64_t h = 0; h < shape.heads(); ++h)
    for (size_t s = 0; s + 1 < offset.size(); ++s) {
      const DeltaHead head(mixed, projected, decay_log, decay_bias, shape, h, offset[s], offset[s + 1]);
      std::vector<double> state = head.empty_state(), dstate = state, unused(static_cast<size_t>(head.length * m));
      std::vector<std::vector<double>> before;
      run(head, state, unused.data(), m, [&](int64_t, const std::vector<double>& now) { before.push_back(now); });
      for (int64_t t = head.length - 1; t >= 0; --t) {
        const int64_t row = offset[s] + t, group = row * shape.key_heads + h / shape.group, member = h % shape.group;
        const DeltaRow d =
            row_backward(head, t, before[static_cast<size_t>(t)], dout.as<double>() + row * row_width + h * m, dstate);
        const double* x = mixed.as<double>() + group * shape.mixed_width();
        double* dx = dmixed.as<double>() + group * shape.mixed_width();
        const auto i = static_cast<size_t>(t);
        add_through_length(x, d.dq.data(), n, head.q_scale[i], 1 / std::sqrt(static_cast<double>(n)), dx);
        add_through_length(x + n, d.dk.data(), n, head.k_scale[i], 1, dx + n);
        std::ranges::copy(d.dv, dx + 2 * n + member * m);
        double* logits = dprojected.as<double>() + (group + 1) * shape.width() - 2 * shape.group;
        logits[member] = d.dbeta * head.beta[i] * (1 - head.beta[i]);
        logits[shape.group + member] = d.dg * head.slope[i];
        if (!ddecay_log.empty()) ddecay_log.as<double>()[h] += d.dg * head.g[i];
        if (!ddecay_bias.empty()) ddecay_bias.as<double>()[h] += d.dg * head.slope[i];
      }
    }
}

void ReferenceOps::do_delta_rule_cached(Context&, ConstView mixed, ConstView projected, ConstView decay_log,
                                        ConstView decay_bias, const DeltaShape& shape, ConstView past, View state,
                                        View out) {
  const auto offset = shape.offsets.values<int32_t>();
  const int64_t row_width = int64_t{shape.heads()} * shape.value_size, state_size = shape.key_size * shape.value_size;
  for (int64_t h = 0; h < shape.heads(); ++h)
    for (size_t s = 0; s + 1 < offset.size(); ++s) {
      const DeltaHead head(mixed, projected, decay_log, decay_bias, shape, h, offset[s], offset[s + 1]);
      double* own = state.as<double>() + (static_cast<int64_t>(s) * shape.heads() + h) * state_size;
      std::vector<double> now = head.empty_state();
      if (past.as<int32_t>()[s] > 0) std::copy_n(own, state_size, now.begin());
      run(head, now, out.as<double>() + offset[s] * row_width + h * shape.value_size, row_width,
          [](int64_t, const std::vector<double>&) {});
      std::ranges::copy(now, own);
    }
}

void ReferenceOps::do_gated_norm(Context&, ConstView x, ConstView gates, int64_t column, ConstView w, float eps,
                                 View y) {
  for (int64_t row = 0; row < x.rows(); ++row)
    for (int64_t head = 0; head < x.shape()[1]; ++head) {
      const NormedHead h(x, gates, column, eps, row, head);
      for (int64_t i = 0; i < h.size; ++i)
        y.as<double>()[h.at + i] =
            w.as<double>()[i] * x.as<double>()[h.at + i] * h.rstd * silu(gates.as<double>()[h.gate + i]);
    }
}

void ReferenceOps::do_gated_norm_backward(Context&, ConstView dy, ConstView x, ConstView gates, int64_t column,
                                          ConstView w, float eps, View dx, View dgates, View dw, Write write) {
  begin(dw, write);
  for (int64_t row = 0; row < x.rows(); ++row)
    for (int64_t head = 0; head < x.shape()[1]; ++head) {
      const NormedHead h(x, gates, column, eps, row, head);
      const auto value = [&](ConstView v, int64_t i) { return v.as<double>()[h.at + i]; };
      const auto gate = [&](int64_t i) { return gates.as<double>()[h.gate + i]; };
      double mean = 0;  // of the gradient by x rstd, times x rstd
      for (int64_t i = 0; i < h.size; ++i)
        mean += value(dy, i) * w.as<double>()[i] * silu(gate(i)) * value(x, i) * h.rstd / static_cast<double>(h.size);
      for (int64_t i = 0; i < h.size; ++i) {
        const double d = value(dy, i), gain = w.as<double>()[i], xhat = value(x, i) * h.rstd;
        if (!dw.empty()) dw.as<double>()[i] += d * xhat * silu(gate(i));
        dgates.as<double>()[h.gate + i] = d * gain * xhat * silu_slope(gate(i));
        dx.as<double>()[h.at + i] = h.rstd * (d * gain * silu(gate(i)) - xhat * mean);
      }
    }
}

}  // namespace trireme
