// Residual + dropout. Per element: read 1 or 2, write 1.

#include "cuda/cuda_ops.h"
#include "cuda/dropout.h"
#include "cuda/launch.h"

namespace trireme {
namespace {

using namespace gpu;

template <class T>
struct DropoutArguments {
  RowPacks packs;
  Global<const T> x, residual;
  Global<T> y;
  DropArguments drop;
  bool fast;
};

template <class T>
TRIREME_KERNEL drop_rows(DropoutArguments<T> a) {
  const auto [row, channel, valid] = a.packs.place();
  if (!valid) return;
  const int64_t first = row * a.packs.width + channel, end = (row + 1) * a.packs.width;
  Pack x = load_pack(a.x, first, end, a.fast);
  drop(a.drop, row, channel, x);
  if (!a.residual.empty()) add_pack(load_pack(a.residual, first, end, a.fast), x);
  store_pack(x, a.y, first, end, a.fast);
}

}  // namespace

void CudaOps::do_dropout_add(Context& context, ConstView x, ConstView residual, const Dropout& dropout, View y,
                             float factor) {
  if (dropout.rate == 0 && factor == 1 && residual.empty() && x.data() == y.data()) return;
  with_element(x.dtype(), [&](auto element) {
    using T = decltype(element);
    const RowPacks rows(x.rows(), x.shape()[1]);
    const DropoutArguments<T> arguments{rows,
                                        global<T>(x),
                                        global<T>(residual),
                                        global<T>(y),
                                        DropArguments(dropout, factor),
                                        packs(rows.width, {x, residual, y})};
    launch("dropout_add", gpu_stream(*context.stream), rows.grid(), RowPacks::kThreads, 0, drop_rows<T>, arguments);
  });
}

void CudaOps::do_dropout_backward(Context& context, ConstView dy, const Dropout& dropout, View dx, float factor) {
  do_dropout_add(context, dy, ConstView(), dropout, dx,
                 factor);  // the same map: a diagonal matrix is its own transpose
}

}  // namespace trireme
