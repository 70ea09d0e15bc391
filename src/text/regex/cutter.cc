#include "text/regex/cutter.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "text/byte_alphabet.h"
#include "text/regex/pattern_tree.h"

namespace trireme {

namespace {

// Common patterns need some dozens of each.
constexpr size_t kMostInstructions = 2000, kMostStates = 1000, kMostClasses = 63, kMostPairs = 10000;

/// An instruction: consume a character of a set, look at the next one, continue at two places, or end.
struct Instruction {
  enum class Op : uint8_t { take, look, fork, match };
  Op op = Op::match;
  bool negated = false;  // look: the next character is not in the set
  uint32_t set = 0;
  uint32_t next = 0, other = 0;  // `next` is preferred
};

using Op = Instruction::Op;
using Kind = PatternTree::Kind;

/// The tree as instructions, generated from its end.
class Program {
 public:
  explicit Program(const PatternTree& tree) : start_(emit(tree, add({}))) {}

  uint32_t start() const { return start_; }
  const Instruction& operator[](uint32_t at) const { return list_[at]; }
  const std::vector<CodeSet>& sets() const { return sets_; }
  size_t size() const { return list_.size(); }

 private:
  uint32_t add(Instruction instruction) {
    if (list_.size() == kMostInstructions) throw NotForTables("too many steps: its repetitions multiply");
    list_.push_back(instruction);
    return static_cast<uint32_t>(list_.size() - 1);
  }

  uint32_t index_of(const CodeSet& set) {
    const auto found = std::find(sets_.begin(), sets_.end(), set);
    if (found == sets_.end()) sets_.push_back(set);
    return static_cast<uint32_t>(std::distance(sets_.begin(), std::find(sets_.begin(), sets_.end(), set)));
  }

  uint32_t emit(const PatternTree& tree, uint32_t next) {
    switch (tree.kind) {
      case Kind::set:
        return add({Op::take, false, index_of(tree.set), next, 0});
      case Kind::next_in:
        return add({Op::look, false, index_of(tree.set), next, 0});
      case Kind::next_out:
        return add({Op::look, true, index_of(tree.set), next, 0});
      case Kind::at_end:  // matches if no character follows
        return add({Op::look, true, index_of(CodeSet(0, kInvalidCode)), next, 0});
      case Kind::sequence:
        for (auto part = tree.parts.rbegin(); part != tree.parts.rend(); ++part) next = emit(*part, next);
        return next;
      case Kind::choice: {
        uint32_t entry = emit(tree.parts.back(), next);
        for (size_t i = tree.parts.size() - 1; i-- > 0;) entry = add(fork(emit(tree.parts[i], next), entry, false));
        return entry;
      }
      case Kind::repeat:
        return repeat(tree, next);
    }
    return next;
  }

  static Instruction fork(uint32_t first, uint32_t second, bool swapped) {
    return {Op::fork, false, 0, swapped ? second : first, swapped ? first : second};
  }

  uint32_t repeat(const PatternTree& tree, uint32_t next) {
    const PatternTree& part = tree.parts[0];
    uint32_t entry = next;
    unsigned copies = tree.least;
    if (tree.most == PatternTree::kNoLimit) {
      const uint32_t loop = add({});
      const uint32_t body = emit(part, loop);
      list_[loop] = fork(body, next, tree.lazy);
      entry = copies > 0 ? body : loop;
      copies -= copies > 0 ? 1 : 0;
    } else {
      for (unsigned i = tree.least; i < tree.most; ++i) entry = add(fork(emit(part, entry), next, tree.lazy));
    }
    for (; copies > 0; --copies) entry = emit(part, entry);
    return entry;
  }

  std::vector<Instruction> list_;
  std::vector<CodeSet> sets_;
  uint32_t start_;
};

/// Code points that are in the same sets have the same class.
struct Partition {
  std::vector<std::pair<char32_t, uint8_t>> runs;  // class from this code point on
  std::vector<std::vector<bool>> members;          // [class][set]

  explicit Partition(const std::vector<CodeSet>& sets) {
    std::vector<std::pair<char32_t, size_t>> borders;  // a set begins or ends before the code point
    for (size_t i = 0; i < sets.size(); ++i) {
      for (const CodeSet::Range& range : sets[i].ranges()) {
        borders.emplace_back(range.first, i);
        borders.emplace_back(range.last + 1, i);
      }
    }
    std::sort(borders.begin(), borders.end());
    std::map<std::vector<bool>, uint8_t> known;
    std::vector<bool> in(sets.size());
    size_t next = 0;
    for (char32_t code = 0; code <= kInvalidCode;) {
      for (; next < borders.size() && borders[next].first == code; ++next) in[borders[next].second].flip();
      const auto [entry, added] = known.emplace(in, static_cast<uint8_t>(known.size()));
      if (added) members.push_back(in);
      if (members.size() > kMostClasses) throw NotForTables("too many kinds of characters");
      runs.emplace_back(code, entry->second);
      code = next < borders.size() ? borders[next].first : kInvalidCode + 1;
    }
  }
};

}  // namespace

/// Follows all paths through the program at the same time, preferred ones first: the ordered list of live paths is a
/// state. A path that has ended makes those after it irrelevant.
class CutterCompiler {
 public:
  CutterCompiler(Cutter& cutter, const Program& program, const Partition& partition)
      : cutter_(cutter), program_(program), members_(partition.members) {}

  void compile() {
    const size_t columns = std::bit_ceil(members_.size() + 1);
    cutter_.columns_shift_ = std::countr_zero(columns);
    cutter_.end_ = static_cast<unsigned>(members_.size());
    state_of({program_.start()});
    for (size_t state = 0; state < ways_.size(); ++state) {
      cutter_.table_.resize((state + 1) * columns, Cutter::kStop);
      for (unsigned column = 0; column <= cutter_.end_; ++column) {
        const uint32_t entry = step(state, column);
        cutter_.table_[state * columns + column] = entry;
      }
    }
    check_linear();
  }

  /// Called after the bytes have classes.
  void find_skips() {
    const auto columns = size_t{1} << cutter_.columns_shift_;
    for (size_t state = 0; state < ways_.size(); ++state) {
      const uint32_t skip = skip_of(state);
      for (uint32_t& entry : cutter_.table_) {
        if (!(entry & Cutter::kStop) && entry >> Cutter::kRowShift == state * columns) entry |= skip;
      }
    }
    cutter_.states_ = ways_.size();
  }

 private:
  using Ways = std::vector<uint32_t>;

  size_t state_of(Ways ways) {
    const auto [entry, added] = numbers_.emplace(std::move(ways), ways_.size());
    if (added) ways_.push_back(entry->first);
    if (ways_.size() > kMostStates) throw NotForTables("too many states");
    return entry->second;
  }

  /// Follows a path up to the characters that it consumes. Returns true if it can end here.
  bool follow(uint32_t at, unsigned column) {
    if (seen_[at]) return false;
    seen_[at] = true;
    const Instruction& step = program_[at];
    switch (step.op) {
      case Op::match:
        return true;
      case Op::take:
        taking_.push_back(at);
        return false;
      case Op::look:
        return (is_in(column, step.set) != step.negated) && follow(step.next, column);
      case Op::fork:
        return follow(step.next, column) || follow(step.other, column);
    }
    return false;
  }

  bool is_in(unsigned column, uint32_t set) const { return column < members_.size() && members_[column][set]; }

  uint32_t step(size_t state, unsigned column) {
    seen_.assign(program_.size(), false);
    taking_.clear();
    uint32_t entry = 0;
    for (const uint32_t way : ways_[state]) {
      if (!follow(way, column)) continue;
      entry |= Cutter::kMatch;
      break;
    }
    Ways next;
    for (const uint32_t at : taking_) {
      const uint32_t to = program_[at].next;
      if (is_in(column, program_[at].set) && std::find(next.begin(), next.end(), to) == next.end()) next.push_back(to);
    }
    if (next.empty()) return entry | Cutter::kStop;
    const size_t number = state_of(std::move(next));
    return entry | static_cast<uint32_t>(number << cutter_.columns_shift_) << Cutter::kRowShift;
  }

  struct Step {
    bool match, stop;
    size_t state;
  };
  Step look(size_t state, unsigned column) const {
    const uint32_t entry = cutter_.table_[(state << cutter_.columns_shift_) + column];
    return {(entry & Cutter::kMatch) != 0, (entry & Cutter::kStop) != 0,
            entry >> Cutter::kRowShift >> cutter_.columns_shift_};
  }

  /// States from which an unlimited text can be read without a match.
  std::vector<bool> find_endless() const {
    // Other states: those whose paths without a match all lead to such states.
    std::vector<bool> endless(ways_.size(), true);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t state = 0; state < ways_.size(); ++state) {
        bool any = false;
        for (unsigned column = 0; column < cutter_.end_ && !any; ++column) {
          const Step step = look(state, column);
          any = !step.match && !step.stop && endless[step.state];
        }
        changed = changed || (endless[state] && !any);
        endless[state] = any;
      }
    }
    return endless;
  }

  /// Text read past a match must be read again. This is linear if the search that begins at the match consumes the text
  /// that the first search read in vain, except for a bounded rest: simulates both in parallel.
  void check_linear() const {
    const std::vector<bool> endless = find_endless();
    const auto refuse = [] {
      throw NotForTables("a repetition that can end without a match, which takes quadratic time");
    };
    if (endless[0]) refuse();
    struct Pair {
      size_t vain, again;
      bool operator<(const Pair& other) const { return std::tie(vain, again) < std::tie(other.vain, other.again); }
    };
    std::map<Pair, std::vector<std::pair<Pair, bool>>> edges;  // true: the second search has a match there
    std::vector<Pair> todo;
    const auto meet = [&](const Step& vain, const Step& again, std::vector<std::pair<Pair, bool>>* from) {
      if (vain.stop || !endless[vain.state]) return;  // text read in vain from here is bounded
      if (again.stop) refuse();
      const Pair pair{vain.state, again.state};
      if (from) from->emplace_back(pair, again.match);
      if (edges.try_emplace(pair).second) todo.push_back(pair);
      if (edges.size() > kMostPairs) throw NotForTables("too many states");
    };
    for (size_t state = 0; state < ways_.size(); ++state) {
      for (unsigned column = 0; column < cutter_.end_; ++column) {
        const Step vain = look(state, column);
        if (vain.match) meet(vain, look(0, column), nullptr);
      }
    }
    while (!todo.empty()) {
      const Pair pair = todo.back();
      todo.pop_back();
      std::vector<std::pair<Pair, bool>> from;
      for (unsigned column = 0; column < cutter_.end_; ++column) {
        const Step vain = look(pair.vain, column);
        if (!vain.match) meet(vain, look(pair.again, column), &from);
      }
      edges[pair] = std::move(from);
    }
    // The second search must match on every cycle: edges that can be removed from the end do not form one.
    for (bool changed = true; changed;) {
      changed = false;
      for (auto pair = edges.begin(); pair != edges.end();) {
        const bool goes_on = std::any_of(pair->second.begin(), pair->second.end(),
                                         [&](const auto& edge) { return !edge.second && edges.contains(edge.first); });
        changed = changed || !goes_on;
        pair = goes_on ? std::next(pair) : edges.erase(pair);
      }
    }
    if (!edges.empty()) refuse();
  }

  /// Characters that occur in long runs.
  uint32_t skip_of(size_t state) const {
    const auto stays = [&](unsigned first, unsigned last) {
      for (unsigned byte = first; byte <= last; ++byte) {
        const Step step = look(state, cutter_.byte_classes_[byte]);
        if (step.stop || !step.match || step.state != state) return false;
      }
      return true;
    };
    const bool lower = stays('a', 'z'), upper = stays('A', 'Z');
    if (lower) return upper ? Cutter::kSkipLetters : Cutter::kSkipLower;
    if (upper) return Cutter::kSkipUpper;
    return stays(' ', ' ') ? Cutter::kSkipSpaces : 0;
  }

  Cutter& cutter_;
  const Program& program_;
  const std::vector<std::vector<bool>>& members_;
  std::vector<Ways> ways_;  // per state
  std::map<Ways, size_t> numbers_;
  std::vector<bool> seen_;
  std::vector<uint32_t> taking_;
};

Cutter::Cutter(std::string_view pattern, Text text) {
  const PatternTree tree = parse_pattern(pattern);
  if (matches_nothing(tree)) throw NotForTables("matches without a character");
  const Program program(tree);
  const Partition partition(program.sets());
  CutterCompiler compiler(*this, program, partition);
  compiler.compile();
  fill_blocks(partition.runs);
  invalid_ = text == Text::utf8 ? end_ : class_of(kInvalidCode);
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (text == Text::spelled)
      byte_classes_[byte] = static_cast<uint8_t>(class_of(byte_to_letter(static_cast<uint8_t>(byte))));
    else
      byte_classes_[byte] = byte < 0x80 ? static_cast<uint8_t>(class_of(byte)) : kDecode;
  }
  compiler.find_skips();
  fill_pairs();
}

void Cutter::fill_pairs() {
  const size_t columns = size_t{1} << columns_shift_;
  for (size_t byte = 0; byte < 256; ++byte)
    pair_classes_[byte] = byte_classes_[byte] == kDecode ? static_cast<uint8_t>(end_) : byte_classes_[byte];
  pairs_.assign(columns * columns, kStop);
  for (size_t first = 0; first < end_; ++first) {
    const uint32_t entry = table_[first];
    if (entry & (kStop | kSkips)) continue;
    for (size_t second = 0; second < end_; ++second)
      pairs_[first * columns + second] = table_[(entry >> kRowShift) + second];
  }
}

/// Classes of all code points; equal blocks are stored once.
void Cutter::fill_blocks(const std::vector<std::pair<char32_t, uint8_t>>& runs) {
  std::map<std::array<uint8_t, kBlock>, uint16_t> known;
  std::array<int, kMostClasses + 1> of_one_class{};  // number of that block, plus one
  size_t run = 0;
  for (char32_t code = 0; code <= kInvalidCode; code += kBlock) {
    while (run + 1 < runs.size() && runs[run + 1].first <= code) ++run;
    const uint8_t first_class = runs[run].second;
    const bool one_class = run + 1 == runs.size() || runs[run + 1].first >= code + kBlock;
    if (one_class && of_one_class[first_class] != 0) {
      blocks_.push_back(static_cast<uint16_t>(of_one_class[first_class] - 1));
      continue;
    }
    std::array<uint8_t, kBlock> block;
    size_t at = run;
    for (size_t i = 0; i < kBlock; ++i) {
      while (at + 1 < runs.size() && runs[at + 1].first <= code + i) ++at;
      block[i] = runs[at].second;
    }
    const auto [entry, added] = known.emplace(block, static_cast<uint16_t>(known.size()));
    if (added) classes_.insert(classes_.end(), block.begin(), block.end());
    if (one_class) of_one_class[first_class] = entry->second + 1;
    blocks_.push_back(entry->second);
  }
}

bool Cutter::ends_between(uint8_t before, uint8_t after) const {
  const size_t columns = size_t{1} << columns_shift_;
  for (size_t row = 0; row < table_.size(); row += columns) {
    const uint32_t entry = table_[row + byte_classes_[before]];
    if (entry & kStop) continue;
    const size_t reached = entry >> kRowShift;
    const uint32_t behind = table_[reached + byte_classes_[after]], at_end = table_[reached + end_];
    if (!(behind & kStop) || (behind & kMatch) != (at_end & kMatch)) return false;
  }
  return true;
}

bool Cutter::always_matches(uint8_t byte) const {
  const uint32_t entry = table_[byte_classes_[byte]];
  if (entry & kStop) return false;
  const auto row = table_.begin() + (entry >> kRowShift);
  return std::all_of(row, row + end_ + 1, [](uint32_t next) { return (next & kMatch) != 0; });
}

Cutter::Character Cutter::decode_any(const char* p, const char* end) const {
  const Decoded next = decode_utf8(p, end);
  if (next.code == kInvalidCode) return {invalid_, 1};
  return {class_of(next.code), next.length};
}

const char* Cutter::skip_others(uint32_t entry, const char* p, const char* end) {
  if (entry & kSkipLower) return skip<'a', 'z', 0>(p, end);
  if (entry & kSkipUpper) return skip<'A', 'Z', 0>(p, end);
  return skip<' ', ' ', 0>(p, end);
}

const char* Cutter::gap(const char* p, const char* end) const {
  while ((p += character(p, end).bytes) < end) {
    const bool may_begin = (table_[character(p, end).column] & kStop) == 0;
    if (may_begin && match(p, end)) break;
  }
  return p;
}

}  // namespace trireme
