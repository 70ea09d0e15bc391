#include "tensor/pinned.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace trireme {

void PieceReader::read(ConstView x, ConstView y, const Take& take) {
  if (!x.device()) return take(0, x, y);
  assert(y.empty() || y.count() == x.count());
  const std::lock_guard lock(mutex_);
  if (!memory_) memory_ = std::make_unique<PinnedMemory>(4 * kPieceBytes, device_);
  const auto longest =
      static_cast<int64_t>(kPieceBytes / std::max(size_of(x.dtype()), y.empty() ? size_t{1} : size_of(y.dtype())));
  struct Piece {
    ConstView x, y;
    Event there;
  };
  std::array<Piece, 2> pieces;
  DeviceStream& stream = device_.stream();
  const auto copy = [&](ConstView from, int64_t first, size_t place) -> ConstView {
    if (from.empty()) return {};
    const ConstView part = from.rows_slice(first, std::min(longest, from.count() - first));
    const View to(memory_->data() + place * kPieceBytes, part.dtype(), part.shape());
    stream.copy_later(part, to);
    return to;
  };
  const auto begin = [&](int64_t first) {
    const auto number = static_cast<size_t>(first / longest % 2);
    const ConstView of_x = copy(x, first, 2 * number), of_y = copy(y, first, 2 * number + 1);
    pieces[number] = {of_x, of_y, stream.record()};
  };
  if (x.count() > 0) begin(0);
  for (int64_t first = 0; first < x.count(); first += longest) {
    if (first + longest < x.count()) begin(first + longest);
    const Piece& piece = pieces[static_cast<size_t>(first / longest % 2)];
    piece.there.wait();
    take(first, piece.x, piece.y);
  }
}

}  // namespace trireme
