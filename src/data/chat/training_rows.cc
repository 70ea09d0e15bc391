#include "data/chat/training_rows.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/rng.h"

namespace trireme::chat {

Packing pack_best_fit(std::span<const size_t> lengths, size_t row) {
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  Packing packing;
  std::set<std::pair<size_t, size_t>> open;  // room, number of the row
  for (const size_t one : order) {
    const size_t length = std::min(lengths[one], row);
    packing.cut += lengths[one] > row ? 1 : 0;
    auto best = open.lower_bound({length, 0});
    std::pair<size_t, size_t> place = {row, packing.rows.size()};
    if (best == open.end()) {
      packing.rows.emplace_back();
    } else {
      place = *best;
      open.erase(best);
    }
    packing.rows[place.second].push_back(one);
    place.first -= length;
    if (place.first > 0) open.insert(place);
  }
  return packing;
}

namespace {

constexpr uint64_t kShareStream = 5;  // differs from the streams of data/sampler.h, of epochs and of masks

int64_t counted_in(std::span<const int32_t> codes) {
  return codes.empty() ? 0 : std::count_if(codes.begin() + 1, codes.end(), is_counted);
}

}  // namespace

int64_t TrainingRows::ids() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }

int64_t TrainingRows::counted_ids() const { return std::accumulate(counted.begin(), counted.end(), int64_t{0}); }

double TrainingRows::padding() const {
  if (rows.empty()) return 0;
  return 1 - static_cast<double>(ids()) / (static_cast<double>(rows.size()) * static_cast<double>(most));
}

TrainingRows make_rows(CodedIds conversations, size_t most, bool packs) {
  assert(most >= 2);
  TrainingRows made;
  made.conversations = std::move(conversations);
  made.most = most;
  std::vector<size_t> used, lengths;
  for (size_t i = 0; i < made.conversations.size(); ++i) {
    if (counted_in(made.kept(i)) == 0) {
      ++made.uncounted;
      continue;
    }
    const size_t length = made.conversations.at(i).size();
    made.cut += length > most ? 1 : 0;
    used.push_back(i);
    lengths.push_back(length);
  }
  if (packs) {
    made.rows = pack_best_fit(lengths, most).rows;
    for (std::vector<size_t>& row : made.rows) {
      for (size_t& one : row) one = used[one];
    }
  } else {
    for (const size_t one : used) made.rows.push_back({one});
  }
  for (const std::vector<size_t>& row : made.rows) {
    int64_t length = 0, counted = 0;
    for (const size_t one : row) {
      length += std::ssize(made.kept(one));
      counted += counted_in(made.kept(one));
    }
    made.lengths.push_back(length);
    made.counted.push_back(counted);
  }
  return made;
}

TrainingRows make_pairs(CodedIds conversations, size_t most) {
  assert(most >= 2 && conversations.size() % 2 == 0);
  TrainingRows made;
  made.conversations = std::move(conversations);
  made.most = most;
  for (size_t i = 0; i < made.conversations.size(); i += 2) {
    const std::span<const int32_t> chosen = made.kept(i), rejected = made.kept(i + 1);
    const int64_t counted = counted_in(chosen), counted_rejected = counted_in(rejected);
    if (counted == 0 || counted_rejected == 0) {
      ++made.uncounted;
    } else if (std::ranges::equal(chosen, rejected)) {
      ++made.equal;
    } else {
      for (const size_t one : {i, i + 1}) made.cut += made.conversations.at(one).size() > most ? 1 : 0;
      made.rows.push_back({i, i + 1});
      made.lengths.push_back(std::ssize(chosen) + std::ssize(rejected));
      made.counted.push_back(counted + counted_rejected);
    }
  }
  return made;
}

CodedIds take_share(CodedIds& all, double share, uint64_t seed, size_t each) {
  const size_t count = all.size() / each;
  if (share <= 0 || count < 2) return {};
  const auto wanted = static_cast<size_t>(std::llround(share * static_cast<double>(count)));
  const size_t taken = std::clamp<size_t>(wanted, 1, count - 1);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  RandomStream random(mix_key(seed, kShareStream));
  std::vector<char> chosen(count, 0);
  for (size_t i = 0; i < taken; ++i) {
    std::swap(order[i], order[i + random.below(count - i)]);
    chosen[order[i]] = 1;
  }
  CodedIds rest, out;
  for (size_t i = 0; i < all.size(); ++i) (chosen[i / each] != 0 ? out : rest).add(all.at(i));
  all = std::move(rest);
  return out;
}

}  // namespace trireme::chat
