#include "optim/reducer.h"

#include <algorithm>
#include <array>
#include <vector>

#include "comm/heartbeat.h"
#include "exchange/message_group.h"
#include "optim/reduction_plan.h"

namespace trireme {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;  // elements of the buffer, half of them per piece
// Messages that need no permission from the receiver, which would wait behind all data on a slow link: with messages
// of a piece, 25 MB each way over 100 Mbit/s took 4.2 s instead of 2.1.
constexpr auto kMessage = static_cast<int64_t>(kNetworkChunkBytes / sizeof(float));
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
  if (group_) return add_on_device(context, own);
  const Waiting waiting(pair_.heartbeat(), kWhat, own.bytes());
  const int other = 1 - pair_.rank();
  // One piece travels while the one before is added.
  struct Piece {
    View own, theirs;
    std::vector<Handle> arrivals, departures;
  };
  std::array<Piece, 2> pieces;
  const auto begin = [&](int64_t at, int64_t half) {
    Piece& piece = pieces[static_cast<size_t>(half)];
    piece.own = own.rows_slice(at, std::min(kPiece / 2, own.count() - at));
    piece.theirs = piece_.rows_slice(half * (kPiece / 2), piece.own.count());
    for (int64_t first = 0; first < piece.own.count(); first += kMessage) {
      const int64_t length = std::min(kMessage, piece.own.count() - first);
      piece.arrivals.push_back(pair_.receive(piece.theirs.rows_slice(first, length), other, 0));
      piece.departures.push_back(pair_.send(piece.own.rows_slice(first, length), other, 0));
    }
  };
  const auto end = [&](int64_t half) {
    Piece& piece = pieces[static_cast<size_t>(half)];
    for (std::vector<Handle>* handles : {&piece.arrivals, &piece.departures}) {
      for (Handle& handle : *handles) handle.wait(kWhat);
      handles->clear();
    }
    if (piece.own.count() > 0) ops_.add(context, piece.theirs, piece.own);
    context.stream->finish();  // the buffer is free
    piece.own = {};
  };
  context.stream->finish();
  int64_t half = 0;
  for (int64_t at = 0; at < own.count(); at += kPiece / 2) {
    begin(at, half);
    half = 1 - half;
    if (at > 0) end(half);
  }
  if (own.count() > 0) end(1 - half);
}

void TiedSum::add_on_device(Context& context, View own) {
  const int other = 1 - pair_.rank();
  for (int64_t at = 0; at < own.count(); at += kPiece) {
    const View piece = own.rows_slice(at, std::min(kPiece, own.count() - at));
    const View theirs = piece_.rows_slice(0, piece.count());
    const Event before = context.stream->record();  // the earlier part has been added
    const Event arrival = group_->receive(theirs, other, before);
    group_->wait(both(arrival, group_->send(piece, other, before)), kWhat, piece.bytes());
    ops_.add(context, theirs, piece);
  }
}

}  // namespace trireme
