#include "cuda/column_sums.h"

namespace trireme {
namespace {

using namespace gpu;

struct PartialsArguments {
  Global<const float> partials;
  Global<float> out;
  int64_t count, width;
  bool adds;
};

TRIREME_KERNEL sum_partials(PartialsArguments a) {
  const int64_t i = static_cast<int64_t>(block_x()) * threads() + thread();
  if (i >= a.width) return;
  float sum = 0;
  for (int64_t p = 0; p < a.count; ++p) sum += a.partials[p * a.width + i];
  a.out[i] = a.adds ? a.out[i] + sum : sum;
}

}  // namespace

void add_partials(Context& context, ConstView partials, View out, Write write) {
  const PartialsArguments arguments{global<float>(partials), global<float>(out), partials.rows(), out.count(),
                                    write != Write::overwrite};
  launch("sum_partials", gpu_stream(*context.stream), {ceil_divide(out.count(), 64), 1, 1}, 64, 0, sum_partials,
         arguments);
}

}  // namespace trireme
