#include "ops/checker.h"
#include "ops/element_sum.h"
#include "ops/profile.h"

namespace trireme {

// ---- parameters

void Ops::sum_parts(Context& context, ConstView parts, View y) {
  const Checker check("sum_parts");
  const DType statistic = takes(DType::f64) ? DType::f64 : DType::f32;
  check.dims("parts", parts, 2);
  check.activation("parts", parts, takes(parts.dtype()) || parts.dtype() == statistic, name());
  check.that(parts.rows() > 0, "parts are empty");
  check.that(y.dtype() == parts.dtype() && y.count() == parts.shape()[1],
             fmt::format("y is {}, parts are {}", describe(y), describe(parts)));
  do_sum_parts(context, parts, y);
}

void Ops::add(Context& context, ConstView x, View y) {
  const Checker check("add");
  const DType statistic = takes(DType::f64) ? DType::f64 : DType::f32;
  check.statistic("x", x, statistic);
  check.statistic("y", y, statistic);
  check.same_count("y", y, "x", x);
  const OpTimer timer(recorder_, "add", {x, y, y});
  do_add(context, x, y);
}

void Ops::cast(Context& context, ConstView x, View y) {
  const Checker check("cast");
  check.activation("x", x, takes(x.dtype()), name());
  check.activation("y", y, takes(y.dtype()), name());
  check.same_count("y", y, "x", x);
  const OpTimer timer(recorder_, "cast", {x, y});
  do_cast(context, x, y);
}

void Ops::zero(Context& context, View x) {
  const Checker check("zero");
  check.that(!x.empty(), "x is empty, expected a tensor");
  const OpTimer timer(recorder_, "zero", {x});
  do_zero(context, x);
}

namespace {

/// small: the matrix that is some rows and columns of `large`.
void check_part(const Checker& check, ConstView small, const RowPattern& pattern, int64_t column, ConstView large) {
  const int64_t rows = large.shape()[0], width = small.shape()[1];
  check.that(pattern.count > 0 && pattern.first >= 0 && pattern.first + pattern.count <= pattern.stride &&
                 rows % pattern.stride == 0,
             fmt::format("rows {} to {} of each {} do not fit a matrix of {} rows", pattern.first,
                         pattern.first + pattern.count, pattern.stride, rows));
  check.that(small.rows() == pattern.share(rows) && column >= 0 && column + width <= large.shape()[1],
             fmt::format("{} at column {} does not fit {} of each {} rows of {}", describe(small), column,
                         pattern.count, pattern.stride, describe(large)));
}

}  // namespace

void Ops::place_rows(Context& context, ConstView x, const RowPattern& pattern, int64_t column, float factor, View y) {
  const Checker check("place_rows");
  check.dims("x", x, 2);
  check.activation("x", x, takes(x.dtype()), name());
  check.dims("y", y, 2);
  check.is("y", y, x.dtype(), y.shape());
  check_part(check, x, pattern, column, y);
  check.factor(factor);
  const OpTimer timer(recorder_, "place_rows", {x, x});
  do_place_rows(context, x, pattern, column, factor, y);
}

void Ops::take_rows(Context& context, ConstView x, const RowPattern& pattern, int64_t column, float factor, View y,
                    Write write) {
  const Checker check("take_rows");
  const DType statistic = takes(DType::f64) ? DType::f64 : DType::f32;
  check.dims("x", x, 2);
  check.statistic("x", x, statistic);
  check.dims("y", y, 2);
  check.statistic("y", y, statistic);
  check_part(check, y, pattern, column, x);
  check.factor(factor);
  const OpTimer timer(recorder_, "take_rows", {y, y});
  do_take_rows(context, x, pattern, column, factor, y, write);
}

void Ops::squared_norms(Context& context, ConstView x, View values) {
  const Checker check("squared_norms");
  check.statistic("x", x, takes(DType::f64) ? DType::f64 : DType::f32);
  check.is("values", values, DType::f64, {(x.count() + kNormChunk - 1) / kNormChunk});
  const OpTimer timer(recorder_, "squared_norms", {x});
  do_squared_norms(context, x, values);
}

void Ops::element_sums(Context& context, ConstView x, ConstView low, const ElementPlaces& places, View sums) {
  const Checker check("element_sums");
  check.dims("x", x, 1);
  const bool half = x.dtype() == DType::bf16 || x.dtype() == DType::f16;
  check.that(half || x.dtype() == DType::f32, fmt::format("x is {}, expected f32, bf16 or f16", describe(x)));
  if (!low.empty()) {
    check.that(x.dtype() == DType::bf16, fmt::format("x is {}, expected bf16 beside remainders", describe(x)));
    check.is("low", low, DType::i16, x.shape());
  }
  check.that(places.count() == x.count(),
             fmt::format("x is {}, expected {} elements, those of the places", describe(x), places.count()));
  check.is("sums", sums, DType::i64, {(x.count() + kNormChunk - 1) / kNormChunk});
  const OpTimer timer(recorder_, "element_sums", {x, low});
  do_element_sums(context, x, low, places, sums);
}

void Ops::adamw(Context& context, const AdamW& options, ConstView grad, View m, View v, View weights, View remainder) {
  const Checker check("adamw");
  const DType statistic = takes(DType::f64) ? DType::f64 : DType::f32;
  check.dims("grad", grad, 1);
  const Shape shape = grad.shape();
  check.is("grad", grad, statistic, shape);
  check.is("m", m, statistic, shape);
  check.is("v", v, statistic, shape);
  if (!remainder.empty()) {
    const DType type = weights.dtype() == DType::f16 ? DType::f16 : DType::bf16;
    check.that(takes(type), fmt::format("remainder is given, but this backend has no {} weights", name_of(type)));
    check.is("weights", weights, type, shape);
    check.is("remainder", remainder, type == DType::f16 ? DType::f32 : DType::i16, shape);
  } else {
    check.is("weights", weights, statistic, shape);
  }
  const OpTimer timer(recorder_, "adamw", {grad, m, m, v, v, weights, weights, remainder, remainder});
  do_adamw(context, options, grad, m, v, weights, remainder);
}

// ---- exchange of gradients

namespace {

bool travels(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

void check_map(const Checker& check, ConstView x, ConstView map) {
  check.dims("x", x, 2);
  check.statistic("x", x, DType::f32);
  check.is("map", map, DType::i64, {(x.rows() + 63) / 64});
}

}  // namespace

void Ops::wire_cast(Context& context, ConstView x, View y) {
  const Checker check("wire_cast");
  check.that(travels(x.dtype()) && travels(y.dtype()),
             fmt::format("x is {}, y is {}, expected f32 or bf16", describe(x), describe(y)));
  check.same_count("y", y, "x", x);
  do_wire_cast(context, x, y);
}

void Ops::sum_contributions(Context& context, std::span<const ConstView> parts, View own, View sum) {
  const Checker check("sum_contributions");
  check.that(!parts.empty(), "parts are empty");
  check.that(travels(sum.dtype()), fmt::format("sum is {}, expected f32 or bf16", describe(sum)));
  check.is("own", own, DType::f32, sum.shape());
  for (const ConstView& part : parts) check.is_or_empty("a part", part, sum.dtype(), sum.shape());
  do_sum_contributions(context, parts, own, sum);
}

void Ops::mark_rows(Context& context, ConstView x, View map) {
  check_map(Checker("mark_rows"), x, map);
  do_mark_rows(context, x, map);
}

void Ops::pack_rows(Context& context, View x, ConstView map) {
  check_map(Checker("pack_rows"), x, map);
  do_pack_rows(context, x, map);
}

void Ops::unpack_rows(Context& context, View x, ConstView map) {
  check_map(Checker("unpack_rows"), x, map);
  do_unpack_rows(context, x, map);
}

}  // namespace trireme
