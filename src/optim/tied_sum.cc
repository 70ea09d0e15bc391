#include "optim/tied_sum.h"

#include <algorithm>

#include "comm/heartbeat.h"
#include "exchange/message_group.h"

namespace trireme {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;  // elements per message
constexpr const char* kWhat = "the other stage's sum of the tied matrix";

}  // namespace

TiedSum::TiedSum(Communicator& pair, Ops& ops)
    : pair_(pair), ops_(ops), arena_(buffer_bytes(), ops.device()), piece_(arena_.take(DType::f32, {kPiece})) {
  const int other = 1 - pair.rank();
  if (ops.device().network()) group_ = make_stream_group(pair, ops, {.from = other, .to = other});
}

TiedSum::~TiedSum() {
  if (group_ && !group_->end()) static_cast<void>(new Arena(std::move(arena_)));
}

size_t TiedSum::buffer_bytes() { return static_cast<size_t>(kPiece) * sizeof(float); }

void TiedSum::add_other(Context& context, View own) {
  const int other = 1 - pair_.rank();
  const Waiting waiting(group_ ? nullptr : pair_.heartbeat(), kWhat, own.bytes());
  for (int64_t at = 0; at < own.count(); at += kPiece) {
    const View piece = own.rows_slice(at, std::min(kPiece, own.count() - at));
    const View theirs = piece_.rows_slice(0, piece.count());
    if (group_) {
      const Event before = context.stream->record();  // the earlier part has been added
      const Event arrival = group_->receive(theirs, other, before);
      group_->wait(both(arrival, group_->send(piece, other, before)), kWhat, piece.bytes());
    } else {
      context.stream->finish();
      Handle arrival = pair_.receive(theirs, other, 0), leaving = pair_.send(piece, other, 0);
      arrival.wait(kWhat);
      leaving.wait(kWhat);
    }
    ops_.add(context, theirs, piece);
  }
}

}  // namespace trireme
