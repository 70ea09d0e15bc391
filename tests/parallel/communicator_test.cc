#include "comm/communicator.h"

#include "comm/mpi.h"
#include "tests/support/communicator_suite.h"
#include "tests/support/parallel.h"

namespace trireme {

std::unique_ptr<Communicator> copy_of_world() { return test_process().world().split(0, test_process().rank()); }
/// Every call is cut into MPI calls of at most 5 elements, as counts above 2^30 are.
std::unique_ptr<Communicator> world_in_small_parts() {
  return test_process().size() > 1 ? mpi::world(5) : make_single();
}
std::unique_ptr<Communicator> one_of_two_halves() {
  return test_process().world().split(test_process().rank() % 2, test_process().rank());
}

INSTANTIATE_TEST_SUITE_P(Mpi, CommunicatorSuite,
                         testing::Values(process_case("World", copy_of_world),
                                         process_case("SmallParts", world_in_small_parts),
                                         process_case("Halves", one_of_two_halves)),
                         case_name);

TEST(Process, CountsTheRanksOfThisHost) {
  EXPECT_EQ(test_process().local_size(), test_process().size());  // tests run on one host
  EXPECT_EQ(test_process().local_rank(), test_process().rank());
}

TEST(MpiErrors, AreCommErrorsThatNameTheCall) {
  if (test_process().size() == 1) GTEST_SKIP() << "needs several ranks";
  const auto group = test_process().world().split(0, test_process().rank());
  std::vector<float> large(8), small(2);
  if (test_process().rank() == 0) {
    group->send(View(std::span(large), Shape{8}), 1, 3).wait("test");
  } else if (test_process().rank() == 1) {
    try {
      group->receive(View(std::span(small), Shape{2}), 0, 3).wait("test");
      ADD_FAILURE() << "expected an error";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::comm);
      EXPECT_EQ(std::string(e.what()).find("receive failed: "), 0u) << e.what();
    }
  }
  test_process().world().barrier().wait("test");
}

}  // namespace trireme
