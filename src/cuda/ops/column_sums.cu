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
  const int64_t i = lane_column();
  const float sum = sum_in_lanes(i < a.width ? a.count : 0, [&](int64_t p) { return a.partials[p * a.width + i]; });
  if (i < a.width && thread() < kWarp) a.out[i] = a.adds ? a.out[i] + sum : sum;
}

}  // namespace

void add_partials(Context& context, ConstView partials, View out, Write write) {
  const PartialsArguments arguments{global<float>(partials), global<float>(out), partials.rows(), out.count(),
                                    write != Write::overwrite};
  launch_lanes("sum_partials", context, out.count(), sum_partials, arguments);
}

}  // namespace trireme
