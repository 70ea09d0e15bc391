// Reducer and Optimizer on ranks that are threads: the sums and the weights of one process that adds all
// contributions.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "comm/scalars.h"
#include "optim/optimizer.h"
#include "optim/reducer.h"
#include "tests/support/exchange.h"
#include "tests/support/local_ranks.h"
#include "tests/support/norm_values.h"
#include "tests/support/tiny_model.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

TEST(ReducerOnLocalRanks, GivesTheBitsOfOneProcessHoweverMessagesTravel) {
  constexpr size_t kCount = 5'003;
  std::vector<int64_t> borders;
  for (size_t at = 0; at < kCount; at += 50) borders.push_back(static_cast<int64_t>(at));
  borders.push_back(kCount);
  for (const int size : {1, 2, 3, 4}) {
    for (const DType wire : {DType::bf16, DType::f32}) {
      for (const LocalOptions& connection : connections()) {
        run_local(
            size,
            [&](RankContext& rank) {
              const auto group = rank.reporting_group();
              std::vector<float> gradients(kCount);
              const Ownership ownership(borders, size, 2'000, 300);
              // Every second step by another reducer, which uses shared memory.
              Reducer messages(view(gradients), *group, *test_ops(), ownership, {.wire = wire, .chunk_bytes = 700});
              const auto other_group = rank.reporting_group();
              Reducer shared(view(gradients), *other_group, *test_ops(), ownership,
                             {.wire = wire, .chunk_bytes = 700, .one_host = true});
              for (unsigned step = 0; step < 4; ++step) {
                Reducer& exchange = step % 2 == 0 ? messages : shared;
                std::ranges::copy(gradients_of(rank.rank(), kCount, step), gradients.begin());
                exchange.begin();
                for (size_t end = 0; end < kCount; end += kCount / 5) exchange.ready(static_cast<int64_t>(end));
                rank.world.barrier().wait("the ranks of the test");  // another group, another thread
                exchange.finish();
                EXPECT_TRUE(same_bits(gradients, expected_sum(kCount, wire, size, step)))
                    << size << " ranks, " << name_of(wire) << ", step " << step;
              }
            },
            connection);
      }
    }
  }
}

/// While it exists no new descriptors can be opened.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(ReducerOnLocalRanks, RanksThatCannotShareMemorySaySoAndExchangeMessages) {
  constexpr size_t kCount = 5'003;
  std::vector<int64_t> borders = {0, 2'000, kCount};
  std::mutex mutex;
  std::vector<std::string> lines;
  log::set_listener([&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  });
  const NoDescriptors none;
  run_local(2, [&](RankContext& rank) {
    const auto group = rank.reporting_group();
    std::vector<float> gradients = gradients_of(rank.rank(), kCount, 0);
    const Ownership ownership(borders, 2, 2'000, 300);
    Reducer exchange(view(gradients), *group, *test_ops(), ownership, {.chunk_bytes = 700, .one_host = true});
    exchange.begin();
    exchange.finish();
    EXPECT_TRUE(same_bits(gradients, expected_sum(kCount, DType::bf16, 2, 0)));
  });
  log::set_listener({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("the ranks of this host cannot map each other's memory (containers that hide processes?): "
                          "gradients travel as messages, which is slower"),
            std::string::npos)
      << lines[0];
}

/// Weights after `steps` updates with the gradients that give() writes.
template <class Give>
std::vector<float> train(const ParameterTable& table, Communicator& group, Communicator& verdicts, int steps,
                         Give give) {
  TrainingState state(table, DType::f32, true);
  initialize(state, table, 3);
  const auto ops = make_cpu_ops();
  OptimizerOptions options;
  options.wire = DType::f32;
  options.bucket_bytes = 10'000;
  Optimizer optimizer(table, state, *ops, group, options);
  Context context;
  for (int step = 0; step < steps; ++step) {
    give(state.gradients().values<float>(), static_cast<unsigned>(step));
    optimizer.begin_exchange();
    for (const ParameterRange& range : table.ready_ranges()) optimizer.ready(range);
    optimizer.update(context, 1e-2, step + 1, norm_of(finish_exchange(optimizer, context), verdicts));
  }
  const auto weights = state.weights().values<float>();
  return {weights.begin(), weights.end()};
}

TEST(OptimizerOnLocalRanks, UpdatesToTheWeightsOfOneProcessThatAddsAllGradients) {
  const ParameterTable table(tiny_spec());
  const auto alone = make_single();
  for (const int size : {1, 2, 3, 4}) {
    const auto expected = train(table, *alone, *alone, 3, [&](std::span<float> gradients, unsigned step) {
      std::ranges::copy(expected_sum(gradients.size(), DType::f32, size, step), gradients.begin());
    });
    run_local(size, [&](RankContext& rank) {
      const auto group = rank.reporting_group();
      const auto weights = train(table, *group, rank.world, 3, [&](std::span<float> gradients, unsigned step) {
        std::ranges::copy(gradients_of(rank.rank(), gradients.size(), step), gradients.begin());
      });
      EXPECT_TRUE(same_bits(weights, expected)) << "rank " << rank.rank() << " of " << size;
    });
  }
}

}  // namespace
}  // namespace trireme
