// What the executor finds, each shown by a kernel with the mistake and the same kernel without it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "cuda/kernel.h"

namespace trireme::gpu {
namespace {

using testing::HasSubstr;

struct Arguments {
  Global<const float> x;
  Global<float> y;
  int mistake = 0;
};

/// What the launch ends with; empty: without a fault.
std::string fault_of(void (*kernel)(Arguments), const Arguments& a, int threads = 64, int shared = 4096,
                     uint64_t seed = 1) {
  host::set_seed(seed);
  try {
    launch("test", {}, {2, 1, 1}, threads, shared, kernel, a);
  } catch (const host::Fault& fault) {
    return fault.what();
  }
  return {};
}

class Executor : public testing::Test {
 protected:
  Arguments arguments(int mistake = 0) {
    std::iota(x_.begin(), x_.end(), 0.0f);
    return {{x_.data(), 128}, {y_.data(), 128}, mistake};
  }
  std::vector<float> x_ = std::vector<float>(128), y_ = std::vector<float>(128);
};

int global_thread() { return block_x() * threads() + thread(); }

void reverse_block(Arguments a) {
  SharedMemory memory;
  const auto shared = memory.take<float, 64>("values");
  shared[thread()] = a.x[global_thread()];
  if (a.mistake != 1) sync_block();
  a.y[global_thread()] = shared[63 - thread()];
  if (a.mistake != 2) sync_block();
  shared[thread()] = 0;
}

TEST_F(Executor, BlocksExchangeValuesThroughSharedMemory) {
  for (uint64_t seed : {1, 2, 3}) {
    EXPECT_EQ(fault_of(reverse_block, arguments(), 64, 4096, seed), "");
    for (size_t i = 0; i < 128; ++i) EXPECT_EQ(y_[i], static_cast<float>(i / 64 * 64 + 63 - i % 64));
  }
}

TEST_F(Executor, AMissingBarrierIsFoundOnBothSidesOfARead) {
  // With seeds of both kinds: the writer comes first, or the reader.
  for (uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    EXPECT_THAT(fault_of(reverse_block, arguments(1), 64, 4096, seed),
                testing::AnyOf(HasSubstr("may write it"), HasSubstr("before any thread wrote it")))
        << seed;
    EXPECT_THAT(fault_of(reverse_block, arguments(2), 64, 4096, seed),
                testing::AnyOf(HasSubstr("may read it"), HasSubstr("may write it")))
        << seed;
  }
}

void warp_exchange(Arguments a) {
  SharedMemory memory;
  const auto shared = memory.take<float, 64>("values");
  shared[thread()] = a.x[global_thread()];
  if (a.mistake == 0) sync_warp();
  a.y[global_thread()] = shared[thread() ^ 1];
}

TEST_F(Executor, LanesOfAWarpNeedABarrierOfTheWarp) {
  EXPECT_EQ(fault_of(warp_exchange, arguments()), "");
  EXPECT_NE(fault_of(warp_exchange, arguments(1)), "");
}

void lane_dependent(Arguments a) {
  float x = a.x[global_thread()];
  if (a.mistake == 0 || thread() % 32 < 16) x = shuffle_xor(x, 1);
  if (a.mistake == 2 && thread() % 32 >= 16) x = shuffle_xor(x, 1);
  a.y[global_thread()] = x;
}

TEST_F(Executor, ACollectiveThatSomeLanesMissNamesItsLine) {
  EXPECT_EQ(fault_of(lane_dependent, arguments()), "");
  EXPECT_EQ(y_[6], 7);
  EXPECT_THAT(fault_of(lane_dependent, arguments(1)),
              testing::MatchesRegex(".*shuffle_xor at executor_test.cc:[0-9]+ is not reached by all threads.*"));
  EXPECT_THAT(fault_of(lane_dependent, arguments(2)),
              testing::MatchesRegex(".*shuffle_xor at executor_test.cc:[0-9]+, while lane 0 is in shuffle_xor at .*"));
}

void early_end(Arguments a) {
  if (a.mistake == 1 && thread() >= 32) return;
  if (a.mistake == 2 && thread() >= 32) {
    sync_block();
  } else {
    sync_block();
  }
  a.y[global_thread()] = 1;
}

TEST_F(Executor, ABarrierThatSomeThreadsMissNamesItsLine) {
  EXPECT_EQ(fault_of(early_end, arguments()), "");
  EXPECT_THAT(fault_of(early_end, arguments(1)),
              testing::MatchesRegex(".*sync_block at executor_test.cc:[0-9]+ is not reached by all threads.*"));
  EXPECT_THAT(fault_of(early_end, arguments(2)), HasSubstr("while another thread is in the one at"));
}

void out_of_bounds(Arguments a) {
  const int i = global_thread();
  if (a.mistake == 2) store128(load128(a.x, i + 1), a.y, i);
  a.y[i] = a.x[a.mistake == 1 ? i + 1 : i];
}

TEST_F(Executor, AccessesOutsideATensorAndMisalignedOnesAreFound) {
  EXPECT_EQ(fault_of(out_of_bounds, arguments()), "");
  EXPECT_THAT(fault_of(out_of_bounds, arguments(1)), HasSubstr("outside its memory: element 128 of 128"));
  EXPECT_THAT(fault_of(out_of_bounds, arguments(2)), HasSubstr("not a multiple of 16"));
}

void shared_bounds(Arguments a) {
  SharedMemory memory;
  const auto shared = memory.take<float, 64>("values");
  shared[thread() + a.mistake] = 1;
}

TEST_F(Executor, AccessesOutsideSharedMemoryAreFound) {
  EXPECT_EQ(fault_of(shared_bounds, arguments()), "");
  EXPECT_THAT(fault_of(shared_bounds, arguments(1)), HasSubstr("shared array values: element 64 of 64"));
  EXPECT_THAT(fault_of(shared_bounds, arguments(), 64, 128), HasSubstr("exceeds the 128 bytes of the launch"));
}

void unwritten(Arguments a) {
  SharedMemory memory;
  const auto shared = memory.take<float, 64>("values");
  if (a.mistake == 0 || thread() != 5) shared[thread()] = 1;
  sync_block();
  a.y[global_thread()] = shared[thread()];
}

TEST_F(Executor, AnElementThatNobodyWroteIsFound) {
  EXPECT_EQ(fault_of(unwritten, arguments()), "");
  EXPECT_THAT(fault_of(unwritten, arguments(1)), HasSubstr("values[5] is read before any thread wrote it"));
}

void copies(Arguments a) {
  SharedMemory memory;
  const auto shared = memory.take<float, 256>("values");
  const int first = 4 * (thread() % 16);
  const int half = thread() / 16 % 2;  // two groups of 64 elements for 32 threads
  if (thread() < 16) {
    copy_async16(shared, first, a.x, first, true);
    if (a.mistake != 3) copy_async_commit();
    copy_async16(shared, 64 + first, a.x, 64 + first, half == 0);
    copy_async_commit();
    if (a.mistake != 1) copy_async_wait<1>();
  }
  sync_block();
  a.y[global_thread()] = shared[a.mistake == 2 ? 64 + thread() : thread()];
  if (thread() < 16) copy_async_wait<0>();
}

TEST_F(Executor, CopiesArriveAtTheirWaitGroupByGroup) {
  EXPECT_EQ(fault_of(copies, arguments()), "");
  EXPECT_EQ(y_[63], 63);
  EXPECT_THAT(fault_of(copies, arguments(1)), HasSubstr("is read before its copy was awaited"));
  EXPECT_THAT(fault_of(copies, arguments(2)), HasSubstr("is read before its copy was awaited"));
  EXPECT_THAT(fault_of(copies, arguments(3)), HasSubstr("is read before its copy was awaited"))
      << "both copies are one group, the last one";
}

void unawaited(Arguments a) {
  SharedMemory memory;
  const auto shared = memory.take<float, 256>("values");
  copy_async16(shared, 4 * thread(), a.x, 0, a.mistake == 0);
  copy_async_commit();
}

TEST_F(Executor, ACopyThatIsNeverAwaitedIsFound) {
  EXPECT_THAT(fault_of(unawaited, arguments()), HasSubstr("ends with copies that it did not await"));
}

/// One 16 x 8 x 16 product with operands from shared memory; mistakes: another row or column of a fragment.
void product(Arguments a) {
  SharedMemory memory;
  const auto left = memory.take<bf16_t, 256>("left");
  const auto right = memory.take<bf16_t, 256>("right");
  const int lane = thread();
  for (int i = lane; i < 256; i += 32) {
    left[i] = to_bf16(static_cast<float>(i % 7) - 3);
    right[i] = to_bf16(static_cast<float>(3 * i % 11) - 5);
  }
  sync_block();
  uint32_t x[4], w[4];
  ldmatrix_x4(x, left, (lane & 15) * 16 + 8 * (lane >> 4));
  if (a.mistake == 1) {
    ldmatrix_x4(w, right, ((lane & 7) + 8 * (lane >> 4)) * 16 + 8 * (lane >> 3 & 1));
  } else {
    ldmatrix_x4_transposed(w, right, (lane & 15) * 16 + 8 * (lane >> 4));
  }
  float sum[4] = {};
  mma(sum, x, a.mistake == 2 ? w[1] : w[0], a.mistake == 2 ? w[0] : w[1], bf16_t{});
  const int g = lane >> 2, t = 2 * (lane & 3);
  if (block_x() == 0)
    for (int r = 0; r < 4; ++r) a.y[(g + 8 * (r >> 1)) * 8 + t + (r & 1)] = sum[r];
}

TEST_F(Executor, ProductsHaveTheLayoutOfTensorCores) {
  std::vector<float> want(128);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j)
      for (int k = 0; k < 16; ++k)
        want[static_cast<size_t>(i * 8 + j)] +=
            (static_cast<float>((i * 16 + k) % 7) - 3) * (static_cast<float>(3 * (k * 16 + j) % 11) - 5);
  EXPECT_EQ(fault_of(product, arguments(), 32), "");
  EXPECT_EQ(y_, want);
  for (int mistake : {1, 2}) {
    EXPECT_EQ(fault_of(product, arguments(mistake), 32), "");
    EXPECT_NE(y_, want) << mistake;
  }
}

void votes(Arguments a) {
  const uint32_t odd = ballot(thread() % 2 == 1);
  const int below = shuffle_up(thread() % 32, 2), of_seven = shuffle(thread() % 32, 7);
  a.y[global_thread()] = static_cast<float>(bit_count(odd) * 10000 + below * 100 + of_seven);
}

TEST_F(Executor, VotesAndShufflesOfAWarp) {
  EXPECT_EQ(fault_of(votes, arguments()), "");
  EXPECT_EQ(y_[0], 160007);
  EXPECT_EQ(y_[1], 160107);
  EXPECT_EQ(y_[127], 162907);
}

TEST_F(Executor, ABlockThatIsNoMultipleOfAWarpIsRefused) {
  EXPECT_THAT(fault_of(votes, arguments(), 40), HasSubstr("a block of 40"));
}

}  // namespace
}  // namespace trireme::gpu
