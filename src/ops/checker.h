#pragma once
// The checks that public operators make of their arguments.

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "ops/ops.h"

namespace trireme {

inline constexpr int kMostHeads = 1 << 16;  // the capacity of dropout's counter

inline std::string describe(ConstView v) {
  return v.empty() ? std::string("empty") : fmt::format("{} {}", name_of(v.dtype()), v.shape().to_string());
}

/// The argument checks of one call: everything thrown names the operator.
class Checker {
 public:
  explicit Checker(std::string_view op) : op_(op) {}

  void dims(std::string_view what, ConstView v, int n) const {
    require(!v.empty() && v.shape().dims() == n, ErrorKind::shape, "{}: {} is {}, expected {} dims", op_, what,
            describe(v), n);
  }
  void is(std::string_view what, ConstView v, DType dtype, const Shape& shape) const {
    require(!v.empty() && v.dtype() == dtype && v.shape() == shape, ErrorKind::shape, "{}: {} is {}, expected {} {}",
            op_, what, describe(v), name_of(dtype), shape.to_string());
  }
  void is_or_empty(std::string_view what, ConstView v, DType dtype, const Shape& shape) const {
    if (!v.empty()) is(what, v, dtype, shape);
  }
  void activation(std::string_view what, ConstView v, bool taken, std::string_view backend) const {
    require(!v.empty() && taken, ErrorKind::shape, "{}: {} is {}, which is not an activation type of the {} backend",
            op_, what, describe(v), backend);
  }
  void statistic(std::string_view what, ConstView v, DType expected) const {
    require(!v.empty() && v.dtype() == expected, ErrorKind::shape, "{}: {} is {}, expected type {}", op_, what,
            describe(v), name_of(expected));
  }
  void same_count(std::string_view what, ConstView v, std::string_view other_name, ConstView other) const {
    require(!v.empty() && v.count() == other.count(), ErrorKind::shape,
            "{}: {} is {}, expected the same number of elements as {} ({})", op_, what, describe(v), other_name,
            describe(other));
  }
  void part_of_table(ConstView table, TableRows part) const {
    require(part.first >= 0 && part.first + table.shape()[0] <= part.of, ErrorKind::shape,
            "{}: rows {} to {} are outside a table of {} rows", op_, part.first, part.first + table.shape()[0],
            part.of);
  }
  void that(bool condition, std::string_view text) const { require(condition, ErrorKind::shape, "{}: {}", op_, text); }

  void dropout(const Dropout& d, int64_t rows) const {
    require(d.rate >= 0 && d.rate < 1, ErrorKind::shape, "{}: dropout rate is {}, expected 0 <= rate < 1", op_, d.rate);
    if (d.rate == 0) return;
    is("dropout sample", d.sample, DType::i64, {rows});
    is("dropout position", d.position, DType::i32, {rows});
  }
  void factor(float f) const { that(std::isfinite(f), fmt::format("factor is {}, expected a finite number", f)); }
  void qkv(std::string_view what, ConstView v, const AttentionShape& s, int64_t rows) const {
    is(what, v, v.dtype(), {rows, s.kv_heads, s.group + 2, s.head_dim});
  }
  void attention_shape(const AttentionShape& s, int64_t rows) const {
    require(s.kv_heads > 0 && s.group > 0 && s.head_dim > 0, ErrorKind::shape,
            "{}: {} kv heads with {} query heads each, of size {}, expected at least 1 of each", op_, s.kv_heads,
            s.group, s.head_dim);
    const int64_t end = s.first_head + int64_t{s.kv_heads} * s.group;
    require(s.first_head >= 0 && end <= kMostHeads, ErrorKind::shape,
            "{}: heads {} to {}, expected at most {}, the limit of dropout's counter", op_, s.first_head, end,
            kMostHeads);
    require(std::isfinite(s.scale) && s.scale > 0, ErrorKind::shape,
            "{}: scale is {}, expected a finite number above 0", op_, s.scale);
    const int64_t sequences = s.offsets.empty() ? 0 : s.offsets.rows() - 1;
    require(s.equal_length == 0 || s.equal_length * sequences == rows, ErrorKind::shape,
            "{}: equal_length is {}, expected 0 or the length of {} equal sequences with {} rows in total", op_,
            s.equal_length, sequences, rows);
    require(s.window >= 0, ErrorKind::shape, "{}: window is {}, expected at least 1 key, or 0 for all", op_, s.window);
    require(s.causal || s.window == 0, ErrorKind::shape,
            "{}: window is {}, expected 0 if queries also attend to later keys", op_, s.window);
    require(std::isfinite(s.soft_cap) && s.soft_cap >= 0, ErrorKind::shape,
            "{}: soft cap is {}, expected a finite number above 0, or 0 for none", op_, s.soft_cap);
    dims("offsets", s.offsets, 1);
    statistic("offsets", s.offsets, DType::i32);
    require(s.offsets.rows() >= 2 || rows == 0, ErrorKind::shape,
            "{}: offsets is {}, expected the number of sequences + 1 entries", op_, describe(s.offsets));
  }

 private:
  std::string_view op_;
};

/// Type of statistics and weight gradients that goes with an activation type.
inline DType statistic_of(DType activation) { return activation == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace trireme
