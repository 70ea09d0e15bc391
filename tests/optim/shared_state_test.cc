// Weights and gradients sharded over data ranks: what each holds at a time, and that values equal those without
// sharding.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <vector>

#include "comm/scalars.h"
#include "ops/backend.h"
#include "optim/optimizer.h"
#include "optim/shared_weights.h"
#include "tests/support/local_ranks.h"
#include "tests/support/norm_values.h"
#include "tests/support/tiny_model.h"

namespace trireme {
namespace {

/// Six blocks of 3.1 MB, a head and an embedding of 2 MB.
Spec wide_spec(bool tied) {
  Spec spec = tiny_spec(tied);
  spec.layers = 6;
  spec.heads = 4;
  spec.width = 256;
  spec.inner_width = 1024;
  spec.vocabulary = 2000;
  spec.vocabulary_rows = 2000;
  return spec;
}

/// Bytes of a tensor that are in memory.
size_t resident(View tensor) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data()) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(tensor.data()) + tensor.bytes() + page - 1) / page * page;
  std::vector<unsigned char> pages((end - begin) / page);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()), 0);
  return static_cast<size_t>(std::ranges::count_if(pages, [](unsigned char p) { return (p & 1) != 0; })) * page;
}

/// Pages at the ends of pieces hold others' elements, too.
size_t page_ends(const KeptState& kept) {
  return (2 * kept.owned.size() + 8) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

OptimizerOptions sharing(ShardChoice shard) {
  OptimizerOptions options;
  options.shard = shard;
  options.wire = DType::f32;
  options.bucket_bytes = 1 << 20;
  return options;
}

int64_t most_of(const std::vector<ParameterRange>& groups, size_t so_many) {
  int64_t most = 0;
  for (size_t i = 0; i + so_many <= groups.size(); ++i)
    most = std::max(most, groups[i + so_many - 1].end - groups[i].begin);
  return most;
}

class SharedState : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Heads, SharedState, testing::Bool(),
                         [](const auto& tied) { return tied.param ? "tied" : "untied"; });

TEST_P(SharedState, WeightsAreThereWhenALayerNeedsThemAndOfTwoLayersAtATime) {
  const ParameterTable table(wide_spec(GetParam()));
  const size_t groups = table.ready_ranges().size();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    TrainingState all(table, dtype, false);
    initialize(all, table, 3);
    run_local(3, [&](RankContext& rank) {
      const OptimizerOptions options = sharing(ShardChoice::parameters);
      const KeptState kept = kept_states(table, options, 3, rank.rank());
      TrainingState state(table, dtype, true, kept);
      initialize(state, table, 3);
      size_t owned = 0;
      for (const auto& [begin, end] : kept.owned) owned += static_cast<size_t>(end - begin) * size_of(dtype);
      EXPECT_LE(resident(state.weights()), owned + page_ends(kept));
      const auto group = rank.world.split(0, rank.rank());
      const std::unique_ptr<Ops> ops = make_cpu_ops();
      SharedWeights weights(state, *group, ownership_of(table, options, 3), *ops, {});
      const size_t remainder = dtype == DType::bf16 ? owned : 0;
      const size_t most = TrainingState::bytes_for(table, dtype, false, kept) - remainder;
      EXPECT_LT(most, state.weights().bytes() * 3 / 4) << "there is something to be saved";
      for (int pass = 0; pass < 3; ++pass) {
        for (size_t i = 0; i < groups; ++i) {
          const size_t at = pass == 1 ? groups - 1 - i : i, next = pass == 1 ? at - 1 : at + 1;
          const WeightRanges& ranges = table.weights_of(at);
          const ParameterRange range = ranges.trained;
          const Reading reading(weights, ranges, i + 1 < groups ? table.weights_of(next) : WeightRanges());
          const auto bytes = [&](const TrainingState& of) {
            return HostBytes(of.weights().rows_slice(range.begin, range.end - range.begin)).view();
          };
          const ConstView got = bytes(state), want = bytes(all);
          EXPECT_EQ(std::memcmp(got.data(), want.data(), want.bytes()), 0) << "group " << at;
          EXPECT_LE(resident(state.weights()), most + page_ends(kept)) << "group " << at;
        }
      }
      // All other ranks' elements arrive once per pass, and every own element is sent to two others.
      const size_t sent = 2 * owned * 3;
      EXPECT_EQ(weights.bytes_sent(), sent);
      size_t seen = 0;
      for (size_t i = 0; i + 1 < groups; ++i) {
        const Reading computes(weights, table.weights_of(i), table.weights_of(i + 1));
        const Reading comes(weights, table.weights_of(i + 1), {});
        seen = std::max(seen, resident(state.weights()));
      }
      EXPECT_NEAR(static_cast<double>(seen), static_cast<double>(most), static_cast<double>(page_ends(kept)))
          << "the plan counts what is there, no more";
    });
  }
}

TEST_P(SharedState, GradientsLeaveForTheirOwnersAndOnlyThoseOfTwoLayersAreThere) {
  const ParameterTable table(wide_spec(GetParam()));
  constexpr int kRanks = 2;
  constexpr int64_t kMicroBatches = 3;
  const auto value = [](int rank, int64_t micro_batch, int64_t element) {
    return static_cast<float>((element * 7 + micro_batch * 31 + rank * 13) % 64 - 32);  // its sums are exact
  };
  run_local(kRanks, [&](RankContext& rank) {
    const OptimizerOptions options = sharing(ShardChoice::gradients);
    const KeptState kept = kept_states(table, options, kRanks, rank.rank());
    TrainingState state(table, DType::f32, true, kept);
    const auto group = rank.world.split(0, rank.rank());
    const auto weights_group = rank.world.split(0, rank.rank());
    const Backend backend = make_backend();
    Optimizer optimizer(table, state, *backend.ops, *group, options, nullptr, weights_group.get());
    ASSERT_TRUE(optimizer.exchanges_every_micro_batch());
    const size_t most = static_cast<size_t>(most_of(table.ready_ranges(), 2)) * sizeof(float) +
                        2 * options.bucket_bytes + page_ends(kept);
    EXPECT_LT(most, state.gradients().bytes() * 3 / 4) << "there is something to be saved";
    for (int64_t m = 0; m < kMicroBatches; ++m) {
      optimizer.begin_exchange(m == 0 ? Write::overwrite : Write::add);
      for (const ParameterRange& range : table.ready_ranges()) {
        optimizer.begin(range);
        for (int64_t i = range.begin; i < range.end; ++i) state.gradients().as<float>()[i] = value(rank.rank(), m, i);
        EXPECT_LE(resident(state.gradients()), most);
        optimizer.ready(range);
      }
    }
    Context context{.threads = 1, .stream = &host_device().stream()};
    (void)finish_exchange(optimizer, context);
    EXPECT_LE(resident(state.gradients()), page_ends(kept)) << "all have left";
    const ParameterRange matrix = table.tied_matrix().trained;
    for (const auto& [begin, end] : kept.owned) {
      const View sums = state.summed_gradient(begin, end - begin);
      for (int64_t i = begin; i < end; ++i) {
        float want = 0;
        for (int r = 0; r < kRanks; ++r)
          for (int64_t m = 0; m < kMicroBatches; ++m) {
            want += value(r, m, i);
            if (i >= matrix.begin && i < matrix.end) want += value(r, m, table.flat_count() + i - matrix.begin);
          }
        ASSERT_EQ(sums.as<float>()[i - begin], want) << "element " << i;
      }
    }
  });
}

}  // namespace
}  // namespace trireme
