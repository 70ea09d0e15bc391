// Layouts of which every two choices that go together come together in one: each against one rank.

#include <map>
#include <set>

#include "tests/train/mesh_training.h"

namespace trireme::mesh_training {
namespace {

/// Values of an axis, by their numbers in kAxes.
enum Axis : size_t { kFamily, kTensor, kPipeline, kChunks, kData, kShard, kRecompute, kSequenceRows, kAxisCount };
constexpr std::array<size_t, kAxisCount> kChoices{std::size(kFamilies), 3, 3, 2, 3, 4, 3, 2};
constexpr int64_t kRanks[] = {1, 2, 4}, kDataRanks[] = {1, 2, 3};
constexpr ShardChoice kShards[] = {ShardChoice::none, ShardChoice::optimizer, ShardChoice::gradients,
                                   ShardChoice::parameters};
constexpr Recompute kRecomputes[] = {Recompute::none, Recompute::attention, Recompute::full};
using Choice = std::array<size_t, kAxisCount>;
/// Two axes with a value of each.
using Pair = std::array<size_t, 4>;

/// Up to 8 ranks; what the program refuses is left out, and so is what would be another choice under its own name.
bool can_be_had(const Choice& c) {
  const int64_t ranks = kRanks[c[kTensor]] * kRanks[c[kPipeline]] * kDataRanks[c[kData]];
  if (ranks > 8) return false;
  if (c[kChunks] == 1 && c[kPipeline] == 0) return false;
  if (c[kSequenceRows] == 1 && c[kTensor] == 0) return false;
  if (c[kShard] > 0 && c[kData] == 0) return false;
  return c[kShard] < 2 || c[kPipeline] == 0;
}

template <class Visit>
void for_each_choice(Visit visit) {
  for (Choice c{};;) {
    if (can_be_had(c)) visit(c);
    size_t axis = 0;
    while (axis < kAxisCount && ++c[axis] == kChoices[axis]) c[axis++] = 0;
    if (axis == kAxisCount) return;
  }
}

std::vector<Pair> pairs_of(const Choice& c) {
  std::vector<Pair> pairs;
  for (size_t a = 0; a < kAxisCount; ++a)
    for (size_t b = a + 1; b < kAxisCount; ++b) pairs.push_back({a, c[a], b, c[b]});
  return pairs;
}

/// One after the other the layout that has the most pairs which no one before it had.
std::vector<Choice> covering_choices() {
  std::set<Pair> missing;
  for_each_choice([&](const Choice& c) { std::ranges::copy(pairs_of(c), std::inserter(missing, missing.end())); });
  std::vector<Choice> chosen;
  while (!missing.empty()) {
    Choice best{};
    ptrdiff_t most = 0;
    for_each_choice([&](const Choice& c) {
      const auto pairs = pairs_of(c);
      const auto found = std::ranges::count_if(pairs, [&](const Pair& pair) { return missing.contains(pair); });
      if (found > most) std::tie(best, most) = std::tuple(c, found);
    });
    for (const Pair& pair : pairs_of(best)) missing.erase(pair);
    chosen.push_back(best);
  }
  return chosen;
}

Layouts layouts_of(const Choice& c) {
  return {.mesh = {.data = kDataRanks[c[kData]],
                   .tensor = kRanks[c[kTensor]],
                   .pipeline = kRanks[c[kPipeline]],
                   .chunks = static_cast<int64_t>(c[kChunks]) + 1},
          .recompute = kRecomputes[c[kRecompute]],
          .dropout = true,
          .shard = kShards[c[kShard]],
          .sequence_parallel = c[kSequenceRows] == 1,
          .global = 24};
}

TEST(EveryPairOfChoices, TrainsLikeOneRank) {
  const std::vector<Choice> chosen = covering_choices();
  EXPECT_LE(chosen.size(), 60u);
  std::map<size_t, Outcome> alone;  // by family
  for (const Choice& choice : chosen) {
    const Family& family = kFamilies[choice[kFamily]];
    Spec spec = family.spec();
    spec.layers = 8;
    if (!spec.attention_layers.empty()) spec.attention_layers += spec.attention_layers;
    if (family.spec == opt) spec.activation = Activation::gelu_tanh;  // a ReLU's input may be zero but for rounding
    const Layouts layouts = layouts_of(choice);
    SCOPED_TRACE(fmt::format("{}, {}, shard {}, recompute {}{}", family.name, name_of(layouts.mesh), choice[kShard],
                             choice[kRecompute], layouts.sequence_parallel ? ", sequence parallel" : ""));
    if (!alone.contains(choice[kFamily]))
      alone[choice[kFamily]] = train(spec, {.mesh = {1, 1, 1}, .dropout = true, .global = 24});
    expect_near(train(spec, layouts), alone[choice[kFamily]], spec);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace trireme::mesh_training
