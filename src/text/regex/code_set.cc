#include "text/regex/code_set.h"

#include <utf8proc.h>

#include <algorithm>

namespace trireme {
namespace {

/// The category of all code points from `first` to the next run.
struct CategoryRun {
  char32_t first;
  std::string_view name;
};

// Skips planes 4 to 13, which have no characters: they would be two thirds of the work.
constexpr char32_t kEmptyPlanes = 0x40000, kEmptyPlanesEnd = 0xE0000;

const std::vector<CategoryRun>& category_runs() {
  static const auto list = [] {
    std::vector<CategoryRun> runs;
    utf8proc_category_t before = UTF8PROC_CATEGORY_CN;
    for (char32_t c = 0; c < kInvalidCode; ++c) {
      const auto code = static_cast<utf8proc_int32_t>(c);
      const utf8proc_category_t category = utf8proc_category(code);
      if (c == 0 || category != before) runs.push_back({c, utf8proc_category_string(code)});
      before = category;
      if (c == kEmptyPlanes) c = kEmptyPlanesEnd - 1;
    }
    return runs;
  }();
  return list;
}

}  // namespace

CodeSet::CodeSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) { sort(); }

void CodeSet::sort() {
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  size_t kept = 0;
  for (const Range range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].last + 1)
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    else
      ranges_[kept++] = range;
  }
  ranges_.resize(kept);
}

std::optional<CodeSet> CodeSet::category(std::string_view name) {
  if (name.empty() || name.size() > 2) return std::nullopt;
  std::vector<Range> ranges;
  const auto& runs = category_runs();
  for (size_t i = 0; i < runs.size(); ++i) {
    const char32_t end = i + 1 < runs.size() ? runs[i + 1].first : kInvalidCode;
    if (runs[i].name.substr(0, name.size()) == name) ranges.push_back({runs[i].first, end - 1});
  }
  if (ranges.empty()) return std::nullopt;
  return CodeSet(std::move(ranges));
}

void CodeSet::add(const CodeSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  sort();
}

CodeSet CodeSet::complement() const {
  CodeSet result;
  char32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kInvalidCode) result.ranges_.push_back({next, kInvalidCode});
  return result;
}

bool CodeSet::contains(char32_t code) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), code,
                                      [](char32_t c, const Range& range) { return c < range.first; });
  return after != ranges_.begin() && code <= std::prev(after)->last;
}

bool CodeSet::intersects(const CodeSet& other) const {
  auto mine = ranges_.begin();
  auto theirs = other.ranges_.begin();
  while (mine != ranges_.end() && theirs != other.ranges_.end()) {
    if (mine->last < theirs->first)
      ++mine;
    else if (theirs->last < mine->first)
      ++theirs;
    else
      return true;
  }
  return false;
}

CodeSet white_space() {
  return CodeSet({{9, 13},
                  {0x20, 0x20},
                  {0x85, 0x85},
                  {0xA0, 0xA0},
                  {0x1680, 0x1680},
                  {0x2000, 0x200A},
                  {0x2028, 0x2029},
                  {0x202F, 0x202F},
                  {0x205F, 0x205F},
                  {0x3000, 0x3000}});
}

CodeSet word_characters(bool alone) {
  CodeSet set({{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}});
  for (const char* name : {"L", "M", "Nd", "Nl", "Pc"}) set.add(CodeSet::category(name).value());
  if (alone) set.add(CodeSet({{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}}));
  return set;
}

}  // namespace trireme
