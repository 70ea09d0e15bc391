#pragma once
// How an operator's work is shared between the threads of a call. Parts are numbered and fixed by the thread count of
// the context, not by the threads that the runtime happens to give, so results keep their bits.

#include <algorithm>
#include <cstdint>

namespace trireme {

/// Half-open interval of rows or elements.
struct Range {
  int64_t begin = 0, end = 0;
};

/// Share `part` of [0, n) cut into `parts` nearly equal pieces whose borders are multiples of `unit`.
inline Range share_of(int64_t n, int part, int parts, int64_t unit = 1) {
  const int64_t units = (n + unit - 1) / unit;
  return {std::min(n, units * part / parts * unit), std::min(n, units * (part + 1) / parts * unit)};
}

/// f(part) for each part in [0, parts), one thread each. f does not throw.
template <class F>
void for_each_part(int parts, F&& f) {
  if (parts == 1) return f(0);
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int part = 0; part < parts; ++part) f(part);
}

/// first(part) for every part, then second(part) for every part, in one parallel region.
template <class First, class Second>
void for_each_part(int parts, First&& first, Second&& second) {
  if (parts == 1) {
    first(0);
    return second(0);
  }
#pragma omp parallel num_threads(parts)
  {
#pragma omp for schedule(static, 1)
    for (int part = 0; part < parts; ++part) first(part);
#pragma omp for schedule(static, 1)
    for (int part = 0; part < parts; ++part) second(part);
  }
}

}  // namespace trireme
