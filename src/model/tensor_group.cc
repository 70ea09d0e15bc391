#include "model/tensor_group.h"

#include <algorithm>
#include <utility>

#include "exchange/message_group.h"
#include "model/memory.h"

namespace trireme {
namespace {

constexpr int64_t kGradients = int64_t{1} << 18;  // that are summed together: small ones are packed
constexpr const char* kSumOfALayer = "a layer's sum over the tensor ranks";
// A layer often waits for its sum: polling is worth more than the core.
constexpr ProgressThread::Pace kPace{.patience = std::chrono::microseconds(200),
                                     .awaited = std::chrono::microseconds(200)};

int64_t longest_part(int64_t elements, int ranks) { return (elements + ranks - 1) / ranks; }

View flat(View x) { return x.reshape({x.count()}); }

GroupOptions group_options(int ranks, const TensorGroup::Sizes& sizes, std::vector<int> cpus) {
  const int64_t rows = longest_part(sizes.sequence_rows, ranks) * sizes.width;
  const int64_t gradients = sizes.sequence_rows > 0 ? longest_part(kGradients, ranks) : 0;
  return {.sums = {{sizes.dtype, std::max(longest_part(sizes.elements, ranks), rows)},
                   {stat_type(sizes.dtype), std::max(longest_part(sizes.statistics, ranks), gradients)}},
          .cpus = std::move(cpus),
          .pace = kPace};
}

}  // namespace

TensorGroup::Buffers::Buffers(Arena& arena, int ranks, const Sizes& sizes)
    : statistics(arena.take(stat_type(sizes.dtype), {ranks * std::max(int64_t{1}, 3 * sizes.rows)})) {
  if (sizes.sequence_rows == 0) return;
  for (View* all : {&gathered, &contribution}) *all = arena.take(sizes.dtype, {sizes.sequence_rows * sizes.width});
  gradients = arena.take(stat_type(sizes.dtype), {kGradients});
}

TensorGroup::TensorGroup(Communicator& axis, Ops& ops, const Sizes& sizes, std::vector<int> cpus)
    : ops_(ops),
      sequence_parallel_(sizes.sequence_rows > 0),
      arena_(
          [&] {
            Arena measure;
            (void)Buffers(measure, axis.size(), sizes);
            return measure.peak();
          }(),
          ops.device()),
      buffers_(arena_, axis.size(), sizes),
      group_(make_stream_group(axis, ops, group_options(axis.size(), sizes, std::move(cpus)))) {}

TensorGroup::~TensorGroup() {
  // After a failure MPI may still write into buffers that it was given: they stay until the process ends.
  if (!group_->end()) static_cast<void>(new Arena(std::move(arena_)));
}

size_t TensorGroup::bytes_for(int ranks, const Sizes& sizes) {
  Arena measure;
  (void)Buffers(measure, ranks, sizes);
  return measure.peak() + group_bytes(ranks, group_options(ranks, sizes, {}));
}

RowShare TensorGroup::share_of(int64_t rows) const { return sequence_parallel() ? own_share(rows) : RowShare{0, rows}; }

View TensorGroup::gathered(int64_t rows, int64_t width) const { return buffers_.gathered.first_as({rows, width}); }

View TensorGroup::contribution(int64_t rows, int64_t width) const {
  return buffers_.contribution.first_as({rows, width});
}

std::vector<ElementRange> TensorGroup::rows_of_all(View all) const {
  std::vector<ElementRange> pieces;
  for (int member = 0; member < size(); ++member) {
    const RowShare share = row_share(all.rows(), member, size());
    pieces.push_back({share.first * all.width(), (share.first + share.count) * all.width()});
  }
  return pieces;
}

void TensorGroup::begin(Event result, uint64_t bytes, const char* what) {
  result_ = std::move(result);
  bytes_ = bytes;
  what_ = what;
}

void TensorGroup::finish() { group_->wait(std::exchange(result_, {}), what_, bytes_); }

void TensorGroup::start_sum(Context& context, View x) {
  if (x.count() == 0) return;
  begin(group_->sum(flat(x), equal_pieces(x.count(), size()), {x.dtype()}, context.stream->record()), x.bytes(),
        kSumOfALayer);
}

void TensorGroup::start_gather(Context& context, ConstView own, View all) {
  const RowShare share = own_share(all.rows());
  if (own.rows() > 0) ops_.cast(context, own, all.rows_slice(share.first, share.count));
  begin(group_->gather(flat(all), rows_of_all(all), all.dtype(), context.stream->record()), all.bytes(),
        "rows of the tensor ranks");
}

void TensorGroup::start_scatter_sum(Context& context, View all, View own) {
  begin(group_->scatter_sum(flat(all), rows_of_all(all), flat(own), {all.dtype()}, context.stream->record()),
        all.bytes(), kSumOfALayer);
}

void TensorGroup::sum_statistics(Context& context, View x) { sum(context, x); }

void TensorGroup::sum_gradients(Context& context, std::span<const View> gradients) {
  const View packed = buffers_.gradients;
  packed_.clear();
  int64_t filled = 0;
  const auto flush = [&] {
    sum(context, packed.rows_slice(0, filled));
    int64_t at = 0;
    for (const View& piece : packed_) {
      ops_.cast(context, packed.rows_slice(at, piece.count()), piece);
      at += piece.count();
    }
    packed_.clear();
    filled = 0;
  };
  for (const View& gradient : gradients) {
    const View all = flat(gradient);
    for (int64_t at = 0; at < all.count();) {
      const View piece = all.rows_slice(at, std::min(all.count() - at, packed.count() - filled));
      ops_.cast(context, piece, packed.rows_slice(filled, piece.count()));
      packed_.push_back(piece);
      filled += piece.count();
      at += piece.count();
      if (filled == packed.count()) flush();
    }
  }
  if (filled > 0) flush();
}

void TensorGroup::combine(Context& context, View max, View sum, View target) {
  const int64_t rows = max.rows(), own = 3 * rows;
  const View all = buffers_.statistics.rows_slice(0, size() * own);
  View mine = all.rows_slice(rank() * own, own);
  for (const View& from : {max, sum, target}) {
    ops_.cast(context, from, mine.rows_slice(0, rows));
    if (mine.rows() > rows) mine = mine.rows_slice(rows, mine.rows() - rows);
  }
  begin(group_->gather(all, equal_pieces(all.count(), size()), all.dtype(), context.stream->record()), all.bytes(),
        kSumOfALayer);
  finish();
  ops_.softmax_combine(context, all.reshape({size(), 3, rows}), max, sum, target);
}

SequenceParallelSums::SequenceParallelSums(const ParameterTable& table, View gradients, TensorGroup& tensor,
                                           Context& context, GradientSink* next)
    : tensor_(tensor),
      context_(context),
      next_(next),
      sums_(table.ready_ranges().size()),
      ranges_(table.ready_ranges()) {
  const bool classifies = table.layout().part.head && !table.spec().has_decoder();
  for (const Parameter& parameter : table.all()) {
    // A classifier's head has all of its rows on every tensor rank.
    if (!parameter.is_whole() || parameter.layer_sums || (classifies && parameter.group == table.head_group()))
      continue;
    const View gradient = gradient_of(gradients, parameter);
    if (!gradient.empty()) sums_[parameter.group].push_back(gradient);
  }
}

void SequenceParallelSums::ready(ParameterRange range) {
  const auto group = static_cast<size_t>(std::ranges::find(ranges_, range) - ranges_.begin());
  tensor_.sum_gradients(context_, sums_[group]);
  if (next_) next_->ready(range);
}

}  // namespace trireme
