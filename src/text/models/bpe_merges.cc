#include "text/models/bpe_merges.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace trireme {
namespace {

constexpr uint64_t kNone = MergeTable::kNone;
constexpr uint32_t kEnd = UINT32_MAX;

// Up to this size scanning all pairs for the lowest rank beats a heap: almost every word of natural text is shorter.
constexpr size_t kShort = 48;

uint32_t rank_of(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

/// keys[i] is (rank of the merge of symbols i and i + 1, i), so that the least key is the first pair of the lowest
/// rank; pairs without a merge have the highest ranks.
void merge_short(const MergeTable& merges, std::vector<TokenId>& symbols, size_t least) {
  uint64_t keys[kShort];
  TokenId merged[kShort];
  TokenId* const s = symbols.data();
  const auto look_up = [&](size_t i) {
    const uint64_t value = merges.find(s[i], s[i + 1]);
    merged[i] = static_cast<TokenId>(value);
    keys[i] = uint64_t{rank_of(value)} << 32 | i;
  };
  size_t pairs = symbols.size() - 1;
  for (size_t i = 0; i < pairs; ++i) look_up(i);
  while (pairs >= least) {
    uint64_t lowest = keys[0];
    for (size_t i = 1; i < pairs; ++i) lowest = std::min(lowest, keys[i]);
    if (rank_of(lowest) == rank_of(kNone)) break;
    const auto best = static_cast<uint32_t>(lowest);
    s[best] = merged[best];
    --pairs;
    for (size_t i = best + 1; i <= pairs; ++i) s[i] = s[i + 1];
    for (size_t i = best; i < pairs; ++i) {
      keys[i] = keys[i + 1] - 1;
      merged[i] = merged[i + 1];
    }
    if (best > 0) look_up(best - 1);
    if (best < pairs) look_up(best);
  }
  symbols.resize(pairs + 1);
}

/// A linked list of symbols and a heap of (rank, position); an entry whose rank is no longer its pair's is stale.
/// s.lengths: number of symbols merged into each one.
void merge_long(const MergeTable& merges, std::vector<TokenId>& symbols, MergeScratch& s, size_t least = 1) {
  const size_t n = symbols.size();
  assert(n < kEnd);
  s.values.assign(n, kNone);
  s.previous.resize(n);
  s.next.resize(n);
  s.heap.clear();
  const auto push = [&](uint32_t at) {
    s.values[at] = s.next[at] == kEnd ? kNone : merges.find(symbols[at], symbols[s.next[at]]);
    if (s.values[at] != kNone) s.heap.push_back(uint64_t{rank_of(s.values[at])} << 32 | at);
  };
  for (uint32_t i = 0; i < n; ++i) {
    s.previous[i] = i == 0 ? kEnd : i - 1;
    s.next[i] = i + 1 == n ? kEnd : i + 1;
    push(i);
  }
  const auto later = std::greater<uint64_t>();
  std::make_heap(s.heap.begin(), s.heap.end(), later);
  const auto push_heap = [&](uint32_t at) {
    const size_t before = s.heap.size();
    push(at);
    if (s.heap.size() > before) std::push_heap(s.heap.begin(), s.heap.end(), later);
  };
  for (size_t left = n; left > least && !s.heap.empty();) {
    std::pop_heap(s.heap.begin(), s.heap.end(), later);
    const uint64_t top = s.heap.back();
    s.heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    if (s.values[at] == kNone || rank_of(s.values[at]) != rank_of(top)) continue;
    --left;
    const uint32_t gone = s.next[at];
    symbols[at] = static_cast<TokenId>(s.values[at]);
    s.next[at] = s.next[gone];
    if (s.next[at] != kEnd) s.previous[s.next[at]] = at;
    s.values[gone] = kNone;
    push_heap(at);
    if (s.previous[at] != kEnd) push_heap(s.previous[at]);
  }
  size_t kept = 0;
  s.lengths.clear();
  for (uint32_t i = 0; i != kEnd; i = s.next[i]) {
    symbols[kept++] = symbols[i];
    s.lengths.push_back((s.next[i] == kEnd ? static_cast<uint32_t>(n) : s.next[i]) - i);
  }
  symbols.resize(kept);
}

}  // namespace

std::vector<std::pair<TokenId, TokenId>> MergeTable::in_order() const {
  std::vector<std::pair<uint64_t, std::pair<TokenId, TokenId>>> merges;
  merges.reserve(size());
  pairs_.for_each([&](TokenId left, TokenId right, uint64_t value) { merges.push_back({value, {left, right}}); });
  std::sort(merges.begin(), merges.end());
  std::vector<std::pair<TokenId, TokenId>> pairs;
  pairs.reserve(merges.size());
  for (const auto& [value, pair] : merges) pairs.push_back(pair);
  return pairs;
}

void merge_symbols(const MergeTable& merges, std::vector<TokenId>& symbols, MergeScratch& scratch, size_t least) {
  if (symbols.size() < 2 || merges.size() == 0) return;
  if (symbols.size() <= kShort)
    merge_short(merges, symbols, least);
  else
    merge_long(merges, symbols, scratch, least);
}

namespace {

constexpr int kMostRetries = 64;  // one or two in text and in repetitions of short strings

/// Two tokens can be adjacent in a result if merging only their symbols gives these two. A word's result is any
/// sequence of tokens for which this holds for all adjacent pairs: as long as no merge has crossed the border between
/// two of them, the merges on both sides are the same as for the two alone, in the same order, so that none ever
/// crosses it.
bool can_be_neighbours(const MergeTable& merges, TokenId left, TokenId right, MergeScratch& scratch) {
  merge_symbols(merges, scratch.joint, scratch);
  return scratch.joint.size() == 2 && scratch.joint[0] == left && scratch.joint[1] == right;
}

}  // namespace

void merge_in_windows(const MergeTable& merges, size_t count, const ReadSymbols& read, MergeScratch& scratch,
                      std::vector<TokenId>& out, size_t window) {
  const size_t before = out.size();
  std::vector<uint32_t> taken, lengths;  // of the tokens in `out`, at least of a window; of the window's tokens
  size_t begin = 0, end = 0;             // start and end of the window
  size_t failed_at = 0;                  // no window could begin here
  int retries = 0;
  const auto enlarge = [&] {  // distant symbols have too much influence
    window = std::min(count, 8 * window);
    out.resize(before);
    taken.clear();
    begin = end = failed_at = 0;
    retries = 0;
  };
  while (begin < count) {
    end = std::max(end, std::min(count, begin + window));
    scratch.window.clear();
    read(begin, end - begin, scratch.window);
    merge_long(merges, scratch.window, scratch);
    lengths = scratch.lengths;
    if (begin > 0) {
      scratch.joint.clear();
      read(begin - taken.back(), taken.back() + lengths[0], scratch.joint);
      if (!can_be_neighbours(merges, out.back(), scratch.window[0], scratch)) {
        failed_at = std::max(failed_at, begin);
        begin -= taken.back();  // the window begins one token earlier
        out.pop_back();
        taken.pop_back();
        if (taken.empty() || ++retries == kMostRetries) enlarge();
        continue;
      }
    }
    // Symbols after the window may change its last tokens.
    const size_t kept_to = end == count ? count : end - window / 8;
    if (taken.size() > window) taken.erase(taken.begin(), taken.end() - static_cast<ptrdiff_t>(window));
    for (size_t i = 0; i < lengths.size() && (i == 0 || begin + lengths[i] <= kept_to); ++i) {
      out.push_back(scratch.window[i]);
      taken.push_back(lengths[i]);
      begin += lengths[i];
    }
    if (begin <= failed_at && failed_at > 0)
      enlarge();
    else
      retries = 0;
  }
}

}  // namespace trireme
