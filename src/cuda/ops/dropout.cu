// Residual + dropout. Random words are made again in backward from the same counters, so no mask is stored. Bytes per
// element: read 1 or 2, write 1 element.

#include "base/rng.h"
#include "cuda/cuda_ops.h"
#include "cuda/launch.h"
#include "cuda/philox.h"

namespace trireme {
namespace {

using namespace gpu;

template <class T>
struct DropoutArguments {
  RowPacks packs;
  Global<const T> x, residual;
  Global<T> y;
  Global<const int64_t> sample;
  Global<const int32_t> position;
  uint64_t key;
  uint32_t threshold;
  float scale;
  bool fast;
};

template <class T>
TRIREME_KERNEL drop_rows(DropoutArguments<T> a) {
  const auto [row, channel, valid] = a.packs.place();
  if (!valid) return;
  const int64_t first = row * a.packs.width + channel, end = (row + 1) * a.packs.width;
  Pack x = load_pack(a.x, first, end, a.fast);
  if (a.threshold > 0) {
    const auto sample = static_cast<uint64_t>(a.sample[row]);
    const auto position = static_cast<uint32_t>(a.position[row]);
    TRIREME_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Words words = philox_words(a.key, static_cast<uint32_t>(channel / 4 + half), position,
                                       static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32));
      TRIREME_UNROLL
      for (int i = 0; i < 4; ++i) {
        float& v = x.v[4 * half + i];
        v = words.w[i] < a.threshold ? 0 : v * a.scale;
      }
    }
  } else if (a.scale != 1) {
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) x.v[i] *= a.scale;
  }
  if (!a.residual.empty()) {
    const Pack residual = load_pack(a.residual, first, end, a.fast);
    TRIREME_UNROLL
    for (int i = 0; i < kPack; ++i) x.v[i] += residual.v[i];
  }
  store_pack(x, a.y, first, end, a.fast);
}

}  // namespace

void CudaOps::do_dropout_add(Context& context, ConstView x, ConstView residual, const Dropout& dropout, View y,
                             float factor) {
  if (dropout.rate == 0 && factor == 1 && residual.empty() && x.data() == y.data()) return;
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const RowPacks rows(x.rows(), x.shape()[1]);
    const bool drops = dropout.rate > 0;
    const DropoutArguments<T> arguments{rows,
                                        global<T>(x),
                                        global<T>(residual),
                                        global<T>(y),
                                        global<int64_t>(drops ? dropout.sample : ConstView()),
                                        global<int32_t>(drops ? dropout.position : ConstView()),
                                        dropout.key,
                                        drop_threshold(dropout.rate),
                                        factor / (1.0f - dropout.rate),
                                        packs(rows.width, {x, residual, y})};
    launch("dropout_add", gpu_stream(*context.stream), rows.grid(), RowPacks::kThreads, 0, drop_rows<T>, arguments);
  });
}

void CudaOps::do_dropout_backward(Context& context, ConstView dy, const Dropout& dropout, View dx, float factor) {
  do_dropout_add(context, dy, ConstView(), dropout, dx,
                 factor);  // the same map: a diagonal matrix is its own transpose
}

}  // namespace trireme
