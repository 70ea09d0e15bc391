#include "comm/communicator.h"

#include "tests/support/communicator_suite.h"
#include "tests/support/local_ranks.h"

namespace trireme {
namespace {

using std::chrono::microseconds;

CommunicatorCase local_case(std::string name, int size, LocalOptions options = {}) {
  return {std::move(name), [=](const OnOneRank& test) {
            run_local(
                size, [&](RankContext& rank) { test(rank.world); }, options);
          }};
}

CommunicatorCase half_of(std::string name, int size, LocalOptions options = {}) {
  return {std::move(name), [=](const OnOneRank& test) {
            run_local(
                size, [&](RankContext& rank) { test(*rank.world.split(rank.rank() % 2, -rank.rank())); }, options);
          }};
}

LocalOptions everything_late() {
  return {.delay = random_delays(7, microseconds(300)), .rendezvous = true, .progress_in_test = true};
}

INSTANTIATE_TEST_SUITE_P(Local, CommunicatorSuite,
                         testing::Values(local_case("One", 1), local_case("Two", 2), local_case("Three", 3),
                                         local_case("Four", 4), local_case("Seven", 7),
                                         local_case("Rendezvous", 3, {.rendezvous = true}),
                                         local_case("ProgressInTest", 4, {.progress_in_test = true}),
                                         local_case("Delays", 3, {.delay = random_delays(3, microseconds(500))}),
                                         local_case("EverythingLate", 4, everything_late()), half_of("Halves", 5),
                                         half_of("LateHalves", 4, everything_late())),
                         case_name);

INSTANTIATE_TEST_SUITE_P(Single, CommunicatorSuite, testing::Values(process_case("Single", make_single)), case_name);

TEST(Handle, WithoutAnOperationIsDone) {
  Handle handle;
  EXPECT_TRUE(handle.test());
  handle.wait("nothing");
}

}  // namespace
}  // namespace trireme
