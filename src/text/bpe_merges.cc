#include "text/bpe_merges.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace trireme {
namespace {

constexpr uint64_t kNone = MergeTable::kNone;
constexpr uint32_t kEnd = UINT32_MAX;

// Up to here scanning all pairs for the lowest rank beats a heap: almost every word of a natural text is shorter.
constexpr size_t kShort = 48;

uint32_t rank_of(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

/// values[i] is the merge of symbols i and i + 1.
void merge_short(const MergeTable& merges, std::vector<TokenId>& symbols) {
  uint64_t values[kShort];
  size_t pairs = symbols.size() - 1;
  for (size_t i = 0; i < pairs; ++i) values[i] = merges.find(symbols[i], symbols[i + 1]);
  while (pairs > 0) {
    const size_t best = static_cast<size_t>(std::min_element(values, values + pairs) - values);
    if (values[best] == kNone) break;
    symbols[best] = static_cast<TokenId>(values[best]);
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(values + best + 1, values + pairs, values + best);
    --pairs;
    if (best > 0) values[best - 1] = merges.find(symbols[best - 1], symbols[best]);
    if (best < pairs) values[best] = merges.find(symbols[best], symbols[best + 1]);
  }
}

/// A linked list of symbols and a heap of (rank, position); an entry whose rank is no longer its pair's is stale.
void merge_long(const MergeTable& merges, std::vector<TokenId>& symbols, MergeScratch& s) {
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
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), later);
    const uint64_t top = s.heap.back();
    s.heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    if (s.values[at] == kNone || rank_of(s.values[at]) != rank_of(top)) continue;
    const uint32_t gone = s.next[at];
    symbols[at] = static_cast<TokenId>(s.values[at]);
    s.next[at] = s.next[gone];
    if (s.next[at] != kEnd) s.previous[s.next[at]] = at;
    s.values[gone] = kNone;
    push_heap(at);
    if (s.previous[at] != kEnd) push_heap(s.previous[at]);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i != kEnd; i = s.next[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace

void merge_symbols(const MergeTable& merges, std::vector<TokenId>& symbols, MergeScratch& scratch) {
  if (symbols.size() < 2 || merges.size() == 0) return;
  if (symbols.size() <= kShort)
    merge_short(merges, symbols);
  else
    merge_long(merges, symbols, scratch);
}

}  // namespace trireme
