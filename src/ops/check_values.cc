#include "base/error.h"
#include "ops/check.h"

namespace trireme {

void check_ids(std::string_view op, std::string_view what, ConstView ids, int64_t table_rows) {
  const auto values = ids.values<int32_t>();
  for (size_t row = 0; row < values.size(); ++row)
    require(values[row] >= 0 && values[row] < table_rows, ErrorKind::data,
            "{}: {} of row {} is {}, outside its table of {} rows", op, what, row, values[row], table_rows);
}

void check_offsets(std::string_view op, ConstView offsets, int64_t rows) {
  const auto o = offsets.values<int32_t>();
  require(o.front() == 0, ErrorKind::shape, "{}: offsets begin at {}, expected 0", op, o.front());
  for (size_t i = 1; i < o.size(); ++i)
    require(o[i] >= o[i - 1], ErrorKind::shape, "{}: offsets decrease from {} to {} at sequence {}", op, o[i - 1], o[i],
            i - 1);
  require(o.back() == rows, ErrorKind::shape, "{}: offsets end at {}, expected the number of rows, {}", op, o.back(),
          rows);
}

void check_positions(std::string_view op, const Dropout& dropout, ConstView offsets) {
  if (dropout.rate == 0) return;
  const auto o = offsets.values<int32_t>();
  const auto* position = dropout.position.as<int32_t>();
  for (size_t s = 0; s + 1 < o.size(); ++s)
    for (int32_t row = o[s] + 1; row < o[s + 1]; ++row)
      require(position[row] == position[row - 1] + 1, ErrorKind::shape,
              "{}: dropout position of row {} is {}, expected {}, one after the row before in sequence {}", op, row,
              position[row], position[row - 1] + 1, s);
}

void check_cache(ConstView offsets, ConstView past, int64_t capacity, int64_t window) {
  const auto o = offsets.values<int32_t>(), n = past.values<int32_t>();
  for (size_t s = 0; s < n.size(); ++s)
    require(n[s] >= 0 && (int64_t{n[s]} + o[s + 1] - o[s] <= capacity || (window > 0 && window <= capacity)),
            ErrorKind::shape,
            "attention_cached: sequence {} has {} cached and {} new positions, but its cache holds only {}", s, n[s],
            o[s + 1] - o[s], capacity);
}

}  // namespace trireme
